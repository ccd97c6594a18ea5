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

// Short words for the table below.
const (
	byWorker   = lifecycle.Worker
	byTimer    = lifecycle.Timer
	byOperator = lifecycle.Operator
)

// Life is the whole life of a bulk. It cannot be retried: what it did not do may be asked for again as another bulk, with a count of its own.
var Life = lifecycle.Must(string(Kind),
	lifecycle.OnQueue(Pending, "An operator brings it here; a worker counts the jobs that match.",
		lifecycle.OnPass(Begin, Running, byWorker, "As many jobs match as the operator expects."),
		lifecycle.OnFail(Fail, Failed, byWorker|byTimer, "Another number of jobs matches, or the request cannot be met; nothing was done."),
		onCancel("Called off before anything was done."),
	),
	lifecycle.OnWork(Running, "A worker goes through the matches, oldest first.",
		lifecycle.OnPass(Finish, Completed, byWorker, "Every match was done, refused or had changed meanwhile, and at least one was not refused."),
		lifecycle.OnFail(Fail, Failed, byWorker|byTimer, "Not one could be done and some were refused, or it could not go on; what was done stays done."),
		onCancel("It stops before the next job; what was done stays done."),
	),
	lifecycle.OnEnd(Completed, lifecycle.OK, "It went through all matches; the message says how many were done and how many refused.", onDelete()),
	lifecycle.OnEnd(Failed, lifecycle.Failed, "Nothing was done, or it could not go on; the message says why.", onDelete()),
	lifecycle.OnEnd(Cancelled, lifecycle.Cancelled, "An operator stopped it; what was done until then stays done.", onDelete()),
	lifecycle.OnEnd(Deleted, lifecycle.None, "Only the tombstone is left, until it is purged."),
)

func onCancel(doc string) lifecycle.Arrow {
	return lifecycle.On(Cancel, Cancelled, byOperator, doc).Sets(lifecycle.Cancelled)
}

func onDelete() lifecycle.Arrow {
	return lifecycle.On(Delete, Deleted, byOperator|byTimer, "Its record is not needed any more; the histories of the jobs keep what was done to them.")
}
