package moodle

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/app/archive/source"
)

// quiz archives each attempt: the report as HTML, the answer of the web service, and the files of responses.
type quiz struct{}

type attempt struct {
	ID       int      `json:"id"`
	User     int      `json:"userid"`
	Number   int      `json:"attempt"`
	Preview  int      `json:"preview"`
	State    string   `json:"state"`
	Start    int64    `json:"timestart"`
	Finish   int64    `json:"timefinish"`
	Modified int64    `json:"timemodified"`
	Grades   *float64 `json:"sumgrades"`
	Notified *int64   `json:"gradednotificationsenttime"`
}

// attempts lists those of all people who are enrolled: no function gives those of a quiz at once.
func (quiz) attempts(ctx context.Context, s *Source, a source.Activity) ([]source.Person, []attempt, error) {
	people, err := s.people(ctx, a.Course)
	if err != nil {
		return nil, nil, err
	}
	function, name := "mod_quiz_get_user_attempts", "userid"
	if i, err := s.info(ctx); err != nil {
		return nil, nil, err
	} else if i.has["mod_quiz_get_user_quiz_attempts"] {
		function = "mod_quiz_get_user_quiz_attempts"
	}
	var all []attempt
	for _, p := range people {
		var answer struct{ Attempts []attempt }
		q := params{"quizid": a.Instance, name: p.ID, "status": "all", "includepreviews": 0}
		if _, err := s.c.call(ctx, function, q, &answer); err != nil {
			return nil, nil, err
		}
		all = append(all, answer.Attempts...)
	}
	slices.SortFunc(all, func(a, b attempt) int { return a.ID - b.ID })
	return people, all, nil
}

func (q quiz) settings(ctx context.Context, s *Source, a source.Activity) (json.RawMessage, int64, error) {
	var answer struct{ Quizzes []json.RawMessage }
	const function = "mod_quiz_get_quizzes_by_courses"
	if _, err := s.c.call(ctx, function, params{"courseids": []string{a.Course}}, &answer); err != nil {
		return nil, 0, err
	}
	for _, raw := range answer.Quizzes {
		var one struct {
			Module   int   `json:"coursemodule"`
			Modified int64 `json:"timemodified"`
		}
		if json.Unmarshal(raw, &one) == nil && strconv.Itoa(one.Module) == a.ID {
			return raw, one.Modified, nil
		}
	}
	return nil, 0, nil // hidden from the account; the attempts suffice
}

func (q quiz) state(ctx context.Context, s *Source, a source.Activity) (any, error) {
	_, modified, err := q.settings(ctx, s, a)
	if err != nil {
		return nil, err
	}
	_, attempts, err := q.attempts(ctx, s, a)
	if err != nil {
		return nil, err
	}
	list := make([]any, 0, len(attempts))
	for _, one := range attempts {
		list = append(list, []any{one.ID, one.State, one.Modified, one.Grades, one.Notified})
	}
	return map[string]any{"timemodified": modified, "attempts": list}, nil
}

func (q quiz) plan(
	ctx context.Context, s *Source, a source.Activity, set source.Settings,
) (*source.Plan, error) {
	people, attempts, err := q.attempts(ctx, s, a)
	if err != nil {
		return nil, err
	}
	out := &source.Plan{Items: []source.Item{{Key: "quiz", Title: "Settings and the list of attempts"}}}
	by := map[string]source.Person{}
	for _, p := range people {
		by[p.ID] = p
	}
	for _, one := range attempts {
		p := by[strconv.Itoa(one.User)]
		data, err := json.Marshal(one)
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, source.Item{
			Key: fmt.Sprintf("attempt-%d", one.ID), Title: fmt.Sprintf("Attempt %d of %s", one.Number, p.Name),
			Person: p.ID, Data: data,
		})
		if !slices.ContainsFunc(out.People, func(o source.Person) bool { return o.ID == p.ID }) {
			out.People = append(out.People, p)
		}
	}
	out.Warnings = append(out.Warnings, "attempts of people who are no longer enrolled are in a backup only")
	return out, nil
}

type review struct {
	Grade     any `json:"grade"`
	Attempt   attempt
	Questions []struct {
		Slot   int     `json:"slot"`
		Type   string  `json:"type"`
		Number string  `json:"questionnumber"`
		HTML   string  `json:"html"`
		Status string  `json:"status"`
		Mark   string  `json:"mark"`
		Max    float64 `json:"maxmark"`
		Areas  []struct {
			Area  string    `json:"area"`
			Files []content `json:"files"`
		} `json:"responsefileareas"`
	} `json:"questions"`
	Additional []struct {
		Title   string `json:"title"`
		Content string `json:"content"`
	} `json:"additionaldata"`
}

func (q quiz) fetch(
	ctx context.Context, s *Source, a source.Activity, item source.Item, set source.Settings, out source.Out,
) error {
	if item.Key == "quiz" {
		return q.overview(ctx, s, a, out)
	}
	var at attempt
	if err := json.Unmarshal(item.Data, &at); err != nil {
		return err
	}
	var r review
	answer, err := s.c.call(ctx, "mod_quiz_get_attempt_review", params{"attemptid": at.ID, "page": -1}, &r)
	if err != nil {
		return err
	}
	people, err := s.people(ctx, a.Course)
	if err != nil {
		return err
	}
	var p source.Person
	for _, one := range people {
		if one.ID == item.Person {
			p = one
		}
	}
	who := firstOf(p.Username, p.Number, "user"+p.ID)
	dir := path.Join("attempts", source.SafeName(fmt.Sprintf("%s-%d", who, at.ID)))
	origin := source.Origin{Person: p.ID, Modified: stamp(r.Attempt.Modified)}
	origin.URL = fmt.Sprintf("%s/mod/quiz/review.php?attempt=%d", s.c.base, at.ID)
	if err := putBytes(ctx, out, path.Join(dir, "answers.json"), "application/json", origin, answer); err != nil {
		return err
	}
	doc := document{Title: a.Name, Facts: [][2]string{
		{"Person", p.Name}, {"Number", p.Number}, {"Attempt", strconv.Itoa(r.Attempt.Number)},
		{"State", r.Attempt.State}, {"Begun", when(r.Attempt.Start)}, {"Finished", when(r.Attempt.Finish)},
		{"Grade", text(r.Grade)},
	}}
	for _, more := range r.Additional {
		doc.Facts = append(doc.Facts, [2]string{more.Title, plainText(more.Content)})
	}
	for _, one := range r.Questions {
		doc.Parts = append(doc.Parts, one.HTML)
		for _, area := range one.Areas {
			for _, f := range area.Files {
				name := path.Join(dir, "attachments", strconv.Itoa(one.Slot), safePath(f.Path, f.Name))
				if err := s.keep(ctx, out, name, f, p.ID); err != nil {
					return err
				}
				doc.Files = append(doc.Files, strings.TrimPrefix(name, dir+"/"))
			}
		}
	}
	return s.putPage(ctx, out, path.Join(dir, "attempt.html"), origin, doc)
}

// overview writes the settings of the quiz, and a table of its attempts.
func (q quiz) overview(ctx context.Context, s *Source, a source.Activity, out source.Out) error {
	settings, _, err := q.settings(ctx, s, a)
	if err != nil {
		return err
	}
	origin := source.Origin{URL: a.URL}
	if settings != nil {
		if err := putBytes(ctx, out, "quiz.json", "application/json", origin, settings); err != nil {
			return err
		}
	}
	people, attempts, err := q.attempts(ctx, s, a)
	if err != nil {
		return err
	}
	rows := [][]string{{"attempt", "user", "username", "name", "number", "try", "state", "begun", "finished",
		"sum of grades"}}
	for _, one := range attempts {
		row := []string{strconv.Itoa(one.ID), strconv.Itoa(one.User), "", "", "", strconv.Itoa(one.Number), one.State,
			when(one.Start), when(one.Finish), ""}
		for _, p := range people {
			if p.ID == row[1] {
				row[2], row[3], row[4] = p.Username, p.Name, p.Number
			}
		}
		if one.Grades != nil {
			row[9] = strconv.FormatFloat(*one.Grades, 'f', -1, 64)
		}
		rows = append(rows, row)
	}
	return putTable(ctx, out, "attempts.csv", origin, rows)
}

// putTable writes CSV (RFC 4180) in UTF-8.
func putTable(ctx context.Context, out source.Out, name string, o source.Origin, rows [][]string) error {
	o.Type = "text/csv; charset=utf-8"
	return out.Put(ctx, name, o, func(w io.Writer) error {
		c := csv.NewWriter(w)
		c.UseCRLF = true
		return c.WriteAll(rows)
	})
}

func putBytes(ctx context.Context, out source.Out, name, kind string, o source.Origin, b []byte) error {
	o.Type = kind
	return out.Put(ctx, name, o, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// keep downloads a file of the Moodle.
func (s *Source) keep(ctx context.Context, out source.Out, name string, f content, person string) error {
	u, err := s.c.fileURL(f.URL)
	if err != nil {
		return &source.Error{Op: name, Err: err}
	}
	u.RawQuery = ""
	o := source.Origin{URL: u.String(), Type: f.MIME, Modified: stamp(f.Modified), Person: person}
	return out.Put(ctx, name, o, func(w io.Writer) error {
		_, err := s.c.download(ctx, f.URL, w)
		return err
	})
}
