// Package quizworker serves the HTTP protocol of the quiz archive worker, so that the Moodle plugins archivingmod_quiz
// and quiz_archiver use Stagepost as their worker:
//
//	plugin ──POST /archive/…──> job archive.quiz ──reports, files, status──> Moodle
//	                                └── PDF/A of each attempt, one ZIP file, upload ──┘
//
// Each request is a job of the engine: a crash loses nothing, and what is complete is not fetched again. The token of
// the Moodle is in a file of its own that only this program reads, not in the record of the job.
package quizworker

import (
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Kind is the kind of the jobs.
const Kind job.Kind = "archive.quiz"

// The states.
const (
	Queued     lifecycle.State = "Queued"
	Running    lifecycle.State = "Running"
	Finalizing lifecycle.State = "Finalizing"
	Cleanup    lifecycle.State = "Cleanup"
	Finished   lifecycle.State = "Finished"
	Failed     lifecycle.State = "Failed"
	TimedOut   lifecycle.State = "TimedOut"
	Cancelled  lifecycle.State = "Cancelled"
	Deleted    lifecycle.State = "Deleted"
)

// The events. Where a state has the same word, the event's constant ends in Event.
const (
	Begin        lifecycle.Event = "begin"
	Next         lifecycle.Event = "next"
	Finish       lifecycle.Event = "finish"
	Fail         lifecycle.Event = "fail"
	TimeoutEvent lifecycle.Event = "timeout"
	Cancel       lifecycle.Event = "cancel"
	Abort        lifecycle.Event = "abort"
	Delete       lifecycle.Event = "delete"
)

const byWorker = lifecycle.Worker

// Life is the lifecycle of a job. Every job goes through Cleanup, where the Moodle is notified of a failure and the
// token is removed.
var Life = lifecycle.Must(string(Kind),
	lifecycle.OnQueue(Queued, "A Moodle ordered an archive of quiz attempts; a worker claims it when a slot is free.",
		lifecycle.OnPass(Begin, Running, byWorker, "Its time begins; the time in the queue does not count."),
		onFail("It cannot be started."), onTimeout(), onCancel(),
	),
	lifecycle.OnWork(Running, "A worker fetches the reports of the attempts and makes PDF files of them.",
		lifecycle.OnPass(Next, Finalizing, byWorker, "Every attempt of the order is complete."),
		onFail("An attempt could not be archived, or the Moodle refuses."), onTimeout(), onCancel(),
	),
	lifecycle.OnWork(Finalizing, "A worker makes the ZIP file and uploads it to the Moodle.",
		lifecycle.OnPass(Next, Cleanup, byWorker, "The Moodle accepted the file and its digest.").Sets(lifecycle.OK),
		onFail("The Moodle did not accept the file."), onTimeout(), onCancel(),
	),
	lifecycle.OnWork(Cleanup, "A worker notifies the Moodle of a failure and removes the token and the files.",
		lifecycle.OnPass(Finish, Finished, byWorker, "Removed after success.").When(lifecycle.OK),
		lifecycle.OnPass(Fail, Failed, byWorker, "Removed after a failure.").When(lifecycle.Failed),
		lifecycle.OnPass(TimeoutEvent, TimedOut, byWorker, "Removed after the time passed.").When(lifecycle.TimedOut),
		lifecycle.OnPass(Abort, Cancelled, byWorker, "Removed after a cancellation.").When(lifecycle.Cancelled),
	).Enduring("a job that leaves a valid token behind is worse than one that tries again"),
	lifecycle.OnEnd(Finished, lifecycle.OK, "The Moodle has the archive.", onDelete()),
	lifecycle.OnEnd(Failed, lifecycle.Failed, "The Moodle has no archive; it may order one again.", onDelete()),
	lifecycle.OnEnd(TimedOut, lifecycle.TimedOut, "It took too long; the Moodle has no archive.", onDelete()),
	lifecycle.OnEnd(Cancelled, lifecycle.Cancelled, "A person cancelled it; the Moodle has no archive.", onDelete()),
	lifecycle.OnEnd(Deleted, lifecycle.None, "The record remains until it is purged."),
)

func onFail(doc string) lifecycle.Transition {
	return lifecycle.OnFail(Fail, Cleanup, byWorker|lifecycle.Timer, doc).Sets(lifecycle.Failed)
}

func onTimeout() lifecycle.Transition {
	return lifecycle.OnFail(TimeoutEvent, Cleanup, lifecycle.Timer, "Its time passed.").Sets(lifecycle.TimedOut)
}

func onCancel() lifecycle.Transition {
	return lifecycle.On(Cancel, Cleanup, lifecycle.Operator|lifecycle.Owner, "A person cancels it.").
		Sets(lifecycle.Cancelled)
}

func onDelete() lifecycle.Transition {
	return lifecycle.On(Delete, Deleted, lifecycle.Operator|lifecycle.Timer, "Its record is not needed any more.")
}

// Status is a state as the protocol names it, with the number that Moodle stores.
type Status struct {
	Name   string
	Number int
}

// statuses are those of the protocol.
var (
	awaiting   = Status{"AWAITING_PROCESSING", 40}
	running    = Status{"RUNNING", 100}
	waiting    = Status{"WAITING_FOR_BACKUP", 200}
	finalizing = Status{"FINALIZING", 200}
	finished   = Status{"FINISHED", 220}
	failure    = Status{"FAILED", 250}
	timeout    = Status{"TIMEOUT", 251}
	unknown    = Status{"UNKNOWN", 255}
)

// statusOf gives the status of a job. A cancelled job is a failed one: the protocol has no cancellation.
func statusOf(p lifecycle.Position) Status {
	switch p.State {
	case Queued:
		return awaiting
	case Running:
		return running
	case Finalizing:
		return finalizing
	case Finished, Cleanup, Failed, TimedOut, Cancelled:
		switch p.Outcome {
		case lifecycle.OK:
			if p.State == Cleanup {
				return finalizing
			}
			return finished
		case lifecycle.TimedOut:
			return timeout
		}
		return failure
	}
	return unknown
}
