package engine

import (
	"context"
	"sync"
	"time"

	"github.com/stagepost/stagepost/engine/clock"
)

// term is the context of an attempt. It ends with errExpired when the time for the state is up, a time that changes
// when the step moves its job to another state.
type term struct {
	context.Context
	cancel context.CancelCauseFunc
	clock  clock.Clock

	mu    sync.Mutex // guards the rest
	at    time.Time
	timer *time.Timer
	turn  int  // of the timer: one that was stopped too late does nothing
	moved bool // the time has changed: nothing may be derived from it
	ended bool
}

// newTerm makes the context of an attempt; a zero time has no end.
func newTerm(ctx context.Context, clock clock.Clock, at time.Time) *term {
	t := &term{clock: clock}
	t.Context, t.cancel = context.WithCancelCause(ctx)
	t.set(at)
	t.moved = false
	return t
}

// Deadline is part of [context.Context]. After the first change of the time there is none: contexts that were derived
// from an earlier one would rely on an end that no longer comes.
func (t *term) Deadline() (time.Time, bool) {
	t.mu.Lock()
	at, known := t.at, !t.at.IsZero() && !t.moved
	t.mu.Unlock()
	if outer, ok := t.Context.Deadline(); ok && (!known || outer.Before(at)) {
		return outer, true
	}
	if !known {
		return time.Time{}, false
	}
	return at, true
}

// set changes the time. An attempt whose time was up stays so.
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
		t.cancel(errExpired)
		return
	}
	turn := t.turn
	t.timer = time.AfterFunc(left, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if turn == t.turn {
			t.cancel(errExpired)
		}
	})
}

// pause stops the time until it is set again: the job is on its way to another state.
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

// end releases what the context holds when the attempt is over.
func (t *term) end() {
	t.mu.Lock()
	t.stop()
	t.ended = true
	t.mu.Unlock()
	t.cancel(nil)
}
