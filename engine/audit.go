package engine

import (
	"context"

	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Operator returns the side of the engine for operators, beside [Engine.Do].
func (e *Engine) Operator() operator.Acts { return operators{e} }

// operators implements operator.Acts.
type operators struct{ *Engine }

// Audit is part of operator.Acts.
func (e operators) Audit(ctx context.Context, n operator.Entry) error {
	if n.By == 0 {
		n.By = lifecycle.Operator
	}
	return e.store.Note(ctx, job.Audit{
		At: e.clock.Now(), By: n.By, Actor: n.Actor, Event: n.Event, Object: n.Object, Note: n.Note,
		Address: job.AddressOf(ctx),
	})
}

// Nudge makes a job due that waits by [Wait] with the code: what it waits for may have happened. It does not change a
// job that is due or ended, that waits for something else, or that backs off after an error. A job that this engine
// works on is made due if its present attempt returns such a wait.
func (e *Engine) Nudge(ctx context.Context, id job.ID, code string) error {
	e.mu.Lock()
	if r := e.running[id]; r != nil {
		r.nudge(code)
	}
	e.mu.Unlock()
	j, err := e.store.Get(ctx, id)
	if err != nil {
		return err
	}
	now := e.clock.Now()
	if j.Claimed() || j.Ended || j.Cause != code || !j.Due.After(now) {
		return nil
	}
	t := newTransition(e.workOf(j.Kind), &j, now)
	t.asRead("")
	t.From = j.State
	t.setDue(now)
	_, err = e.one(ctx, t)
	switch job.KindOf(err) {
	case "":
		e.wakeDispatcher()
	case job.Conflict, job.Stale: // another commit moved it
		return nil
	}
	return err
}

// Admit makes a job due that was ordered with a later Due, and removes its tags: what the application had to find out
// about it is known. It does not change a job that is claimed or has ended, and returns the record in any case.
func (e *Engine) Admit(ctx context.Context, id job.ID) (job.Job, error) {
	for try := 1; ; try++ {
		j, err := e.store.Get(ctx, id)
		if err != nil || j.Claimed() || j.Ended {
			return j, err
		}
		now := e.clock.Now()
		t := newTransition(e.workOf(j.Kind), &j, now)
		t.asRead("")
		t.From, t.Set.Tags = j.State, []string{}
		t.setDue(now)
		next, err := e.one(ctx, t)
		if job.KindOf(err) == job.Conflict && try < 5 {
			continue // a person changed it
		}
		e.wakeDispatcher()
		return next, err
	}
}
