package job

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// Change is one atomic commit to one job: either a transition (Event is set) or news without one. The engine has asked the
// lifecycle; a store only checks that the record is still the one the engine saw, and applies all of it or nothing. What people cause (By is
// Operator or Owner) is entered in the audit list by the same commit; a change without a job is an entry in that list and nothing else.
type Change struct {
	Job ID

	// What the record must look like. Epoch is that of the claim under which the change is made; 0 means without a claim, and
	// then Version must be given. Version 0 is not compared. From, if set, is the state.
	Epoch   int64
	Version int64
	From    lifecycle.State
	Require Require

	// The transition, or no Event.
	Event lifecycle.Event
	To    lifecycle.Position
	Ended bool // To.State is an end
	Gone  bool // To.State is a tombstone
	By    lifecycle.Actor
	Actor string
	Note  string
	At    time.Time

	Seen int64 // the version that a person saw and expected, for the audit list; 0: none was named

	Set    Fields
	Keep   bool      // keep the claim and its epoch, in a transition too but not into an end; without a claim, its worker goes on undisturbed
	Purge  bool      // the record of a tombstone goes, and with it history, tasks and messages; refused while jobs of the batch exist or a message is pending. No Event
	Chain  *Chain    // ask for the claim of the next state in the same commit
	Spawn  []Created // children to create; one that exists already (by ID) is left as it is
	Tasks  []Task    // replaced by name
	Outbox []Message
}

// Require is what else must be true in the moment of the commit.
type Require struct {
	ParentIn  []lifecycle.State // the parent is in one of these; ignored without a parent
	Settled   bool              // all expected children exist and have ended
	Idle      bool              // no child is open
	Unsettled bool              // some expected child has not ended or does not exist: whoever waits for children cannot miss the last
	Held      bool              // a hold in force at the time of the change concerns the job as it is: nobody is held by a hold that is gone
	Free      bool              // no hold in force then concerns the job in the state it comes to: nobody is released into a hold
	Unheld    bool              // no hold in force then concerns the job as it is: nobody begins behind the back of a hold
}

// Hold tells whether the requirements about holds, Held, Free and Unheld, are met by a job before and after the change at the time at.
func (r Require) Hold(before, after *Job, holds []Hold, at time.Time) error {
	if len(holds) == 0 && !r.Held {
		return nil
	}
	in := func(j *Job) int {
		return slices.IndexFunc(holds, func(h Hold) bool { return h.On(at) && h.Matches(j) })
	}
	if r.Held && in(before) < 0 {
		return Errorf(Conflict, "commit", before.ID, "no hold concerns it any more")
	}
	if r.Free {
		if i := in(after); i >= 0 {
			h := &holds[i]
			return Errorf(Refused, "commit", before.ID, "%s is still on hold (%s, by %s): release that hold first", h.Scope, h.Why, h.Who)
		}
	}
	if r.Unheld {
		if i := in(before); i >= 0 {
			h := &holds[i]
			return Errorf(Refused, "commit", before.ID, "%s is on hold (%s, by %s)", h.Scope, h.Why, h.Who)
		}
	}
	return nil
}

// Chain asks to go on with the job in the state it comes to, or starts in. The store grants it as it would grant a [Claim]: no hold, room
// in the limits, and nobody of higher priority waiting in that state.
type Chain struct {
	Worker string
	Until  time.Time
	Limits []Limit
}

// Fields are the parts of a record that a change may set; nil leaves a part as it is.
type Fields struct {
	Data     json.RawMessage
	Message  *string
	Cause    *string
	Priority *int
	Due      *time.Time
	Deadline *time.Time
	Expires  *time.Time
	Attempts *int
	Starts   *int // else it is emptied by whatever its worker says
	Retries  *int
	Expected *int
	Group    *string
	Tags     []string // as [Tagged] gives them; empty but not nil takes all away
	Bytes    *int64
}

// Result is what became of one change of a batch: the record after it, or the error that stopped this one alone.
type Result struct {
	Job Job
	Err error
}

// Apply computes what c makes of record j, and the history entry if there is one. It checks claim, epoch, version and state;
// Require and Chain are the store's part. It changes neither argument. Errors: Stale, Conflict, Invalid.
func Apply(j Job, c *Change) (Job, *Event, error) {
	if err := current(&j, c); err != nil {
		return j, nil, err
	}
	next := j
	next.Version++
	next.Changed = c.At
	set(&next, &c.Set)
	if c.Epoch == 0 && c.Event != "" && !c.Keep {
		next.Epoch++ // whoever worked on it is fenced off
	}
	if !c.Keep && (c.Event != "" || c.Epoch != 0) {
		next.Worker, next.Until = "", time.Time{}
	}
	if c.Event != lifecycle.Lost && !c.Keep && (c.Event != "" || c.Epoch != 0) {
		next.Starts = 0 // its worker lived to tell
	}
	assign(&next.Starts, c.Set.Starts)
	if c.Event == "" {
		return next, nil, nil
	}
	if c.To.State != j.State {
		next.Entered = c.At
		if c.Set.Attempts == nil {
			next.Attempts = 0
		}
		if c.Set.Expires == nil {
			next.Expires = time.Time{}
		}
		if c.Set.Due == nil {
			next.Due = time.Time{}
		}
	}
	next.Position, next.Ended, next.Gone = c.To, c.Ended, c.Gone
	e := Event{
		Job: j.ID, Seq: j.Seq + 1, Event: c.Event, From: j.State, To: c.To.State, Outcome: c.To.Outcome,
		By: c.By, Actor: c.Actor, Cause: next.Cause, Note: c.Note, Epoch: j.Epoch, At: c.At.Truncate(time.Microsecond),
	}
	e.Seal(j.Head)
	next.Seq, next.Head = e.Seq, e.Hash
	return next, &e, nil
}

// current checks that the record is the one the change was made for.
func current(j *Job, c *Change) error {
	switch {
	case c.Epoch == 0 && c.Version == 0:
		return Errorf(Invalid, "commit", j.ID, "a change needs a claim's epoch or an expected version")
	case c.Epoch != 0 && c.Epoch != j.Epoch:
		return Errorf(Stale, "commit", j.ID, "claim %d is over, the record is at %d", c.Epoch, j.Epoch)
	case c.Epoch != 0 && !j.Claimed():
		return Errorf(Stale, "commit", j.ID, "claim %d is over: it was given back", c.Epoch)
	case c.Version != 0 && c.Version != j.Version:
		return Errorf(Conflict, "commit", j.ID, "it changed meanwhile (version %d, expected %d)", j.Version, c.Version)
	case c.From != "" && c.From != j.State:
		return Errorf(Conflict, "commit", j.ID, "it is %s, expected %s", j.State, c.From)
	case c.Set.Expected != nil && *c.Set.Expected < j.Children.Created():
		return Errorf(Refused, "commit", j.ID, "it has %d jobs already and cannot expect %d", j.Children.Created(), *c.Set.Expected)
	case c.Set.Priority != nil && (*c.Set.Priority < FirstPriority || *c.Set.Priority > LastPriority):
		return Errorf(Invalid, "commit", j.ID, "priority %d is not within 0..99", *c.Set.Priority)
	}
	return nil
}

func set(j *Job, f *Fields) {
	if f.Data != nil {
		j.Data = f.Data
	}
	assign(&j.Message, f.Message)
	assign(&j.Cause, f.Cause)
	assign(&j.Priority, f.Priority)
	assign(&j.Due, f.Due)
	assign(&j.Deadline, f.Deadline)
	assign(&j.Expires, f.Expires)
	assign(&j.Attempts, f.Attempts)
	assign(&j.Retries, f.Retries)
	assign(&j.Children.Expected, f.Expected)
	assign(&j.Group, f.Group)
	assign(&j.Bytes, f.Bytes)
	if f.Tags != nil {
		j.Tags = f.Tags
		if len(f.Tags) == 0 {
			j.Tags = nil
		}
	}
}

// Person tells whether somebody, not the machine, causes the change: then it is entered in the audit list.
func (c *Change) Person() bool {
	return c.By&(lifecycle.Operator|lifecycle.Owner) != 0 && (c.Event != "" || c.Purge)
}

func assign[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// Holds tells whether the requirement is met by job j and its parent (nil if it has none).
func (r Require) Holds(j, parent *Job) error {
	switch {
	case len(r.ParentIn) > 0 && parent != nil && !slices.Contains(r.ParentIn, parent.State):
		return Errorf(Refused, "commit", j.ID, "its batch %s is %s (must be %s)", parent.ID, parent.State, words(r.ParentIn))
	case r.Settled && !j.Children.Settled():
		return Errorf(Refused, "commit", j.ID, "%d of its %d jobs have not ended",
			j.Children.Expected-j.Children.Created()+j.Children.Open, j.Children.Expected)
	case r.Unsettled && j.Children.Settled():
		return Errorf(Conflict, "commit", j.ID, "all its jobs have ended meanwhile")
	case r.Idle && j.Children.Open > 0:
		return Errorf(Refused, "commit", j.ID, "%d of its jobs are still running", j.Children.Open)
	}
	return nil
}

func words(states []lifecycle.State) string {
	text := ""
	for i, s := range states {
		if i > 0 {
			text += " or "
		}
		text += string(s)
	}
	return text
}

// New completes the record of a job that is to be created: first history entry, version, times. The caller has set ID, Kind,
// Position, Definition and what else it wants; the store sets Number, unless the job brings its own.
func New(j Job, by lifecycle.Actor, actor string, at time.Time) (Job, Event) {
	j.Version, j.Epoch, j.Seq = 1, 0, 1
	j.Created, j.Changed, j.Entered = at, at, at
	e := Event{Job: j.ID, Seq: 1, Event: Create, To: j.State, By: by, Actor: actor, At: at.Truncate(time.Microsecond)}
	e.Seal(Hash{})
	j.Head = e.Hash
	return j, e
}
