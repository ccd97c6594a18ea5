package job

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// Change is one atomic commit to one job: a transition (Event is set) or an update without one. The engine has
// evaluated the lifecycle. A store only checks that the record is the one that the engine read, and applies all of
// the change or nothing. If By is Operator or Owner, the same commit writes an entry of the audit log.
type Change struct {
	Job ID

	// The expected record. Epoch is that of the claim under which the change is made; 0 means without a claim, and
	// then Version is required. Version 0 is not compared. From, if set, is the state.
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
	Began time.Time // as in [Event]; ignored if it is after At
	// of the sender, for the history and the audit log
	Address string

	Seen int64 // the version that a person saw and expected, for the audit log; 0: none

	Set Fields
	// keep the claim and its epoch, also in a transition, but not into an end; without a claim, the worker of the job
	// continues
	Keep bool
	// remove the record of a tombstone with its history, tasks and messages; refused while jobs of the batch exist or
	// a message is pending. No Event
	Purge  bool
	Chain  *Chain    // request the claim of the next state in the same commit
	Spawn  []Created // children to create; an existing one (by ID) is unchanged. Refused if the change ends the job
	Tasks  []Task    // replaced by name
	Outbox []Message

	// The record as the caller has it, or nil. The record of the answer may share memory with it: Spec, Data, Tags and
	// Requires that are the same.
	Known *Job `json:"-"`
}

// Require are further conditions at the time of the commit.
type Require struct {
	ParentIn []lifecycle.State // the parent is in one of these; ignored without a parent
	Settled  bool              // all expected children exist and have ended
	Idle     bool              // no child is open
	// some expected child has not ended or does not exist, so that a job which waits for children cannot miss the
	// last
	Unsettled bool
	// a hold in force at the time of the change applies to the job: no job is held by a hold that was released
	Held   bool
	Free   bool // no hold in force applies to the job in its next state: no job is released into a hold
	Unheld bool // no hold in force applies to the job: no job begins concurrently with a hold
}

// Hold reports whether a job before and after the change at the time at meets the requirements Held, Free and Unheld.
func (r Require) Hold(before, after *Job, holds []Hold, at time.Time) error {
	if len(holds) == 0 && !r.Held {
		return nil
	}
	in := func(j *Job) int {
		return slices.IndexFunc(holds, func(h Hold) bool { return h.On(at) && h.Matches(j) })
	}
	if r.Held && in(before) < 0 {
		return Errorf(Conflict, "commit", before.ID, "no hold applies to it any more")
	}
	if r.Free {
		if i := in(after); i >= 0 {
			h := &holds[i]
			return Errorf(Refused, "commit", before.ID, "%s is still on hold (%s, by %s): release that hold first",
				h.Scope, h.Why, h.Who)
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

// Chain requests to continue with the job in its next state, or its first one. The store grants it under the
// conditions of a [Claim] of that state: the job is due and has not ended, no hold, free limits, and no job of better
// priority that such a claim would grant. A new job must also be the next one of the claim. A chain increments Epoch
// and Starts; it is no grant for the turns of owners and for [Ageing].
type Chain struct {
	Worker string
	Labels []string      // that the worker has, as in [Claim]
	Lease  time.Duration // from the time of the change
	Limits []Limit
}

// Fields are the parts of a record that a change may set; nil leaves a part unchanged.
type Fields struct {
	Data     json.RawMessage
	Message  *string
	Cause    *string
	Priority *int
	Due      *time.Time
	Deadline *time.Time
	Expires  *time.Time
	Attempts *int
	Starts   *int // by default every report of the job's worker resets it
	Retries  *int
	Expected *int
	Group    *string
	Tags     []string // as [Tagged] returns them; empty but not nil removes all
	Bytes    *int64
	Words    *string // see [CheckWords]
}

// Result is the result of one change of a list: the record after it, or the error of this change.
type Result struct {
	Job Job
	Err error
}

// Apply returns the record j after the change c, and the history entry if there is one. It checks claim, epoch,
// version and state; the store checks Require and Chain. It changes neither argument. Errors: Stale, Conflict,
// Invalid.
func Apply(j Job, c *Change) (Job, *Event, error) {
	e := new(Event)
	entered, err := ApplyTo(&j, e, c)
	if !entered {
		e = nil
	}
	return j, e, err
}

// ApplyTo is [Apply] in the memory of the caller: next is the record before, and becomes the one after; e becomes the
// history entry if entered. After an error neither has changed.
func ApplyTo(next *Job, e *Event, c *Change) (entered bool, err error) {
	if err := current(next, c); err != nil {
		return false, err
	}
	from, epoch := next.State, next.Epoch
	next.Version++
	next.Changed = c.At
	set(next, &c.Set)
	if c.Epoch == 0 && c.Event != "" && !c.Keep {
		next.Epoch++ // fences off the worker of the job
	}
	if !c.Keep && (c.Event != "" || c.Epoch != 0) {
		next.Worker, next.Until = "", time.Time{}
	}
	if c.Event != lifecycle.Lost && !c.Keep && (c.Event != "" || c.Epoch != 0) {
		next.Starts = 0 // its worker did not crash
	}
	assign(&next.Starts, c.Set.Starts)
	if c.Event == "" {
		return false, nil
	}
	if c.To.State != from {
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
	*e = Event{
		Job: next.ID, Seq: next.Seq + 1, Event: c.Event, From: from, To: c.To.State, Outcome: c.To.Outcome,
		By: c.By, Actor: c.Actor, Cause: next.Cause, Note: c.Note, Epoch: epoch, At: c.At.Truncate(time.Microsecond),
		Address: c.Address,
	}
	if !c.Began.IsZero() && !c.Began.After(c.At) {
		e.Began = c.Began.Truncate(time.Microsecond)
	}
	e.Seal(next.Head)
	next.Seq, next.Head = e.Seq, e.Hash
	return true, nil
}

// current checks that the record is the one that the change expects.
func current(j *Job, c *Change) error {
	switch {
	case c.Epoch == 0 && c.Version == 0:
		return Errorf(Invalid, "commit", j.ID, "a change needs a claim's epoch or an expected version")
	case c.Epoch != 0 && c.Epoch != j.Epoch:
		return Errorf(Stale, "commit", j.ID, "claim %d has ended, the record is at %d", c.Epoch, j.Epoch)
	case c.Epoch != 0 && !j.Claimed():
		return Errorf(Stale, "commit", j.ID, "claim %d has ended: it was released", c.Epoch)
	case c.Version != 0 && c.Version != j.Version:
		return Errorf(Conflict, "commit", j.ID, "it changed meanwhile (version %d, expected %d)", j.Version,
			c.Version)
	case c.From != "" && c.From != j.State:
		return Errorf(Conflict, "commit", j.ID, "it is %s, expected %s", j.State, c.From)
	case c.Set.Expected != nil && *c.Set.Expected < j.Children.Created():
		return Errorf(Refused, "commit", j.ID, "it has %d jobs already and cannot expect %d", j.Children.Created(),
			*c.Set.Expected)
	case c.Set.Priority != nil && (*c.Set.Priority < FirstPriority || *c.Set.Priority > LastPriority):
		return Errorf(Invalid, "commit", j.ID, "priority %d is not within 0..99", *c.Set.Priority)
	}
	if c.Set.Words != nil {
		if err := CheckWords(*c.Set.Words); err != nil {
			return Errorf(Invalid, "commit", j.ID, "%w", err)
		}
	}
	for _, n := range [...]*int{c.Set.Attempts, c.Set.Starts, c.Set.Retries} {
		if n != nil && (*n < 0 || *n > MostCount) {
			return Errorf(Invalid, "commit", j.ID, "the count %d is not within 0..%d", *n, MostCount)
		}
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
	assign(&j.Words, f.Words)
	if f.Bytes != nil {
		j.Bytes = countedBytes(*f.Bytes)
	}
	if f.Tags != nil {
		j.Tags = f.Tags
		if len(f.Tags) == 0 {
			j.Tags = nil
		}
	}
}

// Person reports whether a person causes the change, which then goes to the audit log.
func (c *Change) Person() bool {
	return c.By&(lifecycle.Operator|lifecycle.Owner) != 0 && (c.Event != "" || c.Purge)
}

func assign[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// Holds reports whether job j and its parent (nil if it has none) meet the requirement.
func (r Require) Holds(j, parent *Job) error {
	switch {
	case len(r.ParentIn) > 0 && parent != nil && !slices.Contains(r.ParentIn, parent.State):
		return Errorf(Refused, "commit", j.ID, "its batch %s is %s (must be %s)", parent.ID, parent.State,
			words(r.ParentIn))
	case r.Settled && !j.Children.Settled():
		return Errorf(Refused, "commit", j.ID, "%d of its %d jobs have not ended",
			j.Children.Expected-j.Children.Created()+j.Children.Open, j.Children.Expected)
	case r.Unsettled && j.Children.Settled():
		return Errorf(Conflict, "commit", j.ID, "all its jobs have ended by now")
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

// countedBytes returns the size that a record has for n bytes.
func countedBytes(n int64) int64 { return min(max(n, 0), MostBytes) }

// New completes the record of a new job: first history entry, version, times. The caller sets ID, Kind, Position,
// Definition and further fields; the store sets Number, unless the job brings its own.
func New(j Job, by lifecycle.Actor, actor string, at time.Time) (Job, Event) {
	j.Version, j.Epoch, j.Seq, j.Bytes = 1, 0, 1, countedBytes(j.Bytes)
	j.Created, j.Changed, j.Entered = at, at, at
	e := Event{Job: j.ID, Seq: 1, Event: Create, To: j.State, By: by, Actor: actor, At: at.Truncate(time.Microsecond)}
	e.Seal(Hash{})
	j.Head = e.Hash
	return j, e
}
