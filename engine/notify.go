package engine

import (
	"context"

	"github.com/stagepost/stagepost/job"
)

// Notify records tasks of a job that its worker did not report; tasks of the same name are replaced. A worker with the
// claim keeps it and is notified ([Run.Changed]). A job that waits unclaimed by [Wait] or [Run.Rest] with the code
// becomes due in the same commit; an empty code makes none due. Notify may be repeated. Errors: NotFound, Refused for a
// job that has ended, Conflict after 20 tries, Unavailable if it is unknown whether the commit was applied.
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
	t := newTransition(e.workOf(j.Kind), &j, now)
	t.Keep, t.Tasks = true, append([]job.Task{}, tasks...)
	for i := range t.Tasks {
		t.Tasks[i].Epoch, t.Tasks[i].Changed = j.Epoch, now
	}
	if j.Claimed() { // a concurrent commit of its worker is no conflict
		t.underClaim(e.name)
	} else {
		t.asRead(e.name)
		if due = code != "" && j.Cause == code && j.Due.After(now); due {
			t.setDue(now)
		}
	}
	_, err = e.one(ctx, t)
	return due, err
}
