package moodle

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"

	"github.com/stagepost/stagepost/app/archive/source"
)

// assign archives each participant's submission with all attempts, feedback and files.
type assign struct{}

func (assign) needs() []string {
	return []string{"core_enrol_get_enrolled_users", "mod_assign_get_assignments", "mod_assign_get_submissions"}
}

type plugin struct {
	Type  string `json:"type"`
	Areas []struct {
		Area  string    `json:"area"`
		Files []content `json:"files"`
	} `json:"fileareas"`
	Fields []struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Text        string `json:"text"`
	} `json:"editorfields"`
}

type submission struct {
	ID       int      `json:"id"`
	User     int      `json:"userid"`
	Attempt  int      `json:"attemptnumber"`
	Modified int64    `json:"timemodified"`
	Status   string   `json:"status"`
	Group    int      `json:"groupid"`
	Plugins  []plugin `json:"plugins"`
}

type grade struct {
	ID       int    `json:"id"`
	User     int    `json:"userid"`
	Attempt  int    `json:"attemptnumber"`
	Modified int64  `json:"timemodified"`
	Grade    string `json:"grade"`
}

// submissions are those of an assignment, with grades.
type submissions struct {
	all   []submission
	marks []grade
	raw   map[string][]byte // answers by the function
}

func (assign) submissions(ctx context.Context, s *Source, a source.Activity) (*submissions, error) {
	p := params{"assignmentids": []string{a.Instance}}
	out := &submissions{raw: map[string][]byte{}}
	call := func(function string, into any) error {
		raw, err := s.c.call(ctx, function, p, into)
		out.raw[function] = raw
		return err
	}
	var answer struct {
		Assignments []struct {
			Submissions []submission `json:"submissions"`
		} `json:"assignments"`
	}
	if err := call("mod_assign_get_submissions", &answer); err != nil {
		return nil, err
	}
	var grades struct {
		Assignments []struct {
			Grades []grade `json:"grades"`
		} `json:"assignments"`
	}
	if lacks, err := s.lacks(ctx, "mod_assign_get_grades"); err != nil {
		return nil, err
	} else if lacks == "" {
		if err := call("mod_assign_get_grades", &grades); err != nil {
			return nil, err
		}
	}
	for _, one := range answer.Assignments {
		out.all = append(out.all, one.Submissions...)
	}
	for _, one := range grades.Assignments {
		out.marks = append(out.marks, one.Grades...)
	}
	slices.SortFunc(out.all, func(a, b submission) int { return a.ID - b.ID })
	slices.SortFunc(out.marks, func(a, b grade) int { return a.ID - b.ID })
	return out, nil
}

func (k assign) state(ctx context.Context, s *Source, a source.Activity) (any, error) {
	raw, err := k.settings(ctx, s, a)
	if err != nil {
		return nil, err
	}
	var set struct {
		Modified int64 `json:"timemodified"`
	}
	if raw != nil {
		if err := json.Unmarshal(raw, &set); err != nil {
			return nil, &source.Error{Op: "mod_assign_get_assignments", Err: err}
		}
	}
	found, err := k.submissions(ctx, s, a)
	if err != nil {
		return nil, err
	}
	submissions, grades := make([]any, 0, len(found.all)), make([]any, 0, len(found.marks))
	for _, one := range found.all {
		var files [][]any
		for _, p := range one.Plugins {
			for _, area := range p.Areas {
				for _, f := range area.Files {
					files = append(files, []any{area.Area, f.Path, f.Name, f.Size, f.Modified})
				}
			}
		}
		submissions = append(submissions, []any{one.ID, one.Status, one.Attempt, one.Modified, files})
	}
	for _, one := range found.marks {
		grades = append(grades, []any{one.ID, one.Grade, one.Modified})
	}
	return map[string]any{"timemodified": set.Modified, "submissions": submissions, "grades": grades}, nil
}

func (assign) settings(ctx context.Context, s *Source, a source.Activity) (json.RawMessage, error) {
	var answer struct {
		Courses []struct {
			Assignments []json.RawMessage `json:"assignments"`
		} `json:"courses"`
	}
	p := params{"courseids": []string{a.Course}, "includenotenrolledcourses": 1}
	if _, err := s.c.call(ctx, "mod_assign_get_assignments", p, &answer); err != nil {
		return nil, err
	}
	for _, c := range answer.Courses {
		for _, raw := range c.Assignments {
			var one struct {
				Module int `json:"cmid"`
			}
			if json.Unmarshal(raw, &one) == nil && strconv.Itoa(one.Module) == a.ID {
				return raw, nil
			}
		}
	}
	return nil, nil
}

func (k assign) plan(
	ctx context.Context, s *Source, a source.Activity, _ source.Settings,
) (*source.Plan, error) {
	out := &source.Plan{Items: []source.Item{{Key: "assignment", Title: "Settings and the list of submissions"}}}
	lacks, err := s.lacks(ctx, "mod_assign_list_participants", "mod_assign_get_submission_status")
	if err != nil {
		return nil, err
	}
	people, err := s.people(ctx, a.Course)
	if err != nil {
		return nil, err
	}
	found, err := k.submissions(ctx, s, a)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	add := func(p source.Person) {
		if !seen[p.ID] {
			seen[p.ID] = true
			item := source.Item{Key: "user-" + p.ID, Title: "Submission of " + p.Name, Person: p.ID}
			out.Items = append(out.Items, item)
			out.People = append(out.People, p)
		}
	}
	if lacks != "" {
		out.Warnings = append(out.Warnings, "without "+lacks+", feedback and earlier attempts are missing")
	} else {
		var participants []user
		p := params{"assignid": a.Instance, "groupid": 0, "filter": ""}
		if _, err := s.c.call(ctx, "mod_assign_list_participants", p, &participants); err != nil {
			return nil, err
		}
		for _, u := range participants {
			add(u.person())
		}
	}
	for _, one := range found.all { // also of people who are not listed as participants any more
		id := strconv.Itoa(one.User)
		if at := slices.IndexFunc(people, func(p source.Person) bool { return p.ID == id }); at >= 0 {
			add(people[at])
		} else if one.User != 0 {
			add(source.Person{ID: id, Name: "user " + id})
		}
	}
	return out, nil
}

// submissionStatus is what is known of a participant.
type submissionStatus struct {
	Last *struct {
		Submission *submission `json:"submission"`
		Team       *submission `json:"teamsubmission"`
	} `json:"lastattempt"`
	Feedback *struct {
		Grade   *grade   `json:"grade"`
		Shown   string   `json:"gradefordisplay"`
		Plugins []plugin `json:"plugins"`
	} `json:"feedback"`
	Previous []struct {
		Number     int         `json:"attemptnumber"`
		Submission *submission `json:"submission"`
		Grade      *grade      `json:"grade"`
		Feedback   []plugin    `json:"feedbackplugins"`
	} `json:"previousattempts"`
}

func (k assign) fetch(
	ctx context.Context, s *Source, a source.Activity, item source.Item, _ source.Settings, out source.Out,
) error {
	if item.Key == "assignment" {
		return k.overview(ctx, s, a, out)
	}
	lacks, err := s.lacks(ctx, "mod_assign_get_submission_status")
	if err != nil {
		return err
	}
	if lacks != "" {
		return k.latest(ctx, s, a, item, out)
	}
	dir, origin := submissionOf(a, item)
	var status submissionStatus
	answer, err := s.c.call(ctx, "mod_assign_get_submission_status",
		params{"assignid": a.Instance, "userid": item.Person}, &status)
	if err != nil {
		return err
	}
	name := "mod_assign_get_submission_status-" + source.SafeName(item.Person)
	if err := s.putAnswer(ctx, out, name, origin, answer); err != nil {
		return err
	}
	doc := document{Title: a.Name, Facts: [][2]string{{"Person", item.Title}}}
	w := newSubmissionWriter(s, out, dir, item.Person, &doc)
	if err := w.status(ctx, &status); err != nil {
		return err
	}
	return s.putPage(ctx, out, path.Join(dir, "submission.html"), origin, doc)
}

// status writes the files of all attempts with feedback, and adds their texts to the page.
func (w *submissionWriter) status(ctx context.Context, status *submissionStatus) error {
	doc := w.doc
	if status.Last != nil {
		for _, sub := range []*submission{status.Last.Submission, status.Last.Team} {
			if sub != nil {
				doc.Facts = append(doc.Facts, [2]string{"Status", sub.Status}, [2]string{"Changed", when(sub.Modified)})
				if err := w.plugins(ctx, fmt.Sprintf("attempt-%d", sub.Attempt+1), sub.Plugins); err != nil {
					return err
				}
			}
		}
	}
	if f := status.Feedback; f != nil {
		doc.Facts = append(doc.Facts, [2]string{"Grade", plainText(f.Shown)})
		if err := w.plugins(ctx, "feedback", f.Plugins); err != nil {
			return err
		}
	}
	for _, p := range status.Previous {
		name := fmt.Sprintf("attempt-%d", p.Number+1)
		if p.Grade != nil {
			doc.Facts = append(doc.Facts, [2]string{fmt.Sprintf("Grade of attempt %d", p.Number+1), p.Grade.Grade})
		}
		if p.Submission != nil {
			if err := w.plugins(ctx, name, p.Submission.Plugins); err != nil {
				return err
			}
		}
		if err := w.plugins(ctx, name+"-feedback", p.Feedback); err != nil {
			return err
		}
	}
	return nil
}

// submissionOf returns the directory of a participant's files, and their origin.
func submissionOf(a source.Activity, item source.Item) (dir string, origin source.Origin) {
	return path.Join("submissions", source.SafeName("user"+item.Person)),
		source.Origin{URL: a.URL, Person: item.Person}
}

// latest archives what mod_assign_get_submissions gives: the latest attempt, without feedback.
func (k assign) latest(
	ctx context.Context, s *Source, a source.Activity, item source.Item, out source.Out,
) error {
	found, err := k.submissions(ctx, s, a)
	if err != nil {
		return err
	}
	dir, origin := submissionOf(a, item)
	doc := document{Title: a.Name, Facts: [][2]string{{"Person", item.Title}}}
	w := newSubmissionWriter(s, out, dir, item.Person, &doc)
	for _, sub := range found.all {
		if strconv.Itoa(sub.User) != item.Person {
			continue
		}
		doc.Facts = append(doc.Facts, [2]string{"Status", sub.Status}, [2]string{"Changed", when(sub.Modified)})
		if err := w.plugins(ctx, fmt.Sprintf("attempt-%d", sub.Attempt+1), sub.Plugins); err != nil {
			return err
		}
	}
	return s.putPage(ctx, out, path.Join(dir, "submission.html"), origin, doc)
}

// submissionWriter writes the files of one participant.
type submissionWriter struct {
	s           *Source
	out         source.Out
	dir, person string
	doc         *document
	names       source.Names
	files       int
}

func newSubmissionWriter(s *Source, out source.Out, dir, person string, doc *document) *submissionWriter {
	return &submissionWriter{s: s, out: out, dir: dir, person: person, doc: doc, names: source.Names{}}
}

func (w *submissionWriter) plugins(ctx context.Context, under string, plugins []plugin) error {
	for _, p := range plugins {
		for _, f := range p.Fields {
			if f.Text != "" {
				w.doc.Parts = append(w.doc.Parts, "<h2>"+htmlEscape(under+": "+f.Description)+"</h2>"+f.Text)
			}
		}
		for _, area := range p.Areas {
			for _, f := range area.Files {
				w.files++
				name := path.Join(under, source.SafeName(area.Area), safePath(f.Path, f.Name))
				name = w.names.For(strconv.Itoa(w.files), name)
				if err := w.s.keep(ctx, w.out, path.Join(w.dir, name), f, w.person); err != nil {
					return err
				}
				w.doc.Files = append(w.doc.Files, name)
			}
		}
	}
	return nil
}

func (k assign) overview(ctx context.Context, s *Source, a source.Activity, out source.Out) error {
	origin := source.Origin{URL: a.URL}
	raw, err := k.settings(ctx, s, a)
	if err != nil {
		return err
	}
	if raw != nil {
		if err := s.putJSON(ctx, out, "metadata/activity.json", origin, raw); err != nil {
			return err
		}
	}
	found, err := k.submissions(ctx, s, a)
	if err != nil {
		return err
	}
	for _, function := range slices.Sorted(maps.Keys(found.raw)) {
		if err := s.putAnswer(ctx, out, function, origin, found.raw[function]); err != nil {
			return err
		}
	}
	rows := [][]string{{"submission", "user", "group", "attempt", "status", "changed", "grade"}}
	for _, one := range found.all {
		mark := ""
		for _, g := range found.marks {
			if g.User == one.User && g.Attempt == one.Attempt {
				mark = g.Grade
			}
		}
		rows = append(rows, []string{strconv.Itoa(one.ID), strconv.Itoa(one.User), strconv.Itoa(one.Group),
			strconv.Itoa(one.Attempt + 1), one.Status, when(one.Modified), mark})
	}
	return putTable(ctx, out, "metadata/submissions.csv", origin, rows)
}
