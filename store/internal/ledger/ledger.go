// Package ledger carries out the operations of stores that one process owns: it reads what an operation needs, applies
// the rules, schedules the jobs, and writes. The stores differ in how they keep records ([Records]) and in how they
// make a commit atomic and durable.
//
// A Ledger holds what follows from the records: the queue, the holds, and the highest numbers. A refused operation has
// written nothing. A Ledger is not safe for concurrent use: it belongs to the store's commit loop.
package ledger

import (
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/rules"
	"github.com/stagepost/stagepost/store/internal/scheduler"
	"github.com/stagepost/stagepost/store/internal/sizes"
)

// Ledger holds the derived state. Call New.
type Ledger struct {
	queue   *scheduler.Queue
	touched []job.Job

	// Of the present operation; holds and numbers are kept.
	needs  rules.Needs
	known  rules.Known
	writes rules.Writes
}

// Records is a store's collection of records inside one write transaction. An error of a write means that the
// collection failed as a whole (disk, corruption). The caller then rolls the transaction back and reloads the ledger.
type Records interface {
	// Read adds what is needed to what is known, except holds and numbers, which the ledger has.
	Read(n *rules.Needs, k *rules.Known) error
	// Due returns the pending messages that are taken, in order of Due.
	Due(t *job.Taking) ([]job.Message, error)
	// Write makes the writes, in order.
	Write(w *rules.Writes) error
}

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{queue: scheduler.New(), known: rules.Known{Numbers: map[job.Kind]int64{}}}
}

// Load adds the record of a job that has not ended at the start, batches before their jobs. Loaded ends the loading.
func (l *Ledger) Load(j *job.Job) { l.queue.Load(j) }

// Loaded is called after the last Load.
func (l *Ledger) Loaded() { l.queue.Loaded() }

// Follow applies a change of a record that was made by another ledger. before is nil for a new job, after for one that
// was purged.
func (l *Ledger) Follow(before, after *job.Job) {
	switch {
	case after != nil:
		l.LoadNumber(after.Kind, after.Number)
		l.queue.Put(before, after)
	case before != nil:
		ended := *before
		ended.Ended = true
		l.queue.Put(before, &ended)
		l.queue.Drop(&ended)
	}
}

// LoadEnded adds ended jobs that are only counted, with the sum of their sizes.
func (l *Ledger) LoadEnded(at job.KindState, group string, jobs int64, bytes sizes.Sum) {
	l.queue.AddEnded(at, group, jobs, bytes)
}

// LoadNumber records that a number of the kind was assigned, to a job that may have been purged.
func (l *Ledger) LoadNumber(kind job.Kind, number int64) {
	l.known.Numbers[kind] = max(l.known.Numbers[kind], number)
}

// LoadPosted records that a message had the number.
func (l *Ledger) LoadPosted(number int64) { l.known.Posted = max(l.known.Posted, number) }

// LoadAudit sets the last entry of the audit log.
func (l *Ledger) LoadAudit(seq int64, hash job.Hash) { l.known.Audits, l.known.Sealed = seq, hash }

// LastAudit returns the number and the hash of the last entry of the audit log.
func (l *Ledger) LastAudit() (seq int64, hash job.Hash) { return l.known.Audits, l.known.Sealed }

// Ends returns the ends of what is numbered, and the highest number of each kind, which the caller must not change.
func (l *Ledger) Ends() (rules.Counters, map[job.Kind]int64) {
	return l.known.Counters, l.known.Numbers
}

// LoadHold adds a hold at the start.
func (l *Ledger) LoadHold(h job.Hold) {
	l.known.Holds = append(l.known.Holds, h)
	rules.SortHolds(l.known.Holds)
	l.queue.SetHolds(l.known.Holds)
}

// Tally counts all jobs.
func (l *Ledger) Tally() []job.Tally { return l.queue.Tally() }

// Overdue returns up to n jobs of the kinds (none: of all) whose claim or Expires had ended at a time.
func (l *Ledger) Overdue(now time.Time, kinds []job.Kind, n int) []job.ID {
	return l.queue.Overdue(now, kinds, n)
}

// Visits returns how many parts of the queue were visited so far.
func (l *Ledger) Visits() int64 { return l.queue.Visits() }

// ClaimKinds returns the kinds of the jobs that are claimed by workers whose names begin with worker.
func (l *Ledger) ClaimKinds(worker string) []job.Kind { return l.queue.ClaimKinds(worker) }

// ClaimedBy returns up to n jobs of a kind that are claimed by workers whose names begin with worker, in order of
// number: from a number on, upwards (step 1) or downwards (step -1).
func (l *Ledger) ClaimedBy(worker string, kind job.Kind, from int64, step, n int) []Claimed {
	return l.queue.ClaimedBy(worker, kind, from, step, n)
}

// Claimed is a claimed job.
type Claimed = scheduler.Claimed

// Peek is part of job.Store.
func (l *Ledger) Peek(c *job.Claim, id job.ID) job.Forecast { return l.queue.Peek(c, id) }

// Holds is part of job.Store.
func (l *Ledger) Holds() []job.Hold { return slices.Clone(l.known.Holds) }

// Touched returns the records that changed since the last call. The slice is valid until the next operation.
func (l *Ledger) Touched() []job.Job {
	t := l.touched
	l.touched = l.touched[:0]
	return t
}
