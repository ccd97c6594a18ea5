// Package meter has what an engine reports for counting its work.
package meter

import (
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Meter counts what an engine does. Its methods are called concurrently, by the goroutines that do the work: they must
// be quick and must not block. Package server/metrics has one.
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
	Chain  bool          // in the commit that ended the state before, without queueing
	First  bool          // in this state, with no attempt or wait before: Waited is the time in the queue
	Waited time.Duration // since the job came into the state
}

// Ending is how an attempt at a state ended.
type Ending string

// The endings of attempts.
const (
	Passed   Ending = "passed"    // the job went on
	Waited   Ending = "waited"    // the step waits for something; no attempt was counted
	BackedUp Ending = "backed-up" // an error that is tried again
	FailedBy Ending = "failed"    // the job took the state's failure exit
	TimedOut Ending = "timed-out" // the time for the state or the job was up
	Yielded  Ending = "yielded"   // the engine stopped and gave the job back
	Poisoned Ending = "poisoned"  // the leases of its workers expired too often
)

// Endings lists the endings of attempts.
func Endings() []Ending {
	return []Ending{Passed, Waited, BackedUp, FailedBy, TimedOut, Yielded, Poisoned}
}

// Attempt is one attempt at a state whose outcome was committed.
type Attempt struct {
	Kind   job.Kind
	State  lifecycle.State
	Ending Ending
	Cause  string        // one word; empty when it passed
	Took   time.Duration // zero if unknown: a worker outside, a job without a worker
}

// Lost is a claim that ended without a report of its worker, or was taken from it.
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
