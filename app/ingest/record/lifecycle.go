package record

import (
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Kinds of the jobs of this application.
const (
	BatchKind job.Kind = "ingest.batch"
	JobKind   job.Kind = "ingest.job"
)

// The states of batches, jobs and access assemblies. On the wire and on screen they are written as here; the Merritt
// node layout writes Completed and Deleted in capitals, which store/zookeeper maps.
const (
	Pending         lifecycle.State = "Pending"
	Held            lifecycle.State = "Held"
	Estimating      lifecycle.State = "Estimating"
	Provisioning    lifecycle.State = "Provisioning"
	Downloading     lifecycle.State = "Downloading"
	Processing      lifecycle.State = "Processing"
	Storing         lifecycle.State = "Storing"
	Recording       lifecycle.State = "Recording"
	Notify          lifecycle.State = "Notify"
	Reporting       lifecycle.State = "Reporting"
	UpdateReporting lifecycle.State = "UpdateReporting"
	Completed       lifecycle.State = "Completed"
	Failed          lifecycle.State = "Failed"
	Deleted         lifecycle.State = "Deleted"
)

// The events of the three lifecycles.
const (
	Begin   lifecycle.Event = "begin"
	Next    lifecycle.Event = "next"
	Report  lifecycle.Event = "report"
	Finish  lifecycle.Event = "finish"
	Fail    lifecycle.Event = "fail"
	Stop    lifecycle.Event = "stop"
	Hold    lifecycle.Event = "hold"
	Release lifecycle.Event = "release"
	Retry   lifecycle.Event = "retry"
	Requeue lifecycle.Event = "requeue"
	Update  lifecycle.Event = "update"
	Cancel  lifecycle.Event = "cancel"
	Delete  lifecycle.Event = "delete"
)

// Short words for the tables below.
const (
	byWorker   = lifecycle.Worker
	byTimer    = lifecycle.Timer
	byOperator = lifecycle.Operator
	byOwner    = lifecycle.Owner
	byEngine   = lifecycle.Engine
)

var (
	onPass    = lifecycle.OnPass
	onFail    = lifecycle.OnFail
	on        = lifecycle.On
	onReenter = lifecycle.OnReenter
)

// BatchLife is the whole life of a batch: one payload handed in by a depositor, from which jobs are made. A batch has
// ended when every one of its Expected jobs has, whatever the order in which that became known.
var BatchLife = lifecycle.Must("ingest.batch",
	lifecycle.OnQueue(Pending, "A depositor's submission brings the batch here; a worker takes it to read the payload.",
		onPass(Begin, Processing, byWorker, "The payload was read and its jobs were created, all of them or none."),
		on(Hold, Held, byWorker|byOperator, "Its collection or the queue is on hold."),
		onFail(Fail, Failed, byWorker, "The payload is missing, too large, not a manifest, or names no object."),
		on(Cancel, Deleted, byOperator|byOwner, "Withdrawn before any work was done; a tombstone stays.").
			Sets(lifecycle.Cancelled),
	),
	lifecycle.OnWait(Held, "A hold on the collection or the queue brings it here; an operator releases it once the hold is off.",
		on(Release, Pending, byOperator, "The hold is off; refused while it is still on."),
		on(Delete, Deleted, byOperator|byTimer, "Nobody wants it any more; the tombstone is written first, the record goes last.").
			Sets(lifecycle.Cancelled),
	),
	lifecycle.OnWork(Processing, "A worker brings it here and sets its jobs going; the engine takes it on when the last of them ends.",
		onPass(Report, Reporting, byEngine, "All expected jobs have completed, failed or been deleted."),
		onFail(Fail, Failed, byWorker|byTimer, "No job could be created, or its time is up; nothing half-made is left."),
	),
	lifecycle.OnWork(Reporting, "The engine brings it here when its jobs have ended; a worker writes the depositor's report.",
		onPass(Finish, Completed, byWorker, "The report is in the outbox, and every job completed or was deleted."),
		onFail(Fail, Failed, byWorker|byTimer, "At least one job failed, as the report in the outbox says, or no report could be made in time."),
	),
	lifecycle.OnWork(UpdateReporting, "An operator brings it here after failed jobs were retried; a worker looks at them again.",
		onPass(Finish, Completed, byWorker, "No job is failed any more; a second report goes out if anything changed."),
		onFail(Fail, Failed, byWorker|byTimer, "A job is still failed, or the look took too long; a second report goes out only if anything changed."),
	),
	lifecycle.OnEnd(Completed, lifecycle.OK, "Every job is stored, and the depositor was told.",
		on(Delete, Deleted, byOperator|byTimer, "Its retention is over: jobs, references and directories go, the record last."),
	),
	lifecycle.OnEnd(Failed, lifecycle.Failed, "Something failed; jobs may be retried here, and an operator then asks for an update.",
		on(Update, UpdateReporting, byOperator, "Retried jobs have ended; refused while a job of the batch is running.").Restarts(),
		on(Delete, Deleted, byOperator|byTimer, "Given up: the tombstone first, then jobs, references and directories, the record last."),
	),
	lifecycle.OnEnd(Deleted, lifecycle.None, "Only the tombstone is left, until it is purged."),
)

// JobLife is the whole life of an ingest job: one object of a batch on its way into storage and inventory. A failed job
// goes back to the phase it failed in, so that work already done is not done again.
var JobLife = lifecycle.Must("ingest.job",
	lifecycle.OnQueue(Pending, "Its batch brings it here; a worker takes a first look at it.",
		onPass(Begin, Estimating, byWorker, "Nothing speaks against it."),
		on(Hold, Held, byWorker|byOperator, "Its collection is on hold."),
		onFail(Fail, Failed, byWorker|byTimer, "Its manifest is corrupt, or nobody took it in time."),
	),
	lifecycle.OnWait(Held, "A hold on its collection brings it here; an operator releases it once the hold is off.",
		on(Release, Pending, byOperator, "The hold is off; refused while it is still on."),
		on(Delete, Deleted, byOperator|byTimer, "Withdrawn while it was held; its batch counts it as deleted.").
			Sets(lifecycle.Cancelled),
	),
	lifecycle.OnWork(Estimating, "A worker asks for the size of every file without fetching it.",
		onPass(Next, Provisioning, byWorker, "Every size is known or counted as 0, and the priority is settled."),
		onFail(Fail, Failed, byWorker|byTimer, "The manifest cannot be read, names a file twice or names one that does not exist."),
		onStop(),
	),
	lifecycle.OnWork(Provisioning, "A worker sees to room on the working disk; small jobs pass those that wait for more.",
		onPass(Next, Downloading, byWorker, "There is enough room."),
		onFail(Fail, Failed, byWorker|byTimer, "It needs more room than there can ever be, or none became free in time."),
		onStop(),
	),
	lifecycle.OnWork(Downloading, "A worker fetches the files.",
		onPass(Next, Processing, byWorker, "Every file is there and matches its digest and size."),
		onFail(Fail, Failed, byWorker|byTimer, "A file cannot be fetched or is not the one the manifest describes."),
		onStop(),
	),
	lifecycle.OnWork(Processing, "A worker makes the object: identifier, metadata, digests.",
		onPass(Next, Storing, byWorker, "The identifier was minted once, the object is built, its digests are recorded."),
		onFail(Fail, Failed, byWorker|byTimer, "No identifier could be had, or the object cannot be built."),
		onStop(),
	),
	lifecycle.OnWork(Storing, "A worker hands the version to every storage location.",
		onPass(Next, Recording, byWorker, "Every storage location holds the version, which was read back from it."),
		onFail(Fail, Failed, byWorker|byTimer, "A storage location refused the version or gave back other bytes."),
		onStop(),
	),
	lifecycle.OnWork(Recording, "A worker enters the version in the inventory.",
		onPass(Next, Notify, byWorker, "The inventory knows the version."),
		onFail(Fail, Failed, byWorker|byTimer, "The inventory refused the entry or did not answer."),
		onStop(),
	),
	lifecycle.OnWork(Notify, "A worker waits for the delivery of the callback, where the profile requires that.",
		onPass(Finish, Completed, byWorker, "The callback is in the outbox; a required one was delivered."),
		onFail(Fail, Failed, byWorker|byTimer, "The profile requires the callback, and it was given up."),
		onStop(),
	),
	lifecycle.OnEnd(Completed, lifecycle.OK, "Stored and recorded; the callback is in the outbox.",
		on(Delete, Deleted, byOperator|byTimer, "Its retention is over; refused before its batch has ended, unless confirmed."),
	),
	lifecycle.OnEnd(Failed, lifecycle.Failed, "A phase failed; a person may send it back there, or delete it.",
		onReenter(Retry, byOperator|byOwner, "Back to the phase it failed in; refused for causes that need a new submission.",
			Pending, Estimating, Provisioning, Downloading, Processing, Storing, Recording, Notify),
		on(Delete, Deleted, byOperator|byTimer, "Given up; refused before its batch has ended, unless confirmed: the report will lack it."),
	),
	lifecycle.OnEnd(Deleted, lifecycle.None, "Only the tombstone is left, until it is purged."),
)

// onStop is the operator's way out of every phase of a job.
func onStop() lifecycle.Transition {
	return onFail(Stop, Failed, byOperator, "An operator makes it fail; the locks of its object are released.")
}

// AccessLife is the whole life of an access assembly: stored versions put together again for somebody to fetch. Small and
// large assemblies wait in two queues, each with its own pause; the lifecycle is the same.
var AccessLife = lifecycle.Must("ingest.access",
	lifecycle.OnQueue(Pending, "A request for a stored object brings it here; a worker of its queue takes it.",
		onPass(Begin, Processing, byWorker, "Its queue is not paused and a worker is free."),
	).Bounded("nothing is done here that can fail; after max_attempts it waits for a person"),
	lifecycle.OnWork(Processing, "A worker reads the versions from storage and packs them.",
		onPass(Finish, Completed, byWorker, "The package is ready and its digests match."),
		onFail(Fail, Failed, byWorker|byTimer, "A file could not be read or packed, or it took too long."),
	),
	lifecycle.OnEnd(Completed, lifecycle.OK, "The package can be fetched until its retention is over.",
		on(Delete, Deleted, byOperator|byTimer, "Its retention is over; the package is removed."),
	),
	lifecycle.OnEnd(Failed, lifecycle.Failed, "No package could be made; a person may try again or delete it.",
		on(Retry, Processing, byOperator|byOwner, "Tried again at once.").Restarts(),
		on(Requeue, Pending, byOperator, "Put back at the end of its queue.").Restarts(),
		on(Delete, Deleted, byOperator|byTimer, "Given up; what was packed is removed."),
	),
	lifecycle.OnEnd(Deleted, lifecycle.None, "Only the tombstone is left, until it is purged."),
)
