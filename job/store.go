package job

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// Store keeps jobs. It decides nothing: the engine passes events, states and expected versions, and the store applies
// all of a commit or nothing. Every method is safe for concurrent use. Every acknowledged write survives the end of
// the process and, if Properties states so, of the machine. Answers share no memory with the store: a caller may change
// them. A store keeps no argument after it has returned: a caller may use its memory again. Errors are *[Error]. The
// contract as tests is package storetest.
//
// A call whose context ends before the store has begun to write is Unavailable, and nothing of it is written then or
// later. Afterwards it returns its result, even if its context has ended: what it claims, takes or creates is the
// caller's. So a call may last longer than its context: as long as the store tries to write.
//
// Texts may have any bytes, and are read as they were written. Those by which records are found have at most
// [MostText], [MostName] or [MostScope] bytes: a Create, a claim or a hold with a longer one is Invalid, and so is one
// change of a Commit. Queries may have longer ones. A store may refuse what is not UTF-8 as Invalid, and a text of more
// than 100 bytes by which records are found if it has the byte 0.
type Store interface {
	Jobs
	Claims
	Holds
	Outbox
	AuditLog

	// Watch returns at once. Until ctx ends, wake is called after commits with the jobs that changed. A store that is
	// not Exclusive also calls it after a hold was released, with [Hint].Released, and after one was put that ends by
	// itself, with [Hint].Until. Hints may be merged or lost; wake must not block and must not keep the slice.
	Watch(ctx context.Context, wake func([]Hint))

	// Properties returns the properties of the store.
	Properties() Properties
}

// Jobs is the part of a [Store] that keeps the records with their histories and tasks.
type Jobs interface {
	// Create adds jobs made by [New], all or none. A job whose ID exists, or whose Key exists for its kind and owner,
	// is not added; the existing job is returned instead. For a child, it must be of the same parent, else the call is
	// Invalid. A parent's counts and version change in the same commit. A child beyond its Expected, or of a parent
	// that has ended, is Refused.
	//
	// A new job gets the next number of its kind, or the Number that it brings: any number up to [LastNumber] that is
	// higher than every earlier one of its kind, including those of purged jobs. The next number follows it. A lower
	// one is a Conflict, one that is no number Invalid; after LastNumber a job without a number is Refused. So numbers
	// increase in order of creation. Requires must be as [Required] returns it, priority, Bytes and counts within their
	// bounds ([LastPriority], [MostBytes], [MostCount]), Words as [CheckWords] states, and the event one of the job,
	// else the call is Invalid. All of this applies to the children of a commit too.
	Create(ctx context.Context, jobs ...Created) ([]Job, error)

	// Get returns the record, or kind NotFound.
	Get(ctx context.Context, id ID) (Job, error)

	// Numbered returns the job of a kind that has the number, or kind NotFound. Its cost is nearly independent of the
	// number of jobs.
	Numbered(ctx context.Context, kind Kind, number int64) (Job, error)

	// Named returns up to n jobs, newest first, whose id begins with part, or ends with it and which are among the
	// newest 10,000. If owner is not empty, only jobs of that owner. n is at most 1000; below 1
	// there are none. Of those that are not among the newest 10,000, a store may take the ones with the highest ids as
	// the newest, and pass over those that follow 10,000 jobs of other owners.
	Named(ctx context.Context, part, owner string, n int) ([]Job, error)

	// List returns a page of jobs in order of creation. A cursor stays valid while jobs are added and removed. A cursor
	// of no page is Invalid or is that of some page. A page ends early, with Next if jobs follow, with the job with
	// which its specs and data have 8 MiB.
	//
	// A query with Words is refused by a store without [Properties].Words, and Invalid if they are none. Its cost does
	// not grow with the number of jobs: after 5,000 jobs that may have the words, a page may end early, even without a
	// job, with Next. Then it is possible that no job follows.
	List(ctx context.Context, q Query) (Page, error)

	// ListEnded returns a page of the jobs that ended and have not changed since a time, in any order. Its cost follows
	// the jobs that it returns: it depends neither on those that changed later nor on those in other states. A cursor
	// stays valid while jobs are added, changed and removed, and a page ends early, as in List.
	ListEnded(ctx context.Context, q EndedQuery) (Page, error)

	// Count tallies all jobs by kind, state and group, in any order. Its cost does not depend on the number of jobs.
	Count(ctx context.Context) ([]Tally, error)

	// History returns up to n entries after number seq (0: from the first), oldest first, or kind NotFound. n 0 means
	// all.
	History(ctx context.Context, id ID, seq int64, n int) ([]Event, error)

	// Tasks returns the tasks of a job by name; none if there is no such job.
	Tasks(ctx context.Context, id ID) ([]Task, error)

	// Commit applies changes, each atomically; a failed one does not stop the others. The error is non-nil only if
	// the store as a whole failed and the result of all changes is unknown (kind Unavailable): read again before a
	// retry. Each change sees what the ones before it left. A child that ends, or is no longer ended, changes the
	// counts and the version of its parent; a parent whose last child ends is due at once. A priority that is out of
	// range is Invalid, and so is a count above [MostCount] or below 0: that of the change, a task or a message. So are
	// Words that [CheckWords] refuses.
	Commit(ctx context.Context, changes ...Change) ([]Result, error)
}

// Claims is the part of a [Store] that leases jobs to workers.
type Claims interface {
	// Claim leases up to N due jobs to a worker, one after another, each in the order of [Claim]. It never grants a job
	// that is held, over a limit or claimed, or that requires a label that the worker does not have, and never the same
	// job to two workers. The cost does not depend on the number of jobs that require other labels. In the same commit
	// Epoch, Starts and Version are incremented, Due becomes zero, Changed is the time of the claim and Until follows
	// after the lease. A claim without a Worker is Invalid. An empty result is not an error. It grants fewer than N
	// jobs if their specs and data have 8 MiB together; this is counted every 50 jobs or more often. A store that is
	// not Exclusive may pass over jobs that another call has locked at that moment: a later claim takes them.
	Claim(ctx context.Context, c Claim) ([]Job, error)

	// Peek returns what the claim would grant, and what keeps it from granting the job with the id, if that is not
	// claimed or ended: for that, the job need not be in a state of From. It changes nothing. id may be empty. Its cost
	// does not depend on the number of jobs.
	Peek(ctx context.Context, c Claim, id ID) (Forecast, error)

	// Renew extends claims. It returns the leases that have ended, whose workers must stop: the job is unknown, not
	// claimed, or claimed by another worker or under another epoch. A claim whose time is over and that was not
	// ended is extended too. Versions do not change.
	Renew(ctx context.Context, r Renewal) (lost []Lease, err error)

	// Overdue returns up to n jobs of the kinds (none: of all) whose claim or Expires has ended by now, in any order.
	// Ended jobs are never overdue. n is at most 1000.
	Overdue(ctx context.Context, now time.Time, kinds []Kind, n int) ([]Job, error)
}

// Holds is the part of a [Store] that keeps the holds. Each change of them is an entry of the audit log in the same
// commit.
type Holds interface {
	// Holds returns all holds, oldest first; those that began at once in the order of their scopes as words.
	Holds(ctx context.Context) ([]Hold, error)

	// Hold puts a hold on its scope, in place of an earlier one, and returns all holds. Only the audit log has its
	// Address.
	Hold(ctx context.Context, h Hold) ([]Hold, error)

	// Release ends the hold on the scope of h and returns the others. A scope without a hold is NotFound. Who, Why,
	// Since and Address of h are those of the release, for the audit log.
	Release(ctx context.Context, h Hold) ([]Hold, error)
}

// Outbox is the part of a [Store] that keeps messages to external systems. Commits write them.
type Outbox interface {
	// Take returns up to N due messages in the order of Due. Attempts is incremented, and Due becomes the end of the
	// lease: they are not taken again before. N below 1 takes none.
	Take(ctx context.Context, t Taking) ([]Message, error)

	// Settle records the results of deliveries by Key, in one commit: Settled, Error, Due, Attempts and Tried of each
	// message are copied, of Tried the last [MostTried]; a nil Tried keeps that of the message. A settled or unknown
	// message is unchanged. If Attempts of one is out of range, the call is Invalid.
	Settle(ctx context.Context, messages ...Message) error

	// Messages returns a page of messages, newest first, settled or not.
	Messages(ctx context.Context, q MessageQuery) ([]Message, error)

	// Replay schedules settled messages for delivery again, at once and with all attempts: all or none. It returns
	// them in the order of the keys. An unknown key is NotFound, a pending message Conflict. A key that is repeated in
	// the call counts once.
	Replay(ctx context.Context, now time.Time, keys ...string) ([]Message, error)
}

// AuditLog is the part of a [Store] that records what persons do. Commits, creations and holds by persons write
// entries of their own.
type AuditLog interface {
	// Note appends an entry. The store sets Seq, Prev and Hash. An entry without an event or an actor is Invalid.
	Note(ctx context.Context, a Audit) error

	// Audit returns up to n entries after number seq (0: from the first), oldest first. A negative n returns the last
	// -n entries before number seq (0: of all), oldest first too.
	Audit(ctx context.Context, seq int64, n int) ([]Audit, error)

	// AuditHolds returns up to n entries of holds and releases (see [Audit.OfHold]) after number seq (0: from the
	// first), oldest first; below 1 there are none. Their Prev is not set. Its cost does not depend on the number of
	// other entries.
	AuditHolds(ctx context.Context, seq int64, n int) ([]Audit, error)
}

// Created is a job to be created with its first history entry, as [New] returns them. Job.Number is zero for the next
// number of its kind.
type Created struct {
	Job    Job
	Event  Event
	Outbox []Message
	Chain  *Chain // request its first claim in the same commit: granted if it is the next job of its state
}

// Renewal extends leases of one worker by a lease that begins now.
type Renewal struct {
	Worker string
	Leases []Lease
	Lease  time.Duration
	Now    time.Time // see [Claim]
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

	Released bool `json:",omitempty"` // a hold was released: any job may be claimable now, and none is named
	// a hold was put that ends at this time: any job may be claimable then, and none is named; zero: none was
	Until time.Time `json:",omitzero"`
}

// HintOf returns the hint of a record.
func HintOf(j *Job) Hint {
	return Hint{Record: j, Job: j.ID, Kind: j.Kind, State: j.State, Epoch: j.Epoch, Ended: j.Ended, Free: !j.Ended &&
		!j.Claimed()}
}

// Properties are facts about a store, so that no caller needs its type.
type Properties struct {
	Name      string
	Durable   bool // acknowledged writes survive the end of the process
	Exclusive bool // one process at a time
	// how many jobs one commit should create at most, because more may be too large for it; 0: any number
	Spawn int
	Words bool // lists find jobs by words
}
