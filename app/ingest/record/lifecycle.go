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

// The states of batches, jobs and access packages. Pages and the API write them as here; the node layout of Merritt
// writes Completed and Deleted in capitals, which store/zookeeper maps.
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

// BatchLife is the lifecycle of a batch: one payload of a depositor, from which jobs are made. A batch has ended when
// all its expected jobs have ended, in any order.
var BatchLife = lifecycle.Must("ingest.batch",
	lifecycle.OnQueue(Pending, "A depositor submits a batch; a worker claims it to read the payload.",
		onPass(Begin, Processing, byWorker, "The payload was read and its jobs were created, all of them or none."),
		on(Hold, Held, byWorker|byOperator, "Its collection or the queue is on hold."),
		onFail(Fail, Failed, byWorker, "The payload is missing, too large, not a manifest, or names no object."),
		on(Cancel, Deleted, byOperator|byOwner, "Withdrawn before any work was done; a tombstone stays.").
			Sets(lifecycle.Cancelled),
	),
	lifecycle.OnWait(Held, "Its collection or the queue is on hold; an operator releases it after the hold.",
		on(Release, Pending, byOperator, "Its hold was released; refused while the hold remains."),
		on(Delete, Deleted, byOperator|byTimer, "Withdrawn while it was held; a tombstone stays.").
			Sets(lifecycle.Cancelled),
	),
	lifecycle.OnWork(Processing, "Its jobs are created and run; the engine moves it when the last of them ends.",
		onPass(Report, Reporting, byEngine, "All expected jobs have completed, failed or been deleted."),
		onFail(Fail, Failed, byWorker|byTimer,
			"No job could be created, or its timeout passed; incomplete jobs are removed."),
	),
	lifecycle.OnWork(Reporting, "Its jobs have ended; a worker writes the report for the depositor.",
		onPass(Finish, Completed, byWorker, "The report is in the outbox, and every job completed or was deleted."),
		onFail(Fail, Failed, byWorker|byTimer,
			"At least one job failed, and the report in the outbox names it; or no report was made in time."),
	),
	lifecycle.OnWork(UpdateReporting,
		"An operator asks for an update after failed jobs were retried; a worker counts them again.",
		onPass(Finish, Completed, byWorker, "No job is failed; a second report is sent if anything changed."),
		onFail(Fail, Failed, byWorker|byTimer,
			"A job is still failed, or the timeout passed; a second report is sent if anything changed."),
	),
	lifecycle.OnEnd(Completed, lifecycle.OK, "All its jobs completed or were deleted, and the report is in the outbox.",
		on(Delete, Deleted, byOperator|byTimer, "Its record, jobs and working files are removed; stored objects "+
			"stay. A timer does it after the retention."),
	),
	lifecycle.OnEnd(Failed, lifecycle.Failed,
		"Something failed; failed jobs can be retried, and an operator then asks for an update.",
		on(Update, UpdateReporting, byOperator,
			"Retried jobs have ended; refused while a job of the batch is running.").Restarts(),
		on(Delete, Deleted, byOperator|byTimer,
			"Abandoned: its record, jobs and working files are removed; stored objects stay."),
	),
	lifecycle.OnEnd(Deleted, lifecycle.None, "Only the tombstone remains, until it is purged."),
)

// JobLife is the lifecycle of an ingest job: one object of a batch, until it is stored and in the inventory. A failed
// job returns to the phase in which it failed, so that completed work is not repeated.
var JobLife = lifecycle.Must("ingest.job",
	lifecycle.OnQueue(Pending, "Its batch creates it; a worker checks what it needs to begin.",
		onPass(Begin, Estimating, byWorker, "It can begin."),
		on(Hold, Held, byWorker|byOperator, "Its collection is on hold."),
		onFail(Fail, Failed, byWorker|byTimer, "Its manifest is corrupt, or no worker claimed it in time."),
	),
	lifecycle.OnWait(Held, "Its collection is on hold; an operator releases it after the hold.",
		on(Release, Pending, byOperator, "Its hold was released; refused while the hold remains."),
		on(Delete, Deleted, byOperator|byTimer, "Withdrawn while it was held; its batch counts it as deleted.").
			Sets(lifecycle.Cancelled),
	),
	lifecycle.OnWork(Estimating, "A worker asks for the size of every file without fetching it.",
		onPass(Next, Provisioning, byWorker, "Every size is known or counted as 0, and the priority is set."),
		onFail(Fail, Failed, byWorker|byTimer,
			"The manifest cannot be read, names a file twice or names one that does not exist."),
		onStop(),
	),
	lifecycle.OnWork(Provisioning, "A worker reserves space on the working disk; small jobs pass those that wait "+
		"for more.",
		onPass(Next, Downloading, byWorker, "The space is reserved."),
		onFail(Fail, Failed, byWorker|byTimer, "It needs more space than the disk has, or none became free in time."),
		onStop(),
	),
	lifecycle.OnWork(Downloading, "A worker fetches the files.",
		onPass(Next, Processing, byWorker, "Every file was fetched and matches its digest and size."),
		onFail(Fail, Failed, byWorker|byTimer,
			"A file cannot be fetched, or is not the one that the manifest describes."),
		onStop(),
	),
	lifecycle.OnWork(Processing, "A worker makes the object: identifier, metadata, digests.",
		onPass(Next, Storing, byWorker,
			"The identifier was minted once, the object is built, its digests are recorded."),
		onFail(Fail, Failed, byWorker|byTimer, "No identifier was minted, or the object cannot be built."),
		onStop(),
	),
	lifecycle.OnWork(Storing, "A worker writes the version to every storage location.",
		onPass(Next, Recording, byWorker, "Every storage location holds the version, which was read back from it."),
		onFail(Fail, Failed, byWorker|byTimer, "A storage location refused the version or returned other bytes."),
		onStop(),
	),
	lifecycle.OnWork(Recording, "A worker enters the version in the inventory.",
		onPass(Next, Notify, byWorker, "The version is in the inventory."),
		onFail(Fail, Failed, byWorker|byTimer, "The inventory refused the entry or did not answer."),
		onStop(),
	),
	lifecycle.OnWork(Notify, "A worker waits for the delivery of the callback, where the profile requires that.",
		onPass(Finish, Completed, byWorker, "The callback is in the outbox; a required one was delivered."),
		onFail(Fail, Failed, byWorker|byTimer, "The profile requires the callback, and its message was abandoned."),
		onStop(),
	),
	lifecycle.OnEnd(Completed, lifecycle.OK,
		"The version is stored and in the inventory; a callback of its profile is in the outbox.",
		on(Delete, Deleted, byOperator|byTimer,
			"Its record and working files are removed; the stored object stays. A timer does it after the retention. "+
				"Refused before its batch has ended, unless confirmed."),
	),
	lifecycle.OnEnd(Failed, lifecycle.Failed, "A phase failed; a person can retry that phase, or delete the job.",
		onReenter(Retry, byOperator|byOwner,
			"Returns to the phase in which it failed; refused for causes that need a new submission.",
			Pending, Estimating, Provisioning, Downloading, Processing, Storing, Recording, Notify),
		on(Delete, Deleted, byOperator|byTimer,
			"Abandoned. Refused before its batch has ended, unless confirmed: the report will not have the job."),
	),
	lifecycle.OnEnd(Deleted, lifecycle.None, "Only the tombstone remains, until it is purged."),
)

// onStop is the transition by which an operator ends any phase of a job.
func onStop() lifecycle.Transition {
	return onFail(Stop, Failed, byOperator, "An operator ends it; the locks of its object are released.")
}

// AccessLife is the lifecycle of an access package: stored files that are packed for download. Small and large packages
// wait in two queues, each with holds of its own; the lifecycle is the same.
var AccessLife = lifecycle.Must("ingest.access",
	lifecycle.OnQueue(Pending, "A stored object was requested; a worker of its queue claims the request.",
		onPass(Begin, Processing, byWorker, "Its queue is not held, and a worker is free."),
	).Bounded("nothing in this state can fail; after max_attempts it waits for a person"),
	lifecycle.OnWork(Processing, "A worker reads the files from storage and packs them.",
		onPass(Finish, Completed, byWorker, "The package is ready and its digests match."),
		onFail(Fail, Failed, byWorker|byTimer, "A file could not be read or packed, or it took too long."),
	),
	lifecycle.OnEnd(Completed, lifecycle.OK, "The package can be fetched during its retention.",
		on(Delete, Deleted, byOperator|byTimer,
			"The package and its record are removed. A timer does it after the retention."),
	),
	lifecycle.OnEnd(Failed, lifecycle.Failed, "No package could be made; a person can retry or delete it.",
		on(Retry, Processing, byOperator|byOwner, "It is tried again at once.").Restarts(),
		on(Requeue, Pending, byOperator, "It returns to the end of its queue.").Restarts(),
		on(Delete, Deleted, byOperator|byTimer, "Abandoned; files that were packed are removed."),
	),
	lifecycle.OnEnd(Deleted, lifecycle.None, "Only the tombstone remains, until it is purged."),
)
