package engine

import (
	"context"
	"sync"
	"time"

	"github.com/stagepost/stagepost/engine/clock"
)

// term is the context of an attempt. It ends with errExpired when the state's time is up. That time changes when the
// step moves its job to another state.
type term struct {
	context.Context
	cancel context.CancelCauseFunc
	clock  clock.Clock

	mu    sync.Mutex // guards the rest
	at    time.Time
	timer *time.Timer
	turn  int  // number of the timer: one that was stopped too late does nothing
	moved bool // the time has changed: Deadline reports none
	ended bool
}

// newTerm makes the context of an attempt. With a zero time it has no end.
func newTerm(ctx context.Context, clock clock.Clock, at time.Time) *term {
	t := &term{clock: clock}
	t.Context, t.cancel = context.WithCancelCause(ctx)
	t.set(at)
	t.moved = false
	return t
}

// Deadline is part of [context.Context]. After the first change of the time it reports none, because derived contexts
// would keep the earlier one.
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
	t.stop()
	t.ended = true
	t.mu.Unlock()
	t.cancel(nil)
}
