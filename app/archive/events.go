package archive

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/stagepost/stagepost/app/archive/notify"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
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
	all = append(all, a.mails(j, to, &r, &after)...)
	return append(all, a.notifier.OfJob(types, after.Seq, to.At, notify.Job{
		Job: j.ID, Source: r.Source, Course: r.Course, Before: j.State, State: after.State, Outcome: after.Outcome,
		Event: to.Event, Cause: after.Cause, Message: after.Message,
	})...)
}

// Deliver has the deliveries of the application's messages.
func (a *App) Deliver() map[string]engine.Deliver {
	all := maps.Clone(a.Custody.Deliver())
	all[notify.Topic] = a.notifier.Deliver
	all[notify.MailTopic] = func(ctx context.Context, m job.Message) error {
		if a.options.Mail == nil {
			return engine.Fail("mail", errors.New("this server sends no mail"))
		}
		return a.options.Mail.Deliver(ctx, m)
	}
	return all
}

// Receivers is part of module.Receiving.
func (a *App) Receivers() map[string]engine.Receiver {
	return map[string]engine.Receiver{notify.Topic: engine.ReceiverIn("hook")}
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

// mails gives the mails about the end of a job, or about its deletion. The settings of the job name the receivers.
func (a *App) mails(j *job.Job, to *job.Change, r *Request, after *job.Job) []job.Message {
	if _, ok := jobEvents[after.State]; !ok || a.options.Mail == nil {
		return nil
	}
	var d data
	if decode(after.Data, &d) != nil {
		return nil // a step made it
	}
	e := notify.End{
		Job: j.ID, Number: j.Number, Source: r.Source, Course: r.Course, Name: d.Course.Name, Before: j.State,
		State: after.State, Outcome: after.Outcome, Stored: j.State == Completed, At: to.At, Cause: after.Cause,
		Message: after.Message, Archived: len(d.Activities), Skipped: len(d.Skipped), Warnings: len(d.Warnings),
		Signed: d.Signed,
	}
	if after.State == Deleted {
		e.Outcome, e.Message = lifecycle.None, to.Note
	}
	if d.Package != nil {
		e.Package, e.Bytes, e.Retain = d.Package.Name, d.Package.Bytes, settings.Retain(&d.Settings, d.Packaged)
	}
	return notify.OfEnd(a.receivers(r, &d), after.Seq, e)
}

// receivers gives the addresses that the settings of a job name. A job that ends before they are fixed has those of its
// request and preset.
func (a *App) receivers(r *Request, d *data) []string {
	if d.Settings.Attempts > 0 { // validate requires it
		return d.Settings.Notify
	}
	s, err := a.settings(r)
	if err != nil {
		return r.Settings.Notify
	}
	return s.Notify
}

// accompany adds to the cancellation of a job who cancelled it and why: the record keeps it.
func (a *App) accompany(ctx context.Context, j *job.Job, act *operator.Act, to *job.Change) error {
	if act.Event == Cancel {
		text := "cancelled"
		if act.Actor != "" {
			text += " by " + act.Actor
		}
		if act.Note != "" {
			text += ": " + act.Note
		}
		to.Set.Message = &text
	}
	return a.Accompany(ctx, j, act, to)
}
