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
// legal events), Conflict if the version is no longer current, Invalid without an actor, if a person acts.
func (e *Engine) Do(ctx context.Context, a operator.Act) (job.Job, error) {
	if a.By&(lifecycle.Operator|lifecycle.Owner) != 0 && a.Actor == "" {
		return job.Job{}, unnamed(string(a.Event), a.Job)
	}
	for try := 1; ; try++ {
		j, err := e.do(ctx, &a)
		if job.KindOf(err) != job.Conflict || a.Version != 0 || try == 5 {
			return j, err
		}
	}
}

// unnamed refuses an act of a person whose name is missing: histories and the audit list would not state who acted.
func unnamed(op string, id job.ID) error {
	return job.Errorf(job.Invalid, op, id, "it needs an actor: the name of the person")
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
	t := newTransition(w, &j, e.clock.Now())
	if err := t.move(a.Event, a.By); err != nil {
		return j, err
	}
	if w.Allow != nil {
		if t.Require, err = w.Allow(ctx, &j, a); err != nil {
			return j, err
		}
	}
	t.asRead(a.Actor)
	t.Seen, t.Note = a.Version, a.Note
	taken, _ := w.Life.Transition(j.State, a.Event)
	if taken.Class == lifecycle.Reenter || taken.Restart {
		n := j.Retries + 1
		t.Set.Retries = &n
		t.setAttempts(0)
		// a retry after the deadline cancels the deadline
		if now := t.At; !j.Deadline.IsZero() && !now.Before(j.Deadline) {
			t.Set.Deadline = &time.Time{}
			t.setExpires(w.expires(&j, t.To, now, time.Time{}))
		}
	}
	if taken.Ask { // a claim stays; without one the job is due at once
		t.Keep = true
		t.setDue(time.Time{})
	}
	if w.Accompany != nil {
		if err := w.Accompany(ctx, &j, a, t.Change); err != nil {
			return j, err
		}
		for i := range t.Tasks {
			t.Tasks[i].Epoch, t.Tasks[i].Changed = j.Epoch, t.At
		}
	}
	return e.one(ctx, t)
}

// SetPriority is part of operator.Acts.
func (e operators) SetPriority(
	ctx context.Context, id job.ID, version int64, p int, actor, note string,
) (job.Job, error) {
	if actor == "" {
		return job.Job{}, unnamed("priority", id)
	}
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
	t := newTransition(w, &j, e.clock.Now())
	t.Set.Priority = &p
	if w == nil || !w.supports(&j) { // its definition may lack the event: only the record changes
		t.asRead("")
		return e.one(ctx, t)
	}
	if err := t.move(lifecycle.Reprioritize, lifecycle.Operator); err != nil {
		return j, err
	}
	t.asRead(actor)
	t.Seen, t.Note, t.Keep = version, note, true
	if block.Exhausted(&j) {
		zero := 0
		t.setDue(time.Time{})
		t.setAttempts(0)
		t.Set.Starts, t.Set.Cause, t.Set.Message = &zero, &empty, &empty
	}
	return e.one(ctx, t)
}
