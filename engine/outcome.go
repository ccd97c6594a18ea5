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

// becomesReason makes the blocker of an outcome that waits its cause and its error.
func (o *outcome) becomesReason() { o.cause, o.err = o.blocker.Code, errors.New(o.blocker.Sentence) }

// forChildren reports whether the outcome waits for the jobs of a batch.
func (o *outcome) forChildren() bool { return o.cause == cause.Children }

// settle makes the change of a step's outcome. It is a pure function of its arguments, the record and the time.
func (t *transition) settle(o *outcome, chance float64) error {
	w, j := t.work, t.before
	switch o.verdict {
	case passed:
		for _, by := range [...]lifecycle.Actor{lifecycle.Worker, lifecycle.Engine} {
			if e, ok := w.Life.Choose(j.Position, lifecycle.Pass, by); ok {
				return t.move(e, by)
			}
		}
		return job.Errorf(job.Internal, "settle", j.ID, "the step for %s must name its event", j.State)
	case chose:
		by := lifecycle.Worker
		if a, ok := w.Life.Transition(j.State, o.event); ok && a.By&by == 0 && a.By&lifecycle.Engine != 0 {
			by = lifecycle.Engine
		}
		return t.move(o.event, by)
	case waits:
		until := o.blocker.Until
		if !until.After(t.At) {
			until = t.At.Add(5 * time.Second) // no time was given: avoid a busy loop
		}
		t.stay(lifecycle.Waiting, o, until)
		return nil
	case yields:
		t.stay(lifecycle.Yield, o, time.Time{})
		return nil
	case retries:
		n, p := j.Attempts+1, w.policyFor(j.State)
		if stage, _ := w.Life.Stage(j.State); n < p.MaxAttempts || stage.Endures != "" {
			t.stay(lifecycle.Backoff, o, t.At.Add(max(o.after, p.Backoff.Pause(n, chance))))
			t.setAttempts(n)
			return nil
		}
	}
	return t.fail(o)
}

// fail makes the change of the state's failure exit. Without one, a state that endures is tried again; in any other
// state the job waits until a person releases it, so that no step runs indefinitely.
func (t *transition) fail(o *outcome) error {
	w, j := t.work, t.before
	for _, by := range [...]lifecycle.Actor{lifecycle.Worker, lifecycle.Engine} {
		e, ok := w.Life.Choose(j.Position, lifecycle.Fail, by)
		if !ok {
			continue
		}
		err := t.move(e, by)
		t.explain(o)
		return err
	}
	n := j.Attempts + 1 // there is no exit to take
	stage, _ := w.Life.Stage(j.State)
	due := t.At.Add(w.policyFor(j.State).Backoff.Pause(n, 0.5))
	if stage.Endures == "" { // a person ends that: see [operator.Acts]
		due = block.Never
		o = &outcome{verdict: o.verdict, cause: cause.Attempts,
			err: fmt.Errorf("attempt %d of %d failed, and %s has no failure exit: %s",
				n, w.policyFor(j.State).MaxAttempts, j.State, o.Error())}
	}
	t.stay(lifecycle.Backoff, o, due)
	t.setAttempts(n)
	return nil
}
