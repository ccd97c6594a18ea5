package archive

import (
	"maps"
	"time"

	"github.com/stagepost/stagepost/app/archive/notify"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// jobEvents names the events of a job's states. All other changes of state are updates.
var jobEvents = map[lifecycle.State]string{
	Completed: notify.JobCompleted, Failure: notify.JobFailed, Timeout: notify.JobFailed, Cancelled: notify.JobAborted,
	Deleted: notify.JobDeleted,
}

// taskEvents names the events of a task's states. All other changes are updates.
var taskEvents = map[lifecycle.State]string{
	Finished: notify.TaskCompleted, Failed: notify.TaskFailed, TimedOut: notify.TaskFailed,
	Cancelled: notify.TaskAborted,
}

// announce gives the messages of a transition.
func (a *App) announce(j *job.Job, to *job.Change) []job.Message {
	all := a.Announce(j, to)
	after, _, err := job.Apply(*j, to)
	if err != nil || after.State == j.State { // the commit will be refused for the same reason
		return all
	}
	var types []string
	if j.State == Uninitialized {
		types = append(types, notify.JobCreated)
	}
	if typ, ok := jobEvents[after.State]; ok {
		types = append(types, typ)
	} else if j.State != Uninitialized {
		types = append(types, notify.JobUpdated)
	}
	var r Request
	if decode(j.Spec, &r) != nil {
		return all // Submit made it of a request
	}
	return append(all, a.notifier.OfJob(types, after.Seq, to.At, notify.Job{
		Job: j.ID, Source: r.Source, Course: r.Course, Before: j.State, State: after.State, Outcome: after.Outcome,
		Event: to.Event, Cause: after.Cause, Message: after.Message,
	})...)
}

// Deliver has the deliveries of the application's messages.
func (a *App) Deliver() map[string]engine.Deliver {
	all := maps.Clone(a.Custody.Deliver())
	all[notify.Topic] = a.notifier.Deliver
	return all
}

// wall is the time by the clock of the machine, as receivers know it.
func (a *App) wall() time.Time {
	if a.engine == nil {
		return time.Now()
	}
	return a.engine.Clock().Wall()
}

// put records a task with the next commit, and its event if its state or attempt changed. before is the task as it was;
// the zero Task: there was none.
func (t *task) put(before, one job.Task) error {
	t.PutTask(one)
	if before.State == one.State && before.Attempts == one.Attempts {
		return nil
	}
	typ, ok := taskEvents[one.State]
	switch {
	case ok:
	case before.State == "":
		typ = notify.TaskCreated
	default:
		typ = notify.TaskUpdated
	}
	for _, m := range t.app.notifier.OfTask(typ, t.Now(), notify.Task{
		Job: t.Job().ID, Task: one.Name, State: one.State, Attempts: one.Attempts, Message: one.Message,
	}) {
		if err := t.Send(m.Topic, m.Key, m.Body); err != nil {
			return err
		}
	}
	return nil
}
