package engine

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/engine/internal/block"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Do commits an event that a person causes. It ends the claim of a worker, except for transitions that ask the worker:
// then the claim stays, and a step in this process is notified ([Run.Changed]). Errors: NotFound, Refused (with the
// legal events), Conflict if the version is no longer current.
func (e *Engine) Do(ctx context.Context, a operator.Act) (job.Job, error) {
	for try := 1; ; try++ {
		j, err := e.do(ctx, &a)
		if job.KindOf(err) != job.Conflict || a.Version != 0 || try == 5 {
			return j, err
		}
	}
}

func (e *Engine) do(ctx context.Context, a *operator.Act) (job.Job, error) {
	j, err := e.store.Get(ctx, a.Job)
	if err != nil {
		return j, err
	}
	w := e.workOf(j.Kind)
	if w == nil {
		return j, job.Errorf(job.Refused, string(a.Event), j.ID, "this engine does not know the kind %s", j.Kind)
	}
	if a.Version != 0 && a.Version != j.Version {
		return j, job.Errorf(job.Conflict, string(a.Event), j.ID,
			"it changed meanwhile: it is %s at version %d, you saw version %d", j.State, j.Version, a.Version)
	}
	if !w.supports(&j) {
		return j, job.Errorf(job.Refused, string(a.Event), j.ID, "%s", w.foreign(&j).Sentence)
	}
	c, err := move(w, &j, a.Event, a.By, e.clock.Now())
	if err != nil {
		return j, err
	}
	if w.Allow != nil {
		if c.Require, err = w.Allow(ctx, &j, a); err != nil {
			return j, err
		}
	}
	c.Version, c.Seen, c.Actor, c.Note = j.Version, a.Version, a.Actor, a.Note
	transition, _ := w.Life.Transition(j.State, a.Event)
	if transition.Class == lifecycle.Reenter || transition.Restart {
		n, zero := j.Retries+1, 0
		c.Set.Retries, c.Set.Attempts = &n, &zero
		// a retry after the deadline cancels the deadline
		if now := c.At; !j.Deadline.IsZero() && !now.Before(j.Deadline) {
			never, expires := time.Time{}, w.expires(&j, c.To, now, time.Time{})
			c.Set.Deadline, c.Set.Expires = &never, &expires
		}
	}
	if transition.Ask { // a claim stays; without one the job is due at once
		c.Keep, c.Set.Due = true, &time.Time{}
	}
	if w.Accompany != nil {
		if err := w.Accompany(ctx, &j, a, &c); err != nil {
			return j, err
		}
		for i := range c.Tasks {
			c.Tasks[i].Epoch, c.Tasks[i].Changed = j.Epoch, c.At
		}
	}
	w.announce(&j, &c)
	return e.one(ctx, c)
}

// SetPriority is part of operator.Acts.
func (e operators) SetPriority(
	ctx context.Context, id job.ID, version int64, p int, actor, note string,
) (job.Job, error) {
	for try := 1; ; try++ {
		j, err := e.setPriority(ctx, id, version, p, actor, note)
		if job.KindOf(err) != job.Conflict || version != 0 || try == 5 {
			return j, err
		}
	}
}

func (e *Engine) setPriority(
	ctx context.Context, id job.ID, version int64, p int, actor, note string,
) (job.Job, error) {
	j, err := e.store.Get(ctx, id)
	if err != nil {
		return j, err
	}
	if version != 0 && version != j.Version {
		return j, job.Errorf(job.Conflict, "priority", j.ID, "it changed meanwhile")
	}
	if j.Ended {
		return j, job.Errorf(job.Refused, "priority", j.ID, "it has ended (%s): nothing waits for its turn", j.State)
	}
	w := e.workOf(j.Kind)
	if w == nil || !w.supports(&j) { // its definition may lack the event: only the record changes
		return e.one(ctx, job.Change{Job: id, Version: j.Version, At: e.clock.Now(), Set: job.Fields{Priority: &p}})
	}
	c, err := move(w, &j, lifecycle.Reprioritize, lifecycle.Operator, e.clock.Now())
	if err != nil {
		return j, err
	}
	c.Version, c.Seen, c.Actor, c.Note, c.Keep = j.Version, version, actor, note, true
	c.Set.Priority = &p
	if block.Exhausted(&j) {
		zero, empty := 0, ""
		c.Set.Due, c.Set.Attempts, c.Set.Starts, c.Set.Cause, c.Set.Message = &time.Time{}, &zero, &zero, &empty, &empty
	}
	return e.one(ctx, c)
}
