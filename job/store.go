package job

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// Store keeps jobs. It decides nothing: the engine passes in events, states and expected versions, and the store applies all
// of a commit or nothing. Every method is safe for concurrent use; every acknowledged write survives the end of the process
// and, where Properties says so, of the machine. Errors are *[Error]. Package storetest holds the contract as tests.
type Store interface {
	// Create adds jobs made by [New], all or none. A job whose ID exists, or whose Key exists for its kind and owner, is not added;
	// the one that exists is returned in its place. A parent's counts change in the same commit; a child beyond its Expected, or of a
	// parent that has ended, is Refused.
	//
	// A new job gets the next number of its kind, or the Number that it brings: any up to [LastNumber] that is higher than every one that was ever
	// given in its kind, to purged jobs too, and the next one goes on from there. A lower one is a Conflict. So numbers rise in order of creation.
	// All this goes for the children of a commit as well.
	Create(ctx context.Context, jobs ...Created) ([]Job, error)

	// Get gives the record, or kind NotFound.
	Get(ctx context.Context, id ID) (Job, error)

	// List gives a page of jobs in order of creation. A cursor stays valid while jobs come and go. With Number it looks up the one job that has it,
	// at a cost that hardly depends on the number of jobs; what [Query.Validate] refuses is Invalid.
	List(ctx context.Context, q Query) (Page, error)

	// Count tallies all jobs by kind, state and group. Its cost does not depend on the number of jobs.
	Count(ctx context.Context) ([]Tally, error)

	// History gives up to n entries after number seq (0: from the first), oldest first. n 0 means all.
	History(ctx context.Context, id ID, seq int64, n int) ([]Event, error)

	// Tasks gives the tasks of a job by name.
	Tasks(ctx context.Context, id ID) ([]Task, error)

	// Claim gives up to N due jobs to a worker, lowest priority number first, owners in turn, then the oldest; never a job that is
	// held, over a limit or claimed already, and never the same job to two workers. [Ageing] lets the one that waited longest go first now and then. Epoch and Starts are raised in the same commit.
	// An empty answer is no error.
	Claim(ctx context.Context, c Claim) ([]Job, error)

	// Renew prolongs claims until c.Until. It gives the leases that are over, whose workers must stop. Versions stay as they are.
	Renew(ctx context.Context, c Renewal) (lost []Lease, err error)

	// Commit applies changes, each atomic by itself; one that fails does not stop the others. The error is non-nil only when the
	// store as a whole failed and the fate of all changes is unknown (kind Unavailable): read again before trying again. A parent
	// whose last child ends is due at once.
	Commit(ctx context.Context, changes ...Change) ([]Result, error)

	// Hold makes the change, if any, and gives all holds, oldest first.
	Hold(ctx context.Context, change *HoldChange) ([]Hold, error)

	// Outbox settles and takes messages, the first due first, lists them, and has settled ones delivered again.
	Outbox(ctx context.Context, call OutboxCall) ([]Message, error)

	// Watch returns at once; wake is called after commits with the jobs that changed, until ctx ends. Hints may be merged or lost; wake must not block and
	// must not keep the slice.
	Watch(ctx context.Context, wake func([]Hint))

	// Properties tells what the store can do.
	Properties() Properties
}

// Created is a job to be created with its first history entry, as [New] makes them. Job.Number is zero for the next of its kind.
type Created struct {
	Job    Job
	Event  Event
	Outbox []Message
	Chain  *Chain // ask for its first claim in the same commit
}

// Renewal prolongs leases of one worker.
type Renewal struct {
	Worker string
	Leases []Lease
	Until  time.Time
}

// Hint says that a job changed.
type Hint struct {
	Job    ID
	Kind   Kind
	State  lifecycle.State
	Epoch  int64
	Ended  bool
	Free   bool // neither ended nor claimed
	Record *Job // as committed, where the store has it at hand; valid during the call, not to be changed
}

// HintOf makes the hint of a record.
func HintOf(j *Job) Hint {
	return Hint{Record: j, Job: j.ID, Kind: j.Kind, State: j.State, Epoch: j.Epoch, Ended: j.Ended, Free: !j.Ended && !j.Claimed()}
}

// Properties are facts about a store, so that nobody has to ask for its type.
type Properties struct {
	Name            string
	Durable         bool // acknowledged writes survive the end of the process
	Notifies        bool // Watch also tells of commits made by other processes
	Exclusive       bool // one process at a time
	MaxJobsPerState int  // 0: no bound known
}
