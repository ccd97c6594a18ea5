package job

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// Store keeps jobs. It decides nothing: the engine passes events, states and expected versions, and the store applies
// all of a commit or nothing. Every method is safe for concurrent use. Every acknowledged write survives the end of
// the process and, if Properties states so, of the machine. Errors are *[Error]. Package storetest has the contract
// as tests.
type Store interface {
	// Create adds jobs made by [New], all or none. A job whose ID exists, or whose Key exists for its kind and owner,
	// is not added; the existing job is returned instead. A parent's counts change in the same commit. A child beyond
	// its Expected, or of a parent that has ended, is Refused.
	//
	// A new job gets the next number of its kind, or the Number that it brings: any number up to [LastNumber] that is
	// higher than every earlier one of its kind, including those of purged jobs. The next number follows it. A lower
	// one is a Conflict. So numbers increase in order of creation. The same applies to the children of a commit.
	Create(ctx context.Context, jobs ...Created) ([]Job, error)

	// Get returns the record, or kind NotFound.
	Get(ctx context.Context, id ID) (Job, error)

	// List returns a page of jobs in order of creation. A cursor stays valid while jobs are added and removed. With
	// Number it finds the one job with that number, at a cost that is nearly independent of the number of jobs. What
	// [Query.Validate] refuses is Invalid.
	List(ctx context.Context, q Query) (Page, error)

	// Count tallies all jobs by kind, state and group. Its cost does not depend on the number of jobs.
	Count(ctx context.Context) ([]Tally, error)

	// History returns up to n entries after number seq (0: from the first), oldest first. n 0 means all.
	History(ctx context.Context, id ID, seq int64, n int) ([]Event, error)

	// Tasks returns the tasks of a job by name.
	Tasks(ctx context.Context, id ID) ([]Task, error)

	// Claim leases up to N due jobs to a worker, ordered by priority, then round-robin by owner, then age. It never
	// grants a job that is held, over a limit or claimed, and never the same job to two workers. [Ageing] makes an
	// exception for the job that waited longest. Epoch and Starts are incremented in the same commit. An empty result
	// is not an error.
	Claim(ctx context.Context, c Claim) ([]Job, error)

	// Renew extends claims until c.Until. It returns the leases that have ended, whose workers must stop. Versions do
	// not change.
	Renew(ctx context.Context, c Renewal) (lost []Lease, err error)

	// Commit applies changes, each atomically; a failed one does not stop the others. The error is non-nil only if
	// the store as a whole failed and the result of all changes is unknown (kind Unavailable): read again before a
	// retry. A parent whose last child ends is due at once.
	Commit(ctx context.Context, changes ...Change) ([]Result, error)

	// Hold makes the change, if any, and returns all holds, oldest first.
	Hold(ctx context.Context, change *HoldChange) ([]Hold, error)

	// Outbox settles and takes messages in the order of Due, lists them, and schedules settled ones for delivery
	// again.
	Outbox(ctx context.Context, call OutboxCall) ([]Message, error)

	// Watch returns at once. Until ctx ends, wake is called after commits with the jobs that changed. Hints may be
	// merged or lost; wake must not block and must not keep the slice.
	Watch(ctx context.Context, wake func([]Hint))

	// Properties returns the properties of the store.
	Properties() Properties
}

// Created is a job to be created with its first history entry, as [New] returns them. Job.Number is zero for the next
// number of its kind.
type Created struct {
	Job    Job
	Event  Event
	Outbox []Message
	Chain  *Chain // request its first claim in the same commit
}

// Renewal extends leases of one worker.
type Renewal struct {
	Worker string
	Leases []Lease
	Until  time.Time
}

// Hint reports that a job changed.
type Hint struct {
	Job    ID
	Kind   Kind
	State  lifecycle.State
	Epoch  int64
	Ended  bool
	Free   bool // neither ended nor claimed
	Record *Job // as committed, if the store has it in memory; valid during the call, read-only
}

// HintOf returns the hint of a record.
func HintOf(j *Job) Hint {
	return Hint{Record: j, Job: j.ID, Kind: j.Kind, State: j.State, Epoch: j.Epoch, Ended: j.Ended, Free: !j.Ended &&
		!j.Claimed()}
}

// Properties are facts about a store, so that no caller needs its type.
type Properties struct {
	Name            string
	Durable         bool // acknowledged writes survive the end of the process
	Notifies        bool // Watch also reports commits of other processes
	Exclusive       bool // one process at a time
	MaxJobsPerState int  // 0: no known bound
}
