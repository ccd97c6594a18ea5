package moodle

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/source/moodle/page"
)

// quiz archives each attempt: the report as HTML, the answer of the web service, and the files of responses.
type quiz struct{}

// Functions for attempts: Moodle 5 deprecates the first one.
const (
	oldAttempts = "mod_quiz_get_user_attempts"
	newAttempts = "mod_quiz_get_user_quiz_attempts"
)

// notStarted is the state of attempts that Moodle 5 makes before people begin. They have no review.
const notStarted = "notstarted"

func (quiz) needs() []string {
	return []string{
		"core_enrol_get_enrolled_users", "mod_quiz_get_quizzes_by_courses", oldAttempts, "mod_quiz_get_attempt_review",
	}
}

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

// attempts are those of a quiz.
type attempts struct {
	people []source.Person
	all    []attempt
	raw    map[string]json.RawMessage // answers by the person, for people with attempts
}

// parallel is the number of requests to a Moodle at once: there is one for each person.
const parallel = 4

// inParallel calls do for 0 to n-1. After the first error it starts no further call, and returns that error.
func inParallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(parallel, n) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// person gives the person of an attempt.
func (a *attempts) person(one attempt) source.Person {
	id := strconv.Itoa(one.User)
	if i := slices.IndexFunc(a.people, func(p source.Person) bool { return p.ID == id }); i >= 0 {
		return a.people[i]
	}
	return source.Person{ID: id, Name: "user " + id}
}

// attempts lists those of all people who are enrolled: no function gives those of a quiz at once.
func (quiz) attempts(ctx context.Context, s *Source, a source.Activity) (*attempts, error) {
	i, err := s.info(ctx)
	if err != nil {
		return nil, err
	}
	function := oldAttempts
	if i.has[newAttempts] {
		function = newAttempts
	}
	out := &attempts{raw: map[string]json.RawMessage{}}
	if out.people, err = s.people(ctx, a.Course); err != nil {
		return nil, err
	}
	answers := make([]struct {
		Attempts []attempt
		raw      []byte
	}, len(out.people))
	err = inParallel(ctx, len(out.people), func(ctx context.Context, i int) (err error) {
		q := params{"quizid": a.Instance, "userid": out.people[i].ID, "status": "all", "includepreviews": 0}
		answers[i].raw, err = s.c.call(ctx, function, q, &answers[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, p := range out.people {
		if len(answers[i].Attempts) > 0 {
			out.raw[p.ID] = answers[i].raw
		}
		out.all = append(out.all, answers[i].Attempts...)
	}
	slices.SortFunc(out.all, func(a, b attempt) int { return a.ID - b.ID })
	return out, nil
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
	found, err := q.attempts(ctx, s, a)
	if err != nil {
		return nil, err
	}
	list := make([]any, 0, len(found.all))
	for _, one := range found.all {
		list = append(list, []any{one.ID, one.State, one.Modified, one.Grades, one.Notified})
	}
	return map[string]any{"timemodified": modified, "attempts": list}, nil
}

// attemptItem is the data of an item.
type attemptItem struct {
	Attempt int           `json:"attempt"`
	Person  source.Person `json:"person"`
	Folder  string        `json:"folder"`
	File    string        `json:"file"` // without extension
}

func (q quiz) plan(
	ctx context.Context, s *Source, a source.Activity, set source.Settings,
) (*source.Plan, error) {
	names, warnings, err := newAttemptNames(ctx, s, a, set)
	if err != nil {
		return nil, err
	}
	if _, err := sectionsOf(set); err != nil {
		return nil, err
	}
	found, err := q.attempts(ctx, s, a)
	if err != nil {
		return nil, err
	}
	out := &source.Plan{
		Items: []source.Item{{Key: "quiz", Title: "Settings and the list of attempts"}}, Warnings: warnings,
	}
	for _, one := range found.all {
		if one.State == notStarted {
			continue
		}
		p := found.person(one)
		data, err := json.Marshal(names.item(a, one, p))
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
		Slot  int    `json:"slot"`
		HTML  string `json:"html"`
		Areas []struct {
			Area  string    `json:"area"`
			Files []content `json:"files"`
		} `json:"responsefileareas"`
	} `json:"questions"`
	Additional []struct {
		ID      string `json:"id"`
		Title   string `json:"title"`
		Content string `json:"content"`
	} `json:"additionaldata"`
}

// Parts of the report of an attempt, with the classes of their elements in the HTML of questions.
var reportParts = map[string][]string{
	"header": nil, "quiz_feedback": nil, "question": nil, "attachments": nil,
	"question_feedback": {"specificfeedback"},
	"general_feedback":  {"generalfeedback"},
	"rightanswer":       {"rightanswer"},
	"history":           {"history", "responsehistoryheader"},
}

// sectionsOf gives the parts of a report to archive.
func sectionsOf(set source.Settings) (map[string]bool, error) {
	out := map[string]bool{}
	for name := range reportParts {
		out[name] = set.Sections == nil
	}
	for _, name := range set.Sections {
		if _, ok := reportParts[name]; !ok {
			return nil, &source.Error{Op: "sections of attempts", Code: "invalidparameter",
				Err: fmt.Errorf("unknown section %q", name)}
		}
		out[name] = true
	}
	return out, nil
}

func (q quiz) fetch(
	ctx context.Context, s *Source, a source.Activity, item source.Item, set source.Settings, out source.Out,
) error {
	if item.Key == "quiz" {
		return q.overview(ctx, s, a, out)
	}
	var at attemptItem
	if err := item.Decode(&at); err != nil {
		return err
	}
	parts, err := sectionsOf(set)
	if err != nil {
		return err
	}
	var r review
	const function = "mod_quiz_get_attempt_review"
	answer, err := s.c.call(ctx, function, params{"attemptid": at.Attempt, "page": -1}, &r)
	if err != nil {
		return err
	}
	origin := source.Origin{Person: at.Person.ID, Modified: stamp(r.Attempt.Modified)}
	origin.URL = fmt.Sprintf("%s/mod/quiz/review.php?attempt=%d", s.c.base, at.Attempt)
	if err := s.putAnswer(ctx, out, fmt.Sprintf("%s-%d", function, at.Attempt), origin, answer); err != nil {
		return err
	}
	doc := r.document(a, at.Person, parts)
	if parts["attachments"] {
		if doc.Files, err = q.attachments(ctx, s, &r, at, out); err != nil {
			return err
		}
	}
	return s.putPage(ctx, out, path.Join(at.Folder, at.File+".html"), origin, doc)
}

// document makes the report of an attempt.
func (r *review) document(a source.Activity, p source.Person, parts map[string]bool) document {
	doc := document{Title: a.Name}
	if parts["header"] {
		doc.Facts = [][2]string{
			{"Person", p.Name}, {"Number", p.Number}, {"Attempt", strconv.Itoa(r.Attempt.Number)},
			{"State", r.Attempt.State}, {"Begun", when(r.Attempt.Start)}, {"Finished", when(r.Attempt.Finish)},
			{"Grade", text(r.Grade)},
		}
	}
	for _, more := range r.Additional {
		if parts["header"] && more.ID != "feedback" || parts["quiz_feedback"] && more.ID == "feedback" {
			doc.Facts = append(doc.Facts, [2]string{more.Title, plainText(more.Content)})
		}
	}
	var classes []string
	for name, of := range reportParts {
		if !parts[name] {
			classes = append(classes, of...)
		}
	}
	for _, one := range r.Questions {
		if parts["question"] {
			doc.Parts = append(doc.Parts, page.WithoutClasses(one.HTML, classes))
		}
	}
	return doc
}

// attachments keeps the files of the responses.
func (quiz) attachments(
	ctx context.Context, s *Source, r *review, at attemptItem, out source.Out,
) (files []string, err error) {
	names := source.Names{}
	for _, one := range r.Questions {
		for _, area := range one.Areas {
			for i, f := range area.Files {
				name := path.Join("attachments", strconv.Itoa(one.Slot), safePath(f.Path, f.Name))
				name = names.For(fmt.Sprintf("%d/%s/%d", one.Slot, area.Area, i), name)
				if err := s.keep(ctx, out, path.Join(at.Folder, name), f, at.Person.ID); err != nil {
					return nil, err
				}
				files = append(files, name)
			}
		}
	}
	return files, nil
}

// overview writes the settings of the quiz, and a table of its attempts.
func (q quiz) overview(ctx context.Context, s *Source, a source.Activity, out source.Out) error {
	settings, _, err := q.settings(ctx, s, a)
	if err != nil {
		return err
	}
	origin := source.Origin{URL: a.URL}
	if settings != nil {
		if err := s.putJSON(ctx, out, "metadata/activity.json", origin, settings); err != nil {
			return err
		}
	}
	found, err := q.attempts(ctx, s, a)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(found.raw)
	if err != nil {
		return err
	}
	if err := s.putAnswer(ctx, out, oldAttempts, origin, raw); err != nil {
		return err
	}
	rows := [][]string{{
		"attempt", "user", "username", "name", "number", "try", "state", "begun", "finished", "sum of grades",
	}}
	for _, one := range found.all {
		p, sum := found.person(one), ""
		if one.Grades != nil {
			sum = text(*one.Grades)
		}
		rows = append(rows, []string{strconv.Itoa(one.ID), p.ID, p.Username, p.Name, p.Number, strconv.Itoa(one.Number),
			one.State, when(one.Start), when(one.Finish), sum})
	}
	return putTable(ctx, out, "metadata/attempts_metadata.csv", origin, rows)
}
