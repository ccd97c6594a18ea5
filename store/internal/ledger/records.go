package ledger

import (
	"github.com/stagepost/stagepost/job"
)

// Records is a place where records are kept, inside one write transaction: a ledger reads what it needs first and writes only
// when nothing can refuse any more. An error of a write means that the place as a whole failed (disk, corruption); the caller
// then undoes the transaction and loads the ledger anew.
type Records interface {
	// Job gives the record as the transaction sees it, or kind NotFound.
	Job(id job.ID) (job.Job, error)
	// Keyed gives the job that was created with the key; "" if there is none. The key is not empty.
	Keyed(kind job.Kind, owner, key string) (job.ID, error)

	Insert(j *job.Job) error
	// Update writes the record after; before is what Job gave.
	Update(before, after *job.Job) error
	Append(e *job.Event) error
	PutTask(id job.ID, t *job.Task) error
	// Enter adds an entry to the audit list.
	Enter(a *job.Audit) error

	// HasJobs tells whether a job exists whose parent is j.
	HasJobs(j *job.Job) (bool, error)
	// Purge removes a record with its history, tasks and messages. Its key is free afterwards, its numbers are not given again.
	Purge(j *job.Job, last Numbers) error

	PutHold(h *job.Hold) error
	DropHold(scope job.Scope) error

	Outbox
}

// Outbox is the part of [Records] that keeps messages.
type Outbox interface {
	// Message gives a message by key, or nil.
	Message(key string) (*job.Message, error)
	// Messages gives the unsettled messages that the call wants to take, the first due first; or, if id is set, all of that job. c may be nil then.
	Messages(c *job.OutboxCall, id job.ID) ([]job.Message, error)
	// PutMessage adds or replaces a message by key.
	PutMessage(m *job.Message) error
}

// Numbers are the highest that were given so far. Records remember them when a job is purged, which may have had the highest.
type Numbers struct {
	Job     int64 // of the job's kind
	Message int64
}
