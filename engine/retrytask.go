package engine

import (
	"context"
	"slices"

	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// retryTask is the event under which [operator.Acts.RetryTask] stands in the audit log.
const retryTask lifecycle.Event = "retry-task"

// RetryTask is part of operator.Acts.
func (e operators) RetryTask(ctx context.Context, a operator.Act, name string) (job.Job, error) {
	if a.By == 0 {
		a.By = lifecycle.Operator
	}
	entered := false
	for try := 1; ; try++ {
		j, err := e.retryTask(ctx, &a, name, &entered)
		if job.KindOf(err) != job.Conflict || a.Version != 0 || try == 20 {
			return j, err
		}
	}
}

// retryTask is one try. Its commit is a Conflict if the job or the task has changed since it was read.
func (e operators) retryTask(ctx context.Context, a *operator.Act, name string, entered *bool) (job.Job, error) {
	j, err := e.store.Get(ctx, a.Job)
	if err != nil {
		return j, err
	}
	if a.Version != 0 && a.Version != j.Version {
		return j, job.Errorf(job.Conflict, string(retryTask), j.ID,
			"it changed meanwhile: it is %s at version %d, you saw version %d", j.State, j.Version, a.Version)
	}
	tasks, err := e.store.Tasks(ctx, j.ID)
	if err != nil {
		return j, err
	}
	at := slices.IndexFunc(tasks, func(t job.Task) bool { return t.Name == name })
	if at < 0 {
		return j, job.Errorf(job.NotFound, string(retryTask), j.ID, "it has no task %.200q", name)
	}
	again, err := e.Again(&j, &tasks[at], a.By)
	switch {
	case err != nil:
		return j, err
	case j.Ended:
		return j, job.Errorf(job.Refused, string(retryTask), j.ID, "it has ended (%s)", j.State)
	case a.Actor == "":
		return j, job.Errorf(job.Invalid, string(retryTask), j.ID, "it needs an actor, for the audit log")
	}
	if !*entered {
		entry := operator.Entry{By: a.By, Actor: a.Actor, Event: retryTask, Object: string(j.ID) + " " + name,
			Note: a.Note}
		if err := e.Audit(ctx, entry); err != nil {
			return j, err
		}
		*entered = true
	}
	now := e.clock.Now()
	again.Epoch, again.Changed = j.Epoch, now
	t := newTransition(e.workOf(j.Kind), &j, now)
	t.asRead(e.name)
	t.Keep, t.Tasks = true, []job.Task{again} // a worker with the claim keeps it and is notified
	next, err := e.one(ctx, t)
	if err != nil {
		return j, err
	}
	return next, nil
}

// Again returns a task as it is after a retry by an actor. Its error, of kind Refused, states why the task is not tried
// again on its own now.
func (e *Engine) Again(j *job.Job, t *job.Task, by lifecycle.Actor) (job.Task, error) {
	w := e.workOf(j.Kind)
	if w == nil || w.Again == nil {
		return job.Task{}, job.Errorf(job.Refused, string(retryTask), j.ID,
			"no task of the kind %s is tried again on its own", j.Kind)
	}
	return w.Again(j, t, by)
}
