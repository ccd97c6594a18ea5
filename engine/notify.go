package engine

import (
	"context"

	"github.com/stagepost/stagepost/job"
)

// Notify records tasks of a job that its worker did not report; tasks of the same name are replaced. A worker with the
// claim keeps it and is notified ([Run.Changed]). A job that waits unclaimed by [Wait] or [Run.Rest] with the code
// becomes due in the same commit. Notify may be repeated. Errors: NotFound, Refused for a job that has ended, Conflict
// after 20 tries, Unavailable if it is unknown whether the commit was applied.
func (e *Engine) Notify(ctx context.Context, id job.ID, code string, tasks ...job.Task) error {
	for try := 1; ; try++ {
		due, err := e.notify(ctx, id, code, tasks)
		switch kind := job.KindOf(err); {
		case err == nil && due:
			e.wakeDispatcher()
			return nil
		case (kind == job.Conflict || kind == job.Stale) && try < 20:
		case kind == job.Stale:
			return job.Errorf(job.Conflict, "notify", id, "%s", job.Reason(err))
		default:
			return err
		}
	}
}

// notify is one try. due reports whether the job was made due.
func (e *Engine) notify(ctx context.Context, id job.ID, code string, tasks []job.Task) (due bool, err error) {
	j, err := e.store.Get(ctx, id)
	if err != nil {
		return false, err
	}
	if j.Ended {
		return false, job.Errorf(job.Refused, "notify", id, "it has ended (%s)", j.State)
	}
	now := e.clock.Now()
	c := job.Change{Job: id, Keep: true, At: now, Actor: e.name, Tasks: append([]job.Task{}, tasks...)}
	for i := range c.Tasks {
		c.Tasks[i].Epoch, c.Tasks[i].Changed = j.Epoch, now
	}
	if j.Claimed() { // under the claim: a concurrent commit of its worker is no conflict
		c.Epoch = j.Epoch
	} else {
		c.Version = j.Version
		if due = j.Cause == code && j.Due.After(now); due {
			c.Set.Due = &now
		}
	}
	_, err = e.one(ctx, c)
	return due, err
}
