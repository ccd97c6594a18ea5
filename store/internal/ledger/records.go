package ledger

import (
	"github.com/stagepost/stagepost/job"
)

// Records is a store's collection of records inside one write transaction. A ledger first reads what it needs. It
// writes only when it cannot refuse any more. An error of a write means that the collection failed as a whole (disk,
// corruption). The caller then rolls the transaction back and reloads the ledger.
type Records interface {
	// Job returns the record as of the transaction, or kind NotFound.
	Job(id job.ID) (job.Job, error)
	// Keyed returns the job that was created with the key; "" if there is none. The key is not empty.
	Keyed(kind job.Kind, owner, key string) (job.ID, error)

	Insert(j *job.Job) error
	// Update writes the record after; before is the result of Job.
	Update(before, after *job.Job) error
	Append(e *job.Event) error
	PutTask(id job.ID, t *job.Task) error
	// Enter appends an entry to the audit log.
	Enter(a *job.Audit) error

	// HasJobs reports whether a job exists whose parent is j.
	HasJobs(j *job.Job) (bool, error)
	// Purge removes a record with its history, tasks and messages. Its key is free afterwards, its numbers are not
	// reused.
	Purge(j *job.Job, last Numbers) error

	PutHold(h *job.Hold) error
	DropHold(scope job.Scope) error

	Outbox
}

// Outbox is the part of [Records] that keeps messages.
type Outbox interface {
	// Message returns a message by key, or nil.
	Message(key string) (*job.Message, error)
	// Due returns the unsettled messages that are taken, in order of Due.
	Due(t *job.Taking) ([]job.Message, error)
	// Pending returns the key of an unsettled message of the job, or "".
	Pending(id job.ID) (string, error)
	// PutMessage adds or replaces a message by key.
	PutMessage(m *job.Message) error
}

// Numbers are the highest numbers so far. Records keeps them when it purges the job that may have the highest.
type Numbers struct {
	Job     int64 // of the job's kind
	Message int64
}
