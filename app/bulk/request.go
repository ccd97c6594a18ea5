package bulk

import (
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/job/words"
	"github.com/stagepost/stagepost/lifecycle"
)

// Request defines the jobs and the event. Empty filters do not restrict, but one is required. Bulks themselves and
// tombstones never match.
type Request = api.Bulk

// Bounds of a request.
const (
	maxText   = 4096 // bytes of one text
	maxValues = 100  // of one filter
	maxNote   = 2000 // bytes; the bulk's id is appended
)

// check refuses an invalid request. The error is of kind Invalid.
func (a *App) check(r *Request) error {
	wrong := func(format string, args ...any) error { return job.Errorf(job.Invalid, "bulk", "", format, args...) }
	if len(r.Kinds)+len(r.States)+len(r.Outcomes)+len(r.Causes) == 0 &&
		r.Group+r.Owner+string(r.Parent)+r.Tag+r.Worker+r.Words == "" && r.Before.IsZero() {
		return wrong("a filter is required: kinds, states, outcomes, group, owner, parent, tag, causes, worker, " +
			"words or before")
	}
	for name, n := range map[string]int{"kinds": len(r.Kinds), "states": len(r.States), "outcomes": len(r.Outcomes),
		"causes": len(r.Causes)} {
		if n > maxValues {
			return wrong("%s has more than %d values", name, maxValues)
		}
	}
	for name, text := range map[string]string{"group": r.Group, "owner": r.Owner, "parent": string(r.Parent),
		"tag": r.Tag, "worker": r.Worker, "words": r.Words} {
		if len(text) > maxText {
			return wrong("%s is longer than %d bytes", name, maxText)
		}
	}
	if err := a.checkWords(r); err != nil {
		return err
	}
	for _, c := range r.Causes {
		if c == "" || len(c) > maxText {
			return wrong("a cause is a word, not %.40q", c)
		}
	}
	for _, o := range r.Outcomes {
		if !slices.Contains([]lifecycle.Outcome{lifecycle.OK, lifecycle.Failed, lifecycle.TimedOut,
			lifecycle.Cancelled}, o) {
			return wrong("unknown outcome %.40q", o)
		}
	}
	if len(r.Note) > maxNote {
		return wrong("the note is longer than %d bytes", maxNote)
	}
	return a.checkEvent(r)
}

// checkWords refuses words by which the store finds no jobs.
func (a *App) checkWords(r *Request) error {
	if r.Words == "" {
		return nil
	}
	sought := words.Sought(r.Words)
	if len(sought) == 0 {
		return job.Errorf(job.Invalid, "bulk", "", "words has no word: %.40q", r.Words)
	}
	if p := a.engine.Store().Properties(); !p.Words {
		return job.Errorf(job.Refused, "bulk", "", "a store of kind %s has no index of words: choose the jobs by "+
			"other filters, such as owner and group", p.Name)
	}
	return (&job.Query{Words: sought}).Check()
}

// checkEvent refuses kinds, states and events that no selected lifecycle has.
func (a *App) checkEvent(r *Request) error {
	wrong := func(format string, args ...any) error { return job.Errorf(job.Invalid, "bulk", "", format, args...) }
	lives, err := a.lives(r)
	if err != nil {
		return err
	}
	for _, s := range r.States {
		if !slices.ContainsFunc(lives, func(t *lifecycle.Table) bool { _, ok := t.Stage(s); return ok }) {
			return wrong("no selected lifecycle has a state %.40q (known: %s)", s, states(lives))
		}
	}
	if r.Event == "" {
		return wrong("the event is missing")
	}
	legal := []string{}
	for _, t := range lives {
		for _, s := range t.Stages() {
			for _, a := range s.Transitions {
				if a.By&lifecycle.Operator != 0 && !slices.Contains(legal, string(a.Event)) {
					legal = append(legal, string(a.Event))
				}
			}
		}
	}
	slices.Sort(legal)
	if !slices.Contains(legal, string(r.Event)) {
		return wrong("no operator can cause %.40q on these jobs (legal: %s)", r.Event, strings.Join(legal, ", "))
	}
	switch isPriority := r.Event == lifecycle.Reprioritize; {
	case isPriority && r.Priority == nil:
		return wrong("the event priority requires a value, 0 to 99")
	case !isPriority && r.Priority != nil:
		return wrong("a value of priority is for the event priority, not for %s", r.Event)
	case isPriority && (*r.Priority < job.FirstPriority || *r.Priority > job.LastPriority):
		return wrong("priority %d is not within 0..99", *r.Priority)
	}
	return nil
}

// states lists the states of lifecycles for a message.
func states(lives []*lifecycle.Table) string {
	var all []string
	for _, t := range lives {
		for _, s := range t.Stages() {
			all = append(all, string(s.State))
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// lives returns the lifecycles of the named kinds, or of all kinds of the engine except bulks.
func (a *App) lives(r *Request) ([]*lifecycle.Table, error) {
	kinds, known := r.Kinds, []string{}
	for _, k := range a.engine.Kinds() {
		if k != Kind {
			known = append(known, string(k))
			if len(r.Kinds) == 0 {
				kinds = append(kinds, k)
			}
		}
	}
	var lives []*lifecycle.Table
	for _, k := range kinds {
		t := a.engine.Life(k)
		if t == nil || k == Kind {
			return nil, job.Errorf(job.Invalid, "bulk", "", "unknown kind %.40q (known: %s)", k,
				strings.Join(known, ", "))
		}
		lives = append(lives, t)
	}
	return lives, nil
}

// query returns the store's query for a request: jobs last changed before a time, oldest first, a page of n. matches
// checks the filters that stores do not have.
func query(r *Request, before time.Time, n int) job.Query {
	if before.IsZero() || !r.Before.IsZero() && r.Before.Before(before) {
		before = r.Before
	}
	return job.Query{
		Kinds: r.Kinds, States: r.States, Outcomes: r.Outcomes, Group: r.Group, Owner: r.Owner, Parent: r.Parent,
		Tag: r.Tag, Causes: r.Causes, Worker: r.Worker, Words: words.Sought(r.Words), Ended: r.Ended,
		Before: before, Oldest: true, Limit: n,
	}
}

// matches reports whether a job from the query is to be processed.
func (a *App) matches(j *job.Job) bool {
	return j.Kind != Kind && !j.Gone && a.engine.Life(j.Kind) != nil
}
