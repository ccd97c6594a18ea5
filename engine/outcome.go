package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/internal/block"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// verdict is how a step ended.
type verdict int

const (
	passed  verdict = iota
	chose           // a named event
	waits           // Wait
	retries         // Retry
	fails           // Fail
	yields          // the engine stops
)

// outcome is what a step returns when it is not nil.
type outcome struct {
	verdict verdict
	event   lifecycle.Event
	blocker job.Blocker
	after   time.Duration // retries: at least this pause
	cause   string
	err     error
}

func (o *outcome) Error() string {
	switch {
	case o.err != nil:
		return o.err.Error()
	case o.verdict == waits:
		return "waits: " + o.blocker.Sentence
	}
	return "goes on by " + string(o.event)
}

func (o *outcome) Unwrap() error { return o.err }

// Go causes the named event, where a state has more than one exit.
func Go(e lifecycle.Event) error { return &outcome{verdict: chose, event: e} }

// Wait keeps the job in its state until b.Until (5 s if that has passed), without counting an attempt. `why` reports
// the blocker in the meantime.
func Wait(b job.Blocker) error { return &outcome{verdict: waits, blocker: b} }

// Retry tries the state again after its backoff, or fails the job when its attempts are used up.
func Retry(err error) error { return &outcome{verdict: retries, cause: cause.Of(err), err: err} }

// RetryAfter is Retry with a pause of at least d, such as a server asked for.
func RetryAfter(d time.Duration, err error) error {
	return &outcome{verdict: retries, after: d, cause: cause.Of(err), err: err}
}

// Fail fails the job at once. The cause is one word for programs and filters, the error a sentence for people.
func Fail(cause string, err error) error { return &outcome{verdict: fails, cause: cause, err: err} }

// success is the outcome of a step that returned nil. It is never changed.
var success = &outcome{verdict: passed}

// asOutcome converts the error that a step returned into an outcome.
func asOutcome(err error) *outcome {
	if err == nil {
		return success
	}
	var o *outcome
	if errors.As(err, &o) {
		return o
	}
	o = &outcome{verdict: fails, cause: cause.Of(err), err: err}
	if cause.Temporary(err) {
		o.verdict = retries
	}
	return o
}

// settle makes the change of a step's outcome. It is a pure function of its arguments.
func settle(w *Work, j *job.Job, o *outcome, now time.Time, chance float64) (job.Change, error) {
	switch o.verdict {
	case passed:
		for _, by := range []lifecycle.Actor{lifecycle.Worker, lifecycle.Engine} {
			if e, ok := w.Life.Choose(j.Position, lifecycle.Pass, by); ok {
				return move(w, j, e, by, now)
			}
		}
		return job.Change{}, job.Errorf(job.Internal, "settle", j.ID, "the step for %s must name its event", j.State)
	case chose:
		by := lifecycle.Worker
		if a, ok := w.Life.Transition(j.State, o.event); ok && a.By&by == 0 {
			by = lifecycle.Engine
		}
		return move(w, j, o.event, by, now)
	case waits:
		until := o.blocker.Until
		if !until.After(now) {
			until = now.Add(5 * time.Second) // no time was given: avoid a busy loop
		}
		return stay(w, j, lifecycle.Waiting, o, now, until)
	case yields:
		return stay(w, j, lifecycle.Yield, o, now, time.Time{})
	case retries:
		n, p := j.Attempts+1, w.policyFor(j.State)
		if stage, _ := w.Life.Stage(j.State); n < p.MaxAttempts || stage.Endures != "" {
			c, err := stay(w, j, lifecycle.Backoff, o, now, now.Add(max(o.after, p.Backoff.Pause(n, chance))))
			c.Set.Attempts = &n
			return c, err
		}
	}
	return failure(w, j, o, now)
}

// failure makes the change of the state's failure exit. Without one, a state that endures is tried again; in any other
// state the job waits until a person releases it, so that no step runs indefinitely.
func failure(w *Work, j *job.Job, o *outcome, now time.Time) (job.Change, error) {
	for _, by := range []lifecycle.Actor{lifecycle.Worker, lifecycle.Engine} {
		e, ok := w.Life.Choose(j.Position, lifecycle.Fail, by)
		if !ok {
			continue
		}
		c, err := move(w, j, e, by, now)
		explain(&c, o)
		return c, err
	}
	n := j.Attempts + 1 // there is no exit to take
	stage, _ := w.Life.Stage(j.State)
	due := now.Add(w.policyFor(j.State).Backoff.Pause(n, 0.5))
	if stage.Endures == "" { // a person ends that: see [operator.Acts]
		due = block.Never
		o = &outcome{verdict: o.verdict, cause: cause.Attempts,
			err: fmt.Errorf("attempt %d of %d failed, and %s has no failure exit: %s",
				n, w.policyFor(j.State).MaxAttempts, j.State, o.Error())}
	}
	c, err := stay(w, j, lifecycle.Backoff, o, now, due)
	c.Set.Attempts = &n
	return c, err
}

// explain copies the outcome's cause and message into the change.
func explain(c *job.Change, o *outcome) {
	text := ""
	if o.err != nil {
		text = o.err.Error()
	}
	c.Set.Cause, c.Set.Message, c.Note = &o.cause, &text, text
}

// move makes the change of one transition.
func move(w *Work, j *job.Job, e lifecycle.Event, by lifecycle.Actor, now time.Time) (job.Change, error) {
	to, err := w.Life.Next(j.Position, e, by)
	if err != nil {
		return job.Change{}, &job.Error{Op: string(e), Kind: job.Refused, ID: j.ID, Err: err}
	}
	empty := ""
	c := job.Change{
		Job: j.ID, From: j.State, Event: e, To: to, By: by, At: now,
		Ended: w.Life.Ended(to.State), Gone: w.Life.Tombstone(to.State),
	}
	if to.State != j.State {
		expires := w.expires(j, to, now, j.Deadline)
		c.Set.Expires = &expires
		if !c.Gone {
			c.Set.Cause, c.Set.Message = &empty, &empty
		}
	}
	return c, nil
}

// stay makes the change of a loop. If the reason to wait is the same as before, the change has no event.
func stay(w *Work, j *job.Job, e lifecycle.Event, o *outcome, now, due time.Time) (job.Change, error) {
	c, err := move(w, j, e, lifecycle.Worker, now)
	if err != nil { // a state that is not a worker's has no loops
		c, err = job.Change{Job: j.ID, From: j.State, At: now}, nil
	}
	if e == lifecycle.Waiting {
		o.cause, o.err = o.blocker.Code, errors.New(o.blocker.Sentence)
		if j.Cause == o.cause {
			c.Event = "" // the history need not repeat the reason
		}
		if o.cause == cause.Children {
			c.Require.Unsettled = true
		}
	}
	if o.err != nil {
		explain(&c, o)
	}
	c.Set.Due = &due
	return c, err
}
