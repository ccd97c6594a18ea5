package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stagepost/stagepost/engine/clock"
)

// term is the context of an attempt. It ends with errExpired when the state's time is up. That time changes when the
// step moves its job to another state. The context of a claim is a term without a time.
//
// Most steps only pass it on. Its channel, and what contexts derived from it need, are made when they are first used.
type term struct {
	outer context.Context // of the claim, or of the engine
	clock clock.Clock

	mu     sync.Mutex      // guards the rest
	inner  context.Context // answers the methods of a context; nil until one needs a channel or a value
	cancel context.CancelCauseFunc
	cause  error // why it ended before outer, or nil
	at     time.Time
	timer  *time.Timer
	turn   int32 // number of the timer: one that was stopped too late does nothing
	moved  bool  // the time has changed: Deadline reports none
	ended  bool
}

// newTerm makes the context of an attempt. With a zero time it has no end.
func newTerm(ctx context.Context, c clock.Clock, at time.Time) *term {
	t := &term{outer: ctx, clock: c}
	if !at.IsZero() {
		t.set(at)
		t.moved = false
	}
	return t
}

// Deadline is part of [context.Context]. After the first change of the time it reports none, because derived contexts
// would keep the earlier one.
func (t *term) Deadline() (time.Time, bool) {
	t.mu.Lock()
	at, known := t.at, !t.at.IsZero() && !t.moved
	t.mu.Unlock()
	if outer, ok := t.outer.Deadline(); ok && (!known || outer.Before(at)) {
		return outer, true
	}
	if !known {
		return time.Time{}, false
	}
	return at, true
}

// Done is part of [context.Context].
func (t *term) Done() <-chan struct{} { return t.made().Done() }

// Value is part of [context.Context]. Contexts that are derived from it and [context.Cause] use it too.
func (t *term) Value(key any) any { return t.made().Value(key) }

// Err is part of [context.Context].
func (t *term) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.inner != nil:
		return t.inner.Err()
	case t.cause != nil:
		return context.Canceled
	}
	return t.outer.Err()
}

// made returns the inner context.
func (t *term) made() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inner == nil {
		outer := t.outer
		if t.cause != nil { // outer may have ended since
			outer = context.WithoutCancel(outer)
		}
		t.inner, t.cancel = context.WithCancelCause(outer)
		if t.cause != nil {
			t.cancel(t.cause)
		}
	}
	return t.inner
}

// finish ends the context with a cause, unless it has ended. The caller holds mu.
func (t *term) finish(cause error) {
	if t.cause != nil || t.outer.Err() != nil {
		return
	}
	t.cause = cause
	if t.cancel != nil {
		t.cancel(cause)
	}
}

// set changes the time. It does not revive an attempt whose time was up.
func (t *term) set(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || at.Equal(t.at) && t.timer != nil {
		return
	}
	t.stop()
	t.moved = t.moved || !at.Equal(t.at)
	t.at = at
	if at.IsZero() {
		return
	}
	left := at.Sub(t.clock.Now())
	if left <= 0 {
		t.finish(errExpired)
		return
	}
	turn := t.turn
	t.timer = time.AfterFunc(left, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if turn == t.turn {
			t.finish(errExpired)
		}
	})
}

// pause stops the timer until set is called: the step is moving the job to another state.
func (t *term) pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop()
}

// stop is pause for those who hold mu.
func (t *term) stop() {
	t.turn++
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
}

// end releases the context after the attempt.
func (t *term) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop()
	t.ended = true
	t.finish(context.Canceled)
	if t.cancel != nil { // releases what outer has of it, also if outer has ended
		t.cancel(context.Canceled)
	}
}

// close ends the context of a claim. With nil the work on the job has ended.
func (t *term) close(cause error) {
	if cause == nil {
		t.end()
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finish(cause)
}

// lost reports whether the claim was lost.
func (t *term) lost() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Is(t.cause, errLost)
}
