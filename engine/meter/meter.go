// Package meter says what an engine reports to those who count its work.
package meter

import (
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Meter is told what an engine does, for those who count it. Its methods are called by the goroutines that do the work and by many at once: they
// must be quick and must not block. Package server/metrics has one.
type Meter interface {
	Claimed(c Claimed)
	Attempted(a Attempt)
	Lost(l Lost)
	Delivered(d Delivery)
}

// Claimed is a claim that was granted.
type Claimed struct {
	Kind   job.Kind
	State  lifecycle.State
	Chain  bool          // in the commit that ended the state before, without a place in the queue
	First  bool          // in this state: nothing has been tried yet and nothing was waited for, so that Waited says how long the queue is
	Waited time.Duration // since the job came into the state
}

// Ending says how an attempt at a state ended.
type Ending string

// The ways in which an attempt ends.
const (
	Passed   Ending = "passed"    // the job went on
	Waited   Ending = "waited"    // the step waits for something; no attempt was counted
	BackedUp Ending = "backed-up" // an error that is tried again
	FailedBy Ending = "failed"    // the job took the state's failure exit
	TimedOut Ending = "timed-out" // the time for the state or the job was up
	Yielded  Ending = "yielded"   // the engine stopped and gave the job back
	Poisoned Ending = "poisoned"  // its workers fell silent too often
)

// Endings lists the ways in which an attempt ends.
func Endings() []Ending {
	return []Ending{Passed, Waited, BackedUp, FailedBy, TimedOut, Yielded, Poisoned}
}

// Attempt is one attempt at a state whose outcome was committed.
type Attempt struct {
	Kind   job.Kind
	State  lifecycle.State
	Ending Ending
	Cause  string        // one word; empty when it passed
	Took   time.Duration // zero when nobody here knows: a worker outside, a job that nobody worked on
}

// Lost is a claim that ended without a word of its worker, or was taken from it.
type Lost struct {
	Kind   job.Kind
	State  lifecycle.State
	Silent bool // the worker did not renew it in time; else an operator or another worker took the job
}

// Delivery is one attempt to deliver a message of the outbox.
type Delivery struct {
	Topic   string
	Settled job.Settled // Pending: it is tried again
	Took    time.Duration
	Lag     time.Duration // since the commit that wrote it
}

// None counts nothing.
type None struct{}

// Claimed is part of [Meter].
func (None) Claimed(Claimed) {}

// Attempted is part of [Meter].
func (None) Attempted(Attempt) {}

// Lost is part of [Meter].
func (None) Lost(Lost) {}

// Delivered is part of [Meter].
func (None) Delivered(Delivery) {}
