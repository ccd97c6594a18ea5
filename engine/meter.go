package engine

import (
	"time"

	"github.com/stagepost/stagepost/engine/meter"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// claimed notifies the meter of jobs that were claimed from the queue.
func (e *Engine) claimed(jobs []job.Job, now time.Time) {
	for i := range jobs {
		j := &jobs[i]
		e.meter.Claimed(meter.Claimed{
			Kind: j.Kind, State: j.State, Waited: max(now.Sub(j.Entered), 0),
			First: j.Starts <= 1 && j.Attempts == 0 && j.Cause == "",
		})
	}
}

// attempted notifies the meter of an attempt at the state of j whose change c was committed, and of the next claim if
// the commit made one.
func (e *Engine) attempted(w *Work, j *job.Job, c *job.Change, ending meter.Ending, took time.Duration, next *job.Job) {
	a := meter.Attempt{Kind: j.Kind, State: j.State, Ending: ending, Took: took}
	if ending == meter.Passed {
		if transition, ok := w.Life.Transition(j.State, c.Event); ok && transition.Class == lifecycle.Fail {
			a.Ending = meter.FailedBy
		}
	}
	if a.Ending != meter.Passed && c.Set.Cause != nil {
		a.Cause = *c.Set.Cause
	}
	e.meter.Attempted(a)
	if a.Ending == meter.BackedUp {
		e.log.Warn("attempt failed", "job", j.ID, "state", j.State, "attempt", next.Attempts, "due", next.Due, "error",
			c.Note)
	}
	if c.Chain != nil && next.Worker == c.Chain.Worker && next.Epoch > j.Epoch {
		e.meter.Claimed(meter.Claimed{Kind: next.Kind, State: next.State, Chain: true})
	}
}

// ending returns how the attempt that made change c ended. A failure by a transition of its own counts as passed here;
// attempted finds it by its class.
func (o *outcome) ending(c *job.Change) meter.Ending {
	switch {
	case o.verdict == yields:
		return meter.Yielded
	case o.verdict == waits:
		return meter.Waited
	case c.Event == lifecycle.Backoff, c.Event == "":
		return meter.BackedUp
	}
	return meter.Passed
}

// sweepAdvanced notes that the sweep makes progress.
func (e *Engine) sweepAdvanced() { e.headway.Store(e.clock.Now().UnixNano()) }
