package engine

import (
	"context"
	"fmt"

	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Discard is part of operator.Acts.
func (e operators) Discard(ctx context.Context, a operator.Act) (job.Job, error) {
	entered := false
	for try := 1; ; try++ {
		j, err := e.discard(ctx, &a, &entered)
		if job.KindOf(err) != job.Conflict || a.Version != 0 || try == 5 {
			return j, err
		}
	}
}

// discard is one attempt. entered reports whether the audit list has the entry.
func (e operators) discard(ctx context.Context, a *operator.Act, entered *bool) (job.Job, error) {
	j, err := e.store.Get(ctx, a.Job)
	if err != nil {
		return j, err
	}
	w := e.workOf(j.Kind)
	ev, batchIn, err := e.discardable(ctx, w, &j, a)
	if err != nil || j.Gone {
		return j, err
	}
	by := a.By
	if by == 0 {
		by = lifecycle.Operator
	}
	if !*entered { // first: the audit list has the request even if the process crashes now
		entry := operator.Entry{By: by, Actor: a.Actor, Event: ev, Object: string(j.ID), Note: a.Note}
		if err := e.Audit(ctx, entry); err != nil {
			return j, err
		}
		*entered = true
	}
	note := fmt.Sprintf("%s (%s) requested it early", a.Actor, by)
	if a.Note != "" {
		note += ": " + a.Note
	}
	t := newTransition(w, &j, e.clock.Now())
	if err := t.move(ev, lifecycle.Timer); err != nil {
		return j, err
	}
	t.asRead(a.Actor)
	t.Seen, t.Note = a.Version, note
	t.Require.Idle, t.Require.ParentIn = true, batchIn
	next, err := e.one(ctx, t)
	if err != nil {
		return j, err
	}
	return next, nil
}

// discardable returns the event that clears job j away, and the states in which its batch must be at the commit. Both
// are empty for a tombstone.
func (e *Engine) discardable(
	ctx context.Context, w *Work, j *job.Job, a *operator.Act,
) (ev lifecycle.Event, batchIn []lifecycle.State, err error) {
	refuse := func(format string, args ...any) error {
		return job.Errorf(job.Refused, "discard", j.ID, format, args...)
	}
	switch {
	case a.Actor == "":
		return "", nil, job.Errorf(job.Invalid, "discard", j.ID, "it needs an actor")
	case a.Version != 0 && a.Version != j.Version:
		return "", nil, job.Errorf(job.Conflict, "discard", j.ID,
			"it changed meanwhile: it is %s at version %d, you saw version %d", j.State, j.Version, a.Version)
	case j.Gone:
		return "", nil, nil
	case w == nil:
		return "", nil, refuse("this engine does not know the kind %s", j.Kind)
	case !w.supports(j):
		return "", nil, refuse("%s", w.foreign(j).Sentence)
	case !j.Ended:
		return "", nil, refuse("it has not ended (%s): only what has ended can be cleared away", j.State)
	case j.Children.Open > 0:
		return "", nil, refuse("%d of its jobs are still running", j.Children.Open)
	}
	ev, ok := w.Life.Choose(j.Position, lifecycle.Move, lifecycle.Timer)
	if !ok {
		return "", nil, refuse("nothing is cleared away of a job that is %s", j.State)
	}
	if j.Parent != "" {
		batchIn, err = e.endsOf(ctx, j.Parent)
		switch {
		case job.KindOf(err) == job.NotFound: // it was purged: no report will list the job
			err = nil
		case err != nil:
			return "", nil, err
		case batchIn == nil:
			return "", nil, refuse("its batch %s has not ended, and the batch's report will list the job", j.Parent)
		}
	}
	return ev, batchIn, err
}
