package pdf

import (
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Kind is the kind of the jobs: each prints one file.
const Kind job.Kind = "archive.pdf"

// The states.
const (
	Rendering lifecycle.State = "Rendering"
	Rendered  lifecycle.State = "Rendered"
	Failed    lifecycle.State = "Failed"
	Cancelled lifecycle.State = "Cancelled"
	Deleted   lifecycle.State = "Deleted"
)

// The events.
const (
	Finish lifecycle.Event = "finish"
	Fail   lifecycle.Event = "fail"
	Retry  lifecycle.Event = "retry"
	Cancel lifecycle.Event = "cancel"
	Delete lifecycle.Event = "delete"
)

const people = lifecycle.Operator | lifecycle.Owner

// Life is the lifecycle of a job.
var Life = lifecycle.Must(string(Kind),
	lifecycle.OnWork(Rendering, "An archive job orders a PDF file; a PDF worker claims the job and prints it.",
		lifecycle.OnPass(Finish, Rendered, lifecycle.Worker, "The PDF/A file is complete and has the reported digest."),
		lifecycle.OnFail(Fail, Failed, lifecycle.Worker|lifecycle.Timer,
			"The document cannot be printed, the attempts are exhausted, or no worker printed it in time."),
		lifecycle.On(Cancel, Cancelled, people|lifecycle.Engine,
			"The file is not needed any more: the job that ordered it ended, or a person cancels it.").
			Sets(lifecycle.Cancelled),
	),
	lifecycle.OnEnd(Rendered, lifecycle.OK, "The PDF/A file can be read until the job is deleted.", onDelete()),
	lifecycle.OnEnd(Failed, lifecycle.Failed, "There is no PDF file; the archive has the HTML file.",
		lifecycle.OnReenter(Retry, people, "A person has it printed again.", Rendering), onDelete()).Again(),
	lifecycle.OnEnd(Cancelled, lifecycle.Cancelled, "There is no PDF file.", onDelete()),
	lifecycle.OnEnd(Deleted, lifecycle.None, "Its files are removed; the record remains until it is purged."),
)

func onDelete() lifecycle.Transition {
	return lifecycle.On(Delete, Deleted, people|lifecycle.Timer, "Its files are not needed any more.")
}
