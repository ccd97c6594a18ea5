package archive

import "github.com/stagepost/stagepost/lifecycle"

// The states of archive jobs, and of the tasks they are made of.
const (
	Uninitialized     lifecycle.State = "Uninitialized"
	Queued            lifecycle.State = "Queued"
	PreProcessing     lifecycle.State = "PreProcessing"
	ActivityArchiving lifecycle.State = "ActivityArchiving"
	BackupCollection  lifecycle.State = "BackupCollection"
	PostProcessing    lifecycle.State = "PostProcessing"
	Store             lifecycle.State = "Store"
	Signing           lifecycle.State = "Signing"
	Error             lifecycle.State = "Error"
	RecoverableError  lifecycle.State = "RecoverableError"
	ErrorHandling     lifecycle.State = "ErrorHandling"
	Cleanup           lifecycle.State = "Cleanup"
	Completed         lifecycle.State = "Completed"
	Failure           lifecycle.State = "Failure"
	Timeout           lifecycle.State = "Timeout"
	Cancelled         lifecycle.State = "Cancelled" // jobs and tasks
	Deleted           lifecycle.State = "Deleted"

	Created  lifecycle.State = "Created"
	Running  lifecycle.State = "Running"
	Awaiting lifecycle.State = "Awaiting"
	Finished lifecycle.State = "Finished"
	Failed   lifecycle.State = "Failed"
	TimedOut lifecycle.State = "TimedOut"
)

// The events of both lifecycles. Where a state has the same word, the event's constant ends in Event.
const (
	Enqueue      lifecycle.Event = "enqueue"
	Begin        lifecycle.Event = "begin"
	Next         lifecycle.Event = "next"
	ErrorEvent   lifecycle.Event = "error"
	Recover      lifecycle.Event = "recover"
	Retry        lifecycle.Event = "retry"
	Fail         lifecycle.Event = "fail"
	TimeoutEvent lifecycle.Event = "timeout"
	Cancel       lifecycle.Event = "cancel"
	Finish       lifecycle.Event = "finish"
	Abort        lifecycle.Event = "abort"
	Delete       lifecycle.Event = "delete"
	Start        lifecycle.Event = "start"
	Wait         lifecycle.Event = lifecycle.Waiting // of a task: it leaves Running, where other lifecycles stay
)

// Short words for the tables below.
const (
	byWorker   = lifecycle.Worker
	byTimer    = lifecycle.Timer
	byOperator = lifecycle.Operator
	byOwner    = lifecycle.Owner
	byEngine   = lifecycle.Engine

	phaseAttempts = "attempts of the phase"
)

var (
	onPass    = lifecycle.OnPass
	onFail    = lifecycle.OnFail
	on        = lifecycle.On
	onReenter = lifecycle.OnReenter
)

// JobLife is the whole life of an archive job. Whatever stops a job, it goes through ErrorHandling and Cleanup with its
// outcome already decided and ends where the outcome says; only a job whose archive is stored and signed completes.
var JobLife = lifecycle.Must("archive.job",
	lifecycle.OnWait(Uninitialized, "A person or a schedule asks for an archive; the engine checks the settings and takes it away.",
		onPass(Enqueue, Queued, byEngine, "The settings are sound, and the presets that are locked were applied."),
		onFail(Fail, ErrorHandling, byTimer, "It was not made ready within the time for that.").Sets(lifecycle.Failed),
		onOverdue(), onCancel(),
	),
	lifecycle.OnQueue(Queued, "The engine brings it here; a worker takes it when a slot is free.",
		onPass(Begin, PreProcessing, byWorker, "Fewer jobs are active than max_concurrent_jobs allows."),
		onFail(Fail, ErrorHandling, byWorker|byTimer, "It cannot be started, and trying again would not help.").Sets(lifecycle.Failed),
		onOverdue(), onCancel(),
	),
	lifecycle.OnWork(PreProcessing, "A worker looks at the source and plans the tasks.",
		onPass(Next, ActivityArchiving, byWorker, "The source answers, the tasks are planned, the backups are requested."),
		onFail(Fail, ErrorHandling, byWorker|byTimer, "The source or the plan is unusable, and trying again would not help.").
			Sets(lifecycle.Failed),
		onOverdue(), onCancel(),
	),
	lifecycle.OnWork(ActivityArchiving, "A worker runs the archiving tasks, one for each activity.",
		onPass(Next, BackupCollection, byWorker, "Every archiving task is Finished, which is more than ended."),
		onError("An archiving task failed, or the phase took too long."),
		onOverdue(), onCancel(),
	),
	lifecycle.OnWork(BackupCollection, "A worker fetches the backups that the source made meanwhile.",
		onPass(Next, PostProcessing, byWorker, "Every backup is here and intact."),
		onError("A backup is missing or damaged, or did not come in time."),
		onOverdue(), onCancel(),
	),
	lifecycle.OnWork(PostProcessing, "A worker checks every artifact and then computes its checksums.",
		onPass(Next, Store, byWorker, "Integrity and then checksums are done for every artifact."),
		onError("An artifact is missing or damaged, or the phase took too long."),
		onOverdue(), onCancel(),
	),
	lifecycle.OnWork(Store, "A worker runs the storage tasks, one for each artifact and place.",
		onPass(Next, Signing, byWorker, "Every storage task is Finished and was read back, or the quorum is met."),
		onError("A place did not take an artifact or gave back other bytes, or the phase took too long."),
		onOverdue(), onCancel(),
	),
	lifecycle.OnWork(Signing, "A worker has every stored artifact signed.",
		onPass(Next, Cleanup, byWorker, "Every artifact is signed, or signing is off; the job has succeeded.").Sets(lifecycle.OK),
		onError("The signing service refused, answered wrongly or kept silent."),
		onOverdue(), onCancel(),
	),
	lifecycle.OnWait(Error, "A failed phase brings it here; the engine decides at once whether to try again.",
		on(Recover, RecoverableError, byEngine, "The error may pass and the phase has attempts left.").Within(phaseAttempts),
		onFail(Fail, ErrorHandling, byEngine, "The error will not pass, or the attempts of the phase are used up.").Sets(lifecycle.Failed),
		onOverdue(), onCancel(),
	),
	lifecycle.OnWait(RecoverableError, "The engine brings it here; a timer or an operator sends it back after a pause.",
		onReenter(Retry, byTimer|byOperator, "The pause is over; back to the phase that failed.",
			ActivityArchiving, BackupCollection, PostProcessing, Store, Signing),
		onOverdue(), onCancel(),
	),
	lifecycle.OnWork(ErrorHandling, "Failure, timeout or cancellation brings it here; a worker undoes what must not stay.",
		onPass(Next, Cleanup, byWorker, "Tokens are revoked, remote work and uploads are called off, the owner is told."),
	).Enduring("a job that leaves live tokens or half an upload behind is worse than one that tries again"),
	lifecycle.OnWork(Cleanup, "Signing or ErrorHandling brings it here; a worker removes temporary files, and the outcome picks the end.",
		onPass(Finish, Completed, byWorker, "Cleaned up after success.").When(lifecycle.OK),
		onPass(Fail, Failure, byWorker, "Cleaned up after a failure.").When(lifecycle.Failed),
		onPass(TimeoutEvent, Timeout, byWorker, "Cleaned up after the deadline passed.").When(lifecycle.TimedOut),
		onPass(Abort, Cancelled, byWorker, "Cleaned up after a cancellation.").When(lifecycle.Cancelled),
	).Enduring("trouble with temporary files must not turn a stored and signed archive into a failure"),
	lifecycle.OnEnd(Completed, lifecycle.OK, "Stored and signed; retention or a person removes it one day.", onDelete()),
	lifecycle.OnEnd(Failure, lifecycle.Failed, "It failed and everything about it is tidied up.", onDelete()),
	lifecycle.OnEnd(Timeout, lifecycle.TimedOut, "Its deadline passed and everything about it is tidied up.", onDelete()),
	lifecycle.OnEnd(Cancelled, lifecycle.Cancelled, "It was cancelled and everything about it is tidied up.", onDelete()),
	lifecycle.OnEnd(Deleted, lifecycle.None, "The artifacts are gone; the record stays."),
)

// onError is the way out of a phase that may be tried again.
func onError(doc string) lifecycle.Transition {
	return onFail(ErrorEvent, Error, byWorker|byTimer, doc)
}

// onOverdue ends a job at its deadline, in whatever state it still has work before it.
func onOverdue() lifecycle.Transition {
	return onFail(TimeoutEvent, ErrorHandling, byTimer, "The deadline of the job passed.").Sets(lifecycle.TimedOut)
}

// onCancel ends a job because a person wants it ended.
func onCancel() lifecycle.Transition {
	return on(Cancel, ErrorHandling, byOperator|byOwner, "A person calls it off; running tasks are told.").Sets(lifecycle.Cancelled)
}

// onDelete takes the artifacts of an ended job away.
func onDelete() lifecycle.Transition {
	return on(Delete, Deleted, byOperator|byTimer, "Its artifacts are removed, by retention or by hand; the record stays.")
}

// TaskLife is the life of an archiving task or a storage task: a named part of one job's work, run under the job's claim.
var TaskLife = lifecycle.Must("archive.task",
	lifecycle.OnQueue(Created, "The plan of its job or a new attempt brings it here; the worker of the job starts it.",
		onPass(Start, Running, byWorker, "The worker of its job has room for it."),
	).Bounded("the step that starts it is its job's, whose attempts are bounded"),
	lifecycle.OnWork(Running, "The worker of its job works on it, or takes over what a worker service made of it.",
		onPass(Finish, Finished, byWorker, "What it had to make is there and was checked."),
		onFail(Fail, Failed, byWorker, "It could not be done."),
		onFail(TimeoutEvent, TimedOut, byTimer, "Its deadline passed."),
		onTaskCancel(),
		on(Wait, Awaiting, byWorker, "A worker service has taken it on.").Within("the task's deadline"),
	),
	lifecycle.OnWait(Awaiting, "A worker service works on it and reports back; its deadline is the limit.",
		onPass(Start, Running, byWorker, "The worker service reported; what it made is looked at."),
		onFail(TimeoutEvent, TimedOut, byTimer, "The worker service did not report before the deadline."),
		onTaskCancel(),
	),
	lifecycle.OnEnd(Finished, lifecycle.OK, "Done and checked."),
	lifecycle.OnEnd(Failed, lifecycle.Failed, "Could not be done; a new attempt of its phase may run it again.", onTaskRetry()).Again(),
	lifecycle.OnEnd(TimedOut, lifecycle.TimedOut, "Took too long; a new attempt of its phase may run it again.", onTaskRetry()).Again(),
	lifecycle.OnEnd(Cancelled, lifecycle.Cancelled, "Called off with its job."),
)

func onTaskCancel() lifecycle.Transition {
	return on(Cancel, Cancelled, byOperator|byOwner|byEngine, "Its job was cancelled, timed out or failed.").Sets(lifecycle.Cancelled)
}

func onTaskRetry() lifecycle.Transition {
	return on(Retry, Created, byEngine, "Its phase is tried again, and with it a new attempt of the task.").
		Restarts().Within(phaseAttempts)
}

// jobNumbers are the numbers that the Moodle side speaks. It has none for Cancelled and
// shows such a job as failed.
var jobNumbers = map[lifecycle.State]int{
	Uninitialized: 0, Queued: 10, PreProcessing: 20, ActivityArchiving: 30, BackupCollection: 40, PostProcessing: 50,
	Store: 60, Signing: 70, Cleanup: 90, Completed: 100, Deleted: 110,
	Error: 200, RecoverableError: 210, ErrorHandling: 220, Timeout: 230, Failure: 240, Cancelled: 240,
}

var taskNumbers = map[lifecycle.State]int{
	Created: 20, Awaiting: 40, Running: 100, Finished: 220, Cancelled: 240, Failed: 250, TimedOut: 251,
}

// JobNumber gives the number of a job's state on the Moodle side; ok is false for a state that [JobLife] lacks.
func JobNumber(s lifecycle.State) (n int, ok bool) {
	n, ok = jobNumbers[s]
	return n, ok
}

// TaskNumber gives the number of a task's state on the Moodle side; ok is false for a state that [TaskLife] lacks.
func TaskNumber(s lifecycle.State) (n int, ok bool) {
	n, ok = taskNumbers[s]
	return n, ok
}

// JobState is the inverse of [JobNumber]; 240, which two states share, is Failure.
func JobState(n int) (s lifecycle.State, ok bool) { return stateOf(JobLife, jobNumbers, n) }

// TaskState is the inverse of [TaskNumber].
func TaskState(n int) (s lifecycle.State, ok bool) { return stateOf(TaskLife, taskNumbers, n) }

// stateOf finds the first state of the table that has the number.
func stateOf(t *lifecycle.Table, numbers map[lifecycle.State]int, n int) (lifecycle.State, bool) {
	for _, stage := range t.Stages() {
		if number, ok := numbers[stage.State]; ok && number == n {
			return stage.State, true
		}
	}
	return "", false
}
