package transfer

import (
	"context"
	"maps"

	"github.com/stagepost/stagepost/job"
)

// Job is a job with all that belongs to it. A claim belongs to its record, with its epoch, worker and end.
type Job struct {
	Row     int64 // in the order of creation; another store gives another one
	Record  job.Job
	History []job.Event
	Tasks   []job.Task
}

// Part is a part of the content of a store.
type Part struct {
	Jobs     []Job // in the order of creation
	Messages []job.Message
	Audit    []job.Audit
	Holds    []job.Hold
}

// Once is what a store has once.
type Once struct {
	Installation string
	Numbers      map[job.Kind]int64 // the highest number of each kind, of purged jobs too
	Posted       int64              // the highest number of a message
	Audits       int64              // the number of the last entry of the audit log
	Sealed       job.Hash           // its hash
	Clock        job.KeptClock
}

// Rows counts what a store has.
type Rows struct{ Jobs, Entries, Tasks, Messages, Audits, Holds int64 }

// Empty reports whether the store has nothing that is copied.
func (r Rows) Empty() bool { return r == Rows{} }

// Sum is the number of all rows.
func (r Rows) Sum() int64 { return r.Jobs + r.Entries + r.Tasks + r.Messages + r.Audits + r.Holds }

// Source is a store that is read. No other process writes to it.
type Source interface {
	Rows(ctx context.Context) (Rows, error)
	// Jobs returns jobs after a row in the order of creation: a page of the store's size, none at the end.
	Jobs(ctx context.Context, after int64) ([]Job, error)
	// Messages returns up to n messages after a number, in the order of numbers.
	Messages(ctx context.Context, after int64, n int) ([]job.Message, error)
	Audit(ctx context.Context, after int64, n int) ([]job.Audit, error)
	Holds(ctx context.Context) ([]job.Hold, error)
	Once(ctx context.Context) (Once, error)
	Marked
}

// Target is a store that is written. What follows from the content, such as queues and counts, is its own matter: it
// is complete when the store is opened again.
type Target interface {
	Source
	// Clear removes all content. The store is opened again before it is used.
	Clear(ctx context.Context) error
	Put(ctx context.Context, p *Part) error
	PutOnce(ctx context.Context, o *Once) error
}

// numbers are those of kinds that have any.
func (o *Once) numbers() map[job.Kind]int64 {
	all := maps.Clone(o.Numbers)
	maps.DeleteFunc(all, func(_ job.Kind, n int64) bool { return n == 0 })
	return all
}
