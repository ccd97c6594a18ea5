package moodle

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"

	"github.com/stagepost/stagepost/app/archive/source"
)

// forum archives each discussion with its posts and attachments.
type forum struct{}

func (forum) needs() []string {
	return []string{"core_enrol_get_enrolled_users", "mod_forum_get_forums_by_courses",
		"mod_forum_get_forum_discussions", "mod_forum_get_discussion_posts"}
}

type discussion struct {
	ID       int    `json:"discussion"`
	Name     string `json:"name"`
	User     int    `json:"userid"`
	Author   string `json:"userfullname"`
	Modified int64  `json:"timemodified"`
	Replies  int    `json:"numreplies"`
}

func (forum) discussions(ctx context.Context, s *Source, a source.Activity) ([]discussion, error) {
	var all []discussion
	for page := 0; ; page++ {
		var answer struct {
			Discussions []discussion `json:"discussions"`
		}
		p := params{"forumid": a.Instance, "page": page, "perpage": 100}
		if _, err := s.c.call(ctx, "mod_forum_get_forum_discussions", p, &answer); err != nil {
			return nil, err
		}
		before := len(all)
		for _, d := range answer.Discussions { // a Moodle that ignores pages gives the same again
			if !slices.ContainsFunc(all, func(o discussion) bool { return o.ID == d.ID }) {
				all = append(all, d)
			}
		}
		if len(answer.Discussions) < 100 || len(all) == before {
			slices.SortFunc(all, func(a, b discussion) int { return a.ID - b.ID })
			return all, nil
		}
	}
}

func (f forum) state(ctx context.Context, s *Source, a source.Activity) (any, error) {
	all, err := f.discussions(ctx, s, a)
	if err != nil {
		return nil, err
	}
	list := make([]any, 0, len(all))
	for _, d := range all {
		list = append(list, []any{d.ID, d.Modified, d.Replies})
	}
	return map[string]any{"discussions": list}, nil
}

func (f forum) plan(
	ctx context.Context, s *Source, a source.Activity, _ source.Settings,
) (*source.Plan, error) {
	all, err := f.discussions(ctx, s, a)
	if err != nil {
		return nil, err
	}
	out := &source.Plan{Items: []source.Item{{Key: "forum", Title: "Settings"}}}
	if out.People, err = s.people(ctx, a.Course); err != nil {
		return nil, err
	}
	for _, d := range all {
		author := strconv.Itoa(d.User)
		enrolled := slices.ContainsFunc(out.People, func(p source.Person) bool { return p.ID == author })
		if !enrolled {
			out.People = append(out.People, source.Person{ID: author, Name: firstOf(d.Author, "user "+author)})
		}
		data, err := json.Marshal(d)
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, source.Item{
			Key: fmt.Sprintf("discussion-%d", d.ID), Title: d.Name, Person: author, Data: data,
		})
	}
	return out, nil
}

func (f forum) fetch(
	ctx context.Context, s *Source, a source.Activity, item source.Item, _ source.Settings, out source.Out,
) error {
	if item.Key == "forum" {
		return f.settings(ctx, s, a, out)
	}
	var d discussion
	if err := item.Decode(&d); err != nil {
		return err
	}
	var answer struct {
		Posts []struct {
			ID      int    `json:"id"`
			Subject string `json:"subject"`
			Message string `json:"message"`
			Author  struct {
				Name string `json:"fullname"`
			} `json:"author"`
			Created     int64 `json:"timecreated"`
			Attachments []struct {
				Path string `json:"filepath"`
				Name string `json:"filename"`
				Size int64  `json:"filesize"`
				URL  string `json:"url"`
				File string `json:"fileurl"`
				MIME string `json:"mimetype"`
				Time int64  `json:"timemodified"`
			} `json:"attachments"`
		} `json:"posts"`
	}
	const function = "mod_forum_get_discussion_posts"
	raw, err := s.c.call(ctx, function, params{"discussionid": d.ID}, &answer)
	if err != nil {
		return err
	}
	dir := path.Join("discussions", strconv.Itoa(d.ID))
	address := fmt.Sprintf("%s/mod/forum/discuss.php?d=%d", s.c.base, d.ID)
	origin := source.Origin{URL: address, Modified: stamp(d.Modified)}
	if err := s.putAnswer(ctx, out, fmt.Sprintf("%s-%d", function, d.ID), origin, raw); err != nil {
		return err
	}
	doc := document{Title: d.Name, Facts: [][2]string{{"Forum", plainText(a.Name)}}}
	names := source.Names{}
	for i := range answer.Posts {
		p := answer.Posts[len(answer.Posts)-1-i] // the newest is first
		doc.Parts = append(doc.Parts, fmt.Sprintf("<h2>%s</h2><p>%s, %s</p>%s",
			htmlEscape(plainText(p.Subject)), htmlEscape(p.Author.Name), when(p.Created), p.Message))
		for j, at := range p.Attachments {
			name := path.Join("attachments", strconv.Itoa(p.ID), safePath(at.Path, at.Name))
			name = names.For(fmt.Sprintf("%d/%d", p.ID, j), name)
			one := content{Name: at.Name, URL: firstOf(at.File, at.URL), MIME: at.MIME, Modified: at.Time}
			if err := s.keep(ctx, out, path.Join(dir, name), one, ""); err != nil {
				return err
			}
			doc.Files = append(doc.Files, name)
		}
	}
	return s.putPage(ctx, out, path.Join(dir, "discussion.html"), origin, doc)
}

func (forum) settings(ctx context.Context, s *Source, a source.Activity, out source.Out) error {
	var all []json.RawMessage
	p := params{"courseids": []string{a.Course}}
	if _, err := s.c.call(ctx, "mod_forum_get_forums_by_courses", p, &all); err != nil {
		return err
	}
	for _, raw := range all {
		var one struct {
			Module int `json:"cmid"`
		}
		if json.Unmarshal(raw, &one) == nil && strconv.Itoa(one.Module) == a.ID {
			return s.putJSON(ctx, out, "metadata/activity.json", source.Origin{URL: a.URL}, raw)
		}
	}
	return nil
}
