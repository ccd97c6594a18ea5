package engine

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// SetOpen lets the engine claim jobs without [Engine.Run], or not.
func (e *Engine) SetOpen(open bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open.Store(open)
	e.decideChains()
}

// SharedStates returns the states whose jobs share the common slots.
func (e *Engine) SharedStates() []job.KindState { return e.shared.states }

// Advance moves a job on by a worker's event without a claim. An event that the lifecycle does not have is skipped.
func (e *Engine) Advance(ctx context.Context, j *job.Job, event lifecycle.Event, now time.Time) error {
	t := newTransition(e.workOf(j.Kind), j, now)
	if t.move(event, lifecycle.Worker) != nil {
		return nil
	}
	t.asRead("")
	_, err := e.one(ctx, t)
	return err
}

// CanRegister reports whether Register and Unregister could go on now: no jobs are being created.
func (e *Engine) CanRegister() bool {
	can := e.defining.TryLock()
	if can {
		e.defining.Unlock()
	}
	return can
}

// Tick does what an open engine does when it is woken once: one claim, then the sweep.
func (e *Engine) Tick(ctx context.Context) error {
	if !e.open.Load() {
		return nil
	}
	e.work, e.lasting = ctx, context.WithoutCancel(ctx)
	e.claim(ctx, e.shared, e.takeSlots(e.shared, e.shared.free), 0)
	e.steps.Wait()
	return e.overdue(ctx)
}
