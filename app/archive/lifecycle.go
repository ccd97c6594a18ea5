package archive

import (
	"github.com/stagepost/stagepost/app/archive/custody"
	"github.com/stagepost/stagepost/lifecycle"
)

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
	Delete                       = custody.Delete
	Start        lifecycle.Event = "start"
	Wait         lifecycle.Event = lifecycle.Waiting // of a task: it leaves Running, where other lifecycles stay
)

// Short names for the tables below.
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

// JobLife is the lifecycle of an archive job. A job that is stopped goes through ErrorHandling and Cleanup with its
// outcome decided, and the outcome selects its end. Only a job whose archive is stored and signed completes.
var JobLife = lifecycle.Must("archive.job",
	lifecycle.OnWait(Uninitialized, "A person or a schedule requests an archive; the engine checks the settings.",
		onPass(Enqueue, Queued, byEngine, "The settings are valid, and the locked presets were applied."),
		onFail(Fail, ErrorHandling, byTimer, "It was not prepared in time.").Sets(lifecycle.Failed),
		onOverdue(), onCancel(),
	),
	lifecycle.OnQueue(Queued, "The engine queues it; a worker claims it when a slot is free.",
		onPass(Begin, PreProcessing, byWorker, "Fewer jobs are active than max_concurrent_jobs allows."),
		onFail(Fail, ErrorHandling, byWorker|byTimer, "It cannot be started, and another attempt would not help.").
			Sets(lifecycle.Failed),
		onOverdue(), onCancel(),
	),
	lifecycle.OnWork(PreProcessing, "A worker reads the source and plans the tasks.",
		onPass(Next, ActivityArchiving, byWorker, "The source answers; tasks are planned and backups requested."),
		onFail(Fail, ErrorHandling, byWorker|byTimer,
			"The source or the plan is unusable, and another attempt would not help.").
			Sets(lifecycle.Failed),
		onOverdue(), onCancel(),
	),
	lifecycle.OnWork(ActivityArchiving, "A worker runs the archiving tasks, one for each activity.",
		onPass(Next, BackupCollection, byWorker, "Every archiving task is Finished, not only ended."),
		onError("An archiving task failed, or the phase took too long."),
		onOverdue(), onCancel(),
	),
	lifecycle.OnWork(BackupCollection, "A worker fetches the backups that the source has made.",
		onPass(Next, PostProcessing, byWorker, "Every backup is here and intact."),
		onError("A backup is missing or damaged, or did not come in time."),
		onOverdue(), onCancel(),
	),
	lifecycle.OnWork(PostProcessing, "A worker checks every artifact and then computes its checksums.",
		onPass(Next, Store, byWorker, "Integrity and then checksums are done for every artifact."),
		onError("An artifact is missing or damaged, or the phase took too long."),
		onOverdue(), onCancel(),
	),
	lifecycle.OnWork(Store, "A worker runs the storage tasks, one for each artifact and storage location.",
		onPass(Next, Signing, byWorker, "Every storage task is Finished and was read back, or the quorum is met."),
		onError("A storage location refused an artifact or returned other bytes, or the phase took too long."),
		onOverdue(), onCancel(),
	),
	lifecycle.OnWork(Signing, "A worker has every stored artifact signed.",
		onPass(Next, Cleanup, byWorker, "Every artifact is signed, or signing is off; the job has succeeded.").
			Sets(lifecycle.OK),
		onError("The signing service refused, sent an invalid answer or did not answer."),
		onOverdue(), onCancel(),
	),
	lifecycle.OnWait(Error, "A phase failed; the engine decides at once whether to try again.",
		on(Recover, RecoverableError, byEngine, "The error may pass and the phase has attempts left.").
			Within(phaseAttempts),
		onFail(Fail, ErrorHandling, byEngine, "The error is permanent, or the attempts of the phase are exhausted.").
			Sets(lifecycle.Failed),
		onOverdue(), onCancel(),
	),
	lifecycle.OnWait(RecoverableError, "It waits before another attempt; a timer or an operator ends the wait.",
		onReenter(Retry, byTimer|byOperator, "The pause is over; it returns to the phase that failed.",
			ActivityArchiving, BackupCollection, PostProcessing, Store, Signing),
		onOverdue(), onCancel(),
	),
	lifecycle.OnWork(ErrorHandling, "After a failure, timeout or cancellation a worker reverts what must not remain.",
		onPass(Next, Cleanup, byWorker, "Tokens are revoked, remote work and uploads cancelled, the owner notified."),
	).Enduring("a job that leaves valid tokens or a part of an upload is worse than one that tries again"),
	lifecycle.OnWork(Cleanup, "A worker removes temporary files; the outcome selects the end.",
		onPass(Finish, Completed, byWorker, "Cleaned up after success.").When(lifecycle.OK),
		onPass(Fail, Failure, byWorker, "Cleaned up after a failure.").When(lifecycle.Failed),
		onPass(TimeoutEvent, Timeout, byWorker, "Cleaned up after the deadline passed.").When(lifecycle.TimedOut),
		onPass(Abort, Cancelled, byWorker, "Cleaned up after a cancellation.").When(lifecycle.Cancelled),
	).Enduring("temporary files must not make a failure of an archive that is stored and signed"),
	lifecycle.OnEnd(Completed, lifecycle.OK, "Stored and signed; retention or a person removes it later.", onDelete()),
	lifecycle.OnEnd(Failure, lifecycle.Failed, "It failed; temporary files and tokens are removed.", onDelete()),
	lifecycle.OnEnd(Timeout, lifecycle.TimedOut, "Its deadline passed; temporary files and tokens are removed.",
		onDelete()),
	lifecycle.OnEnd(Cancelled, lifecycle.Cancelled, "It was cancelled; temporary files and tokens are removed.",
		onDelete()),
	lifecycle.OnEnd(Deleted, lifecycle.None, "The artifacts are removed; the record remains."),
)

// onError is the failure exit of a phase that may be tried again.
func onError(doc string) lifecycle.Transition {
	return onFail(ErrorEvent, Error, byWorker|byTimer, doc)
}

// onOverdue ends a job at its deadline.
func onOverdue() lifecycle.Transition {
	return onFail(TimeoutEvent, ErrorHandling, byTimer, "The deadline of the job passed.").Sets(lifecycle.TimedOut)
}

// onCancel ends a job at the request of a person.
func onCancel() lifecycle.Transition {
	return on(Cancel, ErrorHandling, byOperator|byOwner, "A person cancels it; running tasks are notified.").
		Sets(lifecycle.Cancelled)
}

// onDelete removes the artifacts of an ended job.
func onDelete() lifecycle.Transition {
	return on(Delete, Deleted, byOperator|byTimer, "Retention or a person removes its artifacts; the record remains.")
}

// TaskLife is the lifecycle of an archiving task or a storage task: a named part of one job's work that runs under the
// job's claim.
var TaskLife = lifecycle.Must("archive.task",
	lifecycle.OnQueue(Created, "The plan of its job, or a new attempt, makes it; the worker of the job starts it.",
		onPass(Start, Running, byWorker, "The worker of its job has a free slot."),
		onTaskCancel(),
	).Bounded("a step of its job starts it, and the job's attempts are bounded"),
	lifecycle.OnWork(Running, "The worker of its job runs it, or takes over the result of a worker service.",
		onPass(Finish, Finished, byWorker, "Its result exists and was checked."),
		onFail(Fail, Failed, byWorker, "It could not be done."),
		onFail(TimeoutEvent, TimedOut, byTimer, "Its deadline passed."),
		onTaskCancel(),
		on(Wait, Awaiting, byWorker, "A worker service has accepted it.").Within("the task's deadline"),
	),
	lifecycle.OnWait(Awaiting, "A worker service runs it and reports; its deadline is the limit.",
		onPass(Start, Running, byWorker, "The worker service reported; its result is checked."),
		onFail(TimeoutEvent, TimedOut, byTimer, "The worker service did not report before the deadline."),
		onTaskCancel(),
	),
	lifecycle.OnEnd(Finished, lifecycle.OK, "Done and checked."),
	lifecycle.OnEnd(Failed, lifecycle.Failed, "It failed; a new attempt of its phase may run it again.",
		onTaskRetry()).Again(),
	lifecycle.OnEnd(TimedOut, lifecycle.TimedOut, "It took too long; a new attempt of its phase may run it again.",
		onTaskRetry()).Again(),
	lifecycle.OnEnd(Cancelled, lifecycle.Cancelled, "It was cancelled with its job."),
)

func onTaskCancel() lifecycle.Transition {
	return on(Cancel, Cancelled, byOperator|byOwner|byEngine, "Its job was cancelled, timed out or failed.").
		Sets(lifecycle.Cancelled)
}

func onTaskRetry() lifecycle.Transition {
	return on(Retry, Created, byEngine|byOperator,
		"Another attempt of its phase, or an operator while the phase runs, makes another attempt of the task.").
		Restarts().Within(phaseAttempts)
}

// jobNumbers are the numbers of the states in Moodle, which has none for Cancelled and shows such a job as failed.
var jobNumbers = map[lifecycle.State]int{
	Uninitialized: 0, Queued: 10, PreProcessing: 20, ActivityArchiving: 30, BackupCollection: 40, PostProcessing: 50,
	Store: 60, Signing: 70, Cleanup: 90, Completed: 100, Deleted: 110,
	Error: 200, RecoverableError: 210, ErrorHandling: 220, Timeout: 230, Failure: 240, Cancelled: 240,
}

var taskNumbers = map[lifecycle.State]int{
	Created: 20, Awaiting: 40, Running: 100, Finished: 220, Cancelled: 240, Failed: 250, TimedOut: 251,
}

// JobNumber returns the number of a job's state in Moodle; ok is false for a state that [JobLife] lacks.
func JobNumber(s lifecycle.State) (n int, ok bool) {
	n, ok = jobNumbers[s]
	return n, ok
}

// TaskNumber returns the number of a task's state in Moodle; ok is false for a state that [TaskLife] lacks.
func TaskNumber(s lifecycle.State) (n int, ok bool) {
	n, ok = taskNumbers[s]
	return n, ok
}

// JobState is the inverse of [JobNumber]; 240, which two states share, is Failure.
func JobState(n int) (s lifecycle.State, ok bool) { return stateOf(JobLife, jobNumbers, n) }

// TaskState is the inverse of [TaskNumber].
func TaskState(n int) (s lifecycle.State, ok bool) { return stateOf(TaskLife, taskNumbers, n) }

// stateOf returns the first state of the table that has the number.
func stateOf(t *lifecycle.Table, numbers map[lifecycle.State]int, n int) (lifecycle.State, bool) {
	for _, stage := range t.Stages() {
		if number, ok := numbers[stage.State]; ok && number == n {
			return stage.State, true
		}
	}
	return "", false
}
