package engine

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

// unmetered is the meter of an engine that has none.
type unmetered struct{}

func (unmetered) Claimed(Claimed)    {}
func (unmetered) Attempted(Attempt)  {}
func (unmetered) Lost(Lost)          {}
func (unmetered) Delivered(Delivery) {}

// claimed tells the meter of jobs that were claimed from the queue.
func (e *Engine) claimed(jobs []job.Job, now time.Time) {
	for i := range jobs {
		j := &jobs[i]
		e.meter.Claimed(Claimed{
			Kind: j.Kind, State: j.State, First: j.Starts <= 1 && j.Attempts == 0 && j.Cause == "", Waited: max(now.Sub(j.Entered), 0),
		})
	}
}

// attempted tells the meter of an attempt at the state of j whose change c was committed, and of the claim that may have come with it.
func (e *Engine) attempted(w *Work, j *job.Job, c *job.Change, ending Ending, took time.Duration, next *job.Job) {
	a := Attempt{Kind: j.Kind, State: j.State, Ending: ending, Took: took}
	if ending == Passed {
		if arrow, ok := w.Life.Arrow(j.State, c.Event); ok && arrow.Class == lifecycle.Fail {
			a.Ending = FailedBy
		}
	}
	if a.Ending != Passed && c.Set.Cause != nil {
		a.Cause = *c.Set.Cause
	}
	e.meter.Attempted(a)
	if a.Ending == BackedUp {
		e.log.Warn("attempt failed", "job", j.ID, "state", j.State, "attempt", next.Attempts, "due", next.Due, "error", c.Note)
	}
	if c.Chain != nil && next.Worker == c.Chain.Worker && next.Epoch > j.Epoch {
		e.meter.Claimed(Claimed{Kind: next.Kind, State: next.State, Chain: true})
	}
}

// ending says how the attempt ended that led to change c; failures that are moves like any other are found by their arrow.
func (o *outcome) ending(c *job.Change) Ending {
	switch {
	case o.verdict == yields:
		return Yielded
	case o.verdict == waits:
		return Waited
	case c.Event == lifecycle.Backoff, c.Event == "":
		return BackedUp
	}
	return Passed
}

// moved notes that the sweep gets on.
func (e *Engine) moved() { e.headway.Store(e.clock.Now().UnixNano()) }

// Stalled tells how long the sweep has got nothing done, for those who watch over the process: it stands still when the store does. Zero while
// Run is not under way or stops.
func (e *Engine) Stalled() time.Duration {
	last := e.headway.Load()
	if last == 0 {
		return 0
	}
	return max(time.Duration(e.clock.Now().UnixNano()-last), 0)
}
