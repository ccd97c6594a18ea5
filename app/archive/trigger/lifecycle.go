package trigger

import (
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Kind is the kind of runs of schedules.
const Kind job.Kind = "archive.run"

// The states of a run.
const (
	Pending   lifecycle.State = "Pending"
	Running   lifecycle.State = "Running"
	Completed lifecycle.State = "Completed"
	Failed    lifecycle.State = "Failed"
	Cancelled lifecycle.State = "Cancelled"
	Deleted   lifecycle.State = "Deleted"
)

// The events of a run.
const (
	Begin  lifecycle.Event = "begin"
	Finish lifecycle.Event = "finish"
	Fail   lifecycle.Event = "fail"
	Cancel lifecycle.Event = "cancel"
	Delete lifecycle.Event = "delete"
)

// Short names for the table below.
const (
	byWorker   = lifecycle.Worker
	byTimer    = lifecycle.Timer
	byOperator = lifecycle.Operator
)

// RunLife is the lifecycle of a run of a schedule. A run is not retried: the next one decides anew.
var RunLife = lifecycle.Must(string(Kind),
	lifecycle.OnQueue(Pending, "A time of the schedule came, or a person started it; it waits for other runs of its "+
		"source.",
		lifecycle.OnPass(Begin, Running, byWorker, "The schedule is valid."),
		lifecycle.OnFail(Fail, Failed, byWorker|byTimer, "The source of the schedule does not exist any more."),
		onCancel("Cancelled before any job was started."),
	),
	lifecycle.OnWork(Running, "A worker compares the activities of each course with their newest archives, and starts "+
		"archive jobs.",
		lifecycle.OnPass(Finish, Completed, byWorker, "Every course was compared; the record has what was decided."),
		lifecycle.OnFail(Fail, Failed, byWorker|byTimer,
			"The source could not be read; jobs that were started continue."),
		onCancel("It stops before the next course; jobs that were started continue."),
	),
	lifecycle.OnEnd(Completed, lifecycle.OK, "The record has what was decided about each activity.", onDelete()),
	lifecycle.OnEnd(Failed, lifecycle.Failed, "The message has the reason; the next run decides anew.", onDelete()),
	lifecycle.OnEnd(Cancelled, lifecycle.Cancelled, "A person stopped it; the next run decides anew.", onDelete()),
	lifecycle.OnEnd(Deleted, lifecycle.None, "Only the tombstone is left, until it is purged."),
)

func onCancel(doc string) lifecycle.Transition {
	return lifecycle.On(Cancel, Cancelled, byOperator, doc).Sets(lifecycle.Cancelled)
}

func onDelete() lifecycle.Transition {
	return lifecycle.On(Delete, Deleted, byOperator|byTimer, "Its record is not needed any more; its jobs keep theirs.")
}
