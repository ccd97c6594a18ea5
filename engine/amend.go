package engine

import (
	"context"

	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Amend is part of operator.Acts.
func (e operators) Amend(
	ctx context.Context, a operator.Act, object string, change operator.Correction,
) (job.Job, error) {
	if a.Actor == "" || a.Note == "" {
		return job.Job{}, job.Errorf(job.Invalid, string(a.Event), a.Job,
			"it needs an actor and a note with the reason")
	}
	if a.By == 0 {
		a.By = lifecycle.Operator
	}
	entered := false
	for try := 1; ; try++ {
		j, err := e.amend(ctx, &a, object, change, &entered)
		if job.KindOf(err) != job.Conflict || a.Version != 0 || try == 5 {
			return j, err
		}
	}
}

func (e operators) amend(
	ctx context.Context, a *operator.Act, object string, change operator.Correction, entered *bool,
) (job.Job, error) {
	j, err := e.store.Get(ctx, a.Job)
	switch {
	case err != nil:
		return j, err
	case a.Version != 0 && a.Version != j.Version:
		return j, job.Errorf(job.Conflict, string(a.Event), j.ID,
			"it changed meanwhile: it is %s at version %d, you saw version %d", j.State, j.Version, a.Version)
	case j.Claimed():
		return j, job.Errorf(job.Conflict, string(a.Event), j.ID, "a worker has it")
	}
	tasks, data, err := change(&j)
	if err != nil {
		return j, err
	}
	now := e.clock.Now()
	for i := range tasks {
		tasks[i].Epoch, tasks[i].Changed = j.Epoch, now
	}
	if !*entered {
		entry := operator.Entry{By: a.By, Actor: a.Actor, Event: a.Event, Object: object, Note: a.Note}
		if err := e.Audit(ctx, entry); err != nil {
			return j, err
		}
		*entered = true
	}
	t := newTransition(e.workOf(j.Kind), &j, now)
	t.asRead(a.Actor)
	t.Tasks, t.Set.Data = tasks, data
	next, err := e.one(ctx, t)
	if err != nil {
		return j, err
	}
	return next, nil
}
