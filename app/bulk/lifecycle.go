package bulk

import (
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Kind is the kind of a bulk.
const Kind job.Kind = "bulk"

// The states of a bulk.
const (
	Pending   lifecycle.State = "Pending"
	Running   lifecycle.State = "Running"
	Completed lifecycle.State = "Completed"
	Failed    lifecycle.State = "Failed"
	Cancelled lifecycle.State = "Cancelled"
	Deleted   lifecycle.State = "Deleted"
)

// The events of a bulk.
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

// Life is the lifecycle of a bulk. A bulk cannot be retried: another bulk with a count of its own does the rest.
var Life = lifecycle.Must(string(Kind),
	lifecycle.OnQueue(Pending, "An operator created it; a worker counts the jobs that match.",
		lifecycle.OnPass(Begin, Running, byWorker, "As many jobs match as the operator expects."),
		lifecycle.OnFail(Fail, Failed, byWorker|byTimer,
			"Another number of jobs matches, or the request is invalid; nothing was done."),
		onCancel("Cancelled before anything was done."),
	),
	lifecycle.OnWork(Running, "A worker processes the matches, oldest first.",
		lifecycle.OnPass(Finish,
			Completed, byWorker, "Every match was done, refused or had changed concurrently, and at least one was "+
				"not refused."),
		lifecycle.OnFail(Fail, Failed,
			byWorker|byTimer, "No job was done and some were refused, or the bulk could not continue; what was done "+
				"stays done."),
		onCancel("It stops before the next job; what was done stays done."),
	),
	lifecycle.OnEnd(Completed, lifecycle.OK,
		"All matches are processed; the message has the numbers of jobs done and refused.", onDelete()),
	lifecycle.OnEnd(Failed, lifecycle.Failed,
		"Nothing was done, or the bulk could not continue; the message has the reason.", onDelete()),
	lifecycle.OnEnd(Cancelled, lifecycle.Cancelled, "An operator stopped it; what was done until then stays done.",
		onDelete()),
	lifecycle.OnEnd(Deleted, lifecycle.None, "Only the tombstone is left, until it is purged."),
)

func onCancel(doc string) lifecycle.Transition {
	return lifecycle.On(Cancel, Cancelled, byOperator, doc).Sets(lifecycle.Cancelled)
}

func onDelete() lifecycle.Transition {
	return lifecycle.On(Delete,
		Deleted, byOperator|byTimer,
		"Its record is not needed any more; the histories of the jobs keep what was done to them.")
}
