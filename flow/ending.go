package flow

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Ending is a request to end a flow early; see [Runner.Cancel].
type Ending struct {
	Keep bool   // nothing is rolled back: the flow ends in FAILURE, and a later run continues
	Now  bool   // the contexts of running tasks end, with Keep those of reverts too; otherwise the flow waits for them
	Type string // of the failure that the run returns; defaults to TypeCancelled
	Text string // why; defaults to "the flow NAME was cancelled"
}

// errInterrupted is the cause of the context of an interrupted task.
var errInterrupted = errors.New("its flow is being ended")

// Cancel requests the end of the flow. No further task is executed; the flow waits for running tasks, or interrupts
// them with Now. Then all executed tasks are reverted, those of earlier runs too. The flow ends REVERTED, or in FAILURE
// if a revert fails. With Keep nothing is reverted: the flow ends in FAILURE, and a later run continues. A SUSPENDING
// or SUSPENDED flow ends too. A later request replaces an earlier one. Cancel may be called from any goroutine and from
// listeners. If the flow does not run, the request is for its next run; in SUCCESS and REVERTED it has no effect.
func (r *Runner) Cancel(e Ending) {
	if e.Type == "" {
		e.Type = TypeCancelled
	}
	if e.Text == "" {
		e.Text = "the flow " + r.plan.name + " was cancelled"
	}
	r.ending.Store(&e)
	if e.Now {
		r.contexts.interrupt(false)
		if e.Keep {
			r.contexts.interrupt(true)
		}
	}
	r.mail.Load().wakeUp()
}

// taskContexts has one context for the executions and one for the reverts, so that each can be interrupted.
type taskContexts struct {
	mu     sync.Mutex // guards the rest
	ctx    [2]context.Context
	cancel [2]context.CancelCauseFunc
}

func side(undo bool) int {
	if undo {
		return 1
	}
	return 0
}

// contextFor returns the context of executions or reverts, derived from that of the run.
func (r *taskContexts) contextFor(run context.Context, undo bool) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := side(undo)
	if r.ctx[at] == nil {
		r.ctx[at], r.cancel[at] = context.WithCancelCause(run)
	}
	return r.ctx[at]
}

// interrupt ends the context of the present executions or reverts. Later ones get a new context.
func (r *taskContexts) interrupt(undo bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := side(undo); r.ctx[at] != nil {
		r.cancel[at](errInterrupted)
		r.ctx[at], r.cancel[at] = nil, nil
	}
}

// interrupted makes the failure of a task whose context [taskContexts.interrupt] ended.
func interrupted(ctx context.Context, c *Call, err error) error {
	if err == nil || !errors.Is(context.Cause(ctx), errInterrupted) {
		return err
	}
	return newFailure(TypeInterrupted, "%s was interrupted: %w", c.Atom, FailureOf(err))
}

// isEnding reports whether the end of the flow is requested.
func (r *Runner) isEnding() bool { return r.ending.Load() != nil }

// hasNewEnding reports whether there is a request to end the flow that is not accepted yet.
func (r *Runner) hasNewEnding(ctx context.Context) bool {
	e := r.ending.Load()
	return e != nil && e != r.acceptedEnding && r.state == Running && ctx.Err() == nil &&
		r.requested.Load() != requestStop
}

// acceptEnding accepts a new request to end the flow: it changes intentions and closes the inactive atoms. It returns
// the reverts that an earlier run left; they start again.
func (r *Runner) acceptEnding(ctx context.Context) (left []work) {
	if !r.hasNewEnding(ctx) {
		return nil
	}
	if r.acceptedEnding = r.ending.Load(); !r.acceptedEnding.Keep {
		r.rollBack()
	}
	for _, i := range r.plan.atoms {
		r.closeAtom(i)
		if _, works := r.active[i]; !works && r.recs[i].State == Reverting {
			left = append(left, work{i, true})
		}
	}
	return left
}

// rollBack marks all atoms to be reverted. Failed reverts are repeated.
func (r *Runner) rollBack() {
	for _, f := range r.faults {
		if i, there := r.plan.byName[f.atom]; !there || r.recs[i].RevertFailure != f.failure {
			r.revertCauses = append(r.revertCauses, f.failure)
		}
	}
	r.faults = nil
	for _, i := range r.plan.atoms {
		switch rec := &r.recs[i]; {
		case rec.State == RevertFailure:
			r.again[i] = true
			r.gauge.recheck(i)
		case rec.Intention == ToRetry && !rec.Due.IsZero(): // a pause between attempts
			rec.Due = time.Time{}
			r.markDirty(i)
		}
	}
	r.revertAll()
}

// closeAtom moves an inactive atom to a state with which a flow may end, or from which the atom is reverted.
func (r *Runner) closeAtom(i int32) {
	rec := &r.recs[i]
	if _, works := r.active[i]; works {
		return
	}
	switch rec.State {
	case Running:
		if r.unbegun[i] && rec.Kind == KindTask && !r.waiting[i] {
			delete(r.unbegun, i)
			rec.Attempts--
			r.set(i, Pending)
			return
		}
		text := "%s was interrupted with an earlier run of its flow"
		if rec.Waits {
			text = "%s was waiting when its flow was ended"
		}
		_, missing := r.arguments(i, r.plan.nodes[i].args)
		switch {
		case rec.Failure == nil && missing != nil && !rec.Waits:
			// it was never called: submit reverts it without a call
			rec.Failure = FailureOf(missing)
		case rec.Failure == nil:
			rec.Failure = newFailure(TypeInterrupted, text, rec.Name)
		case r.acceptedEnding.Keep: // its next attempt is made when the flow is run again
			rec.Failure = newFailure(TypeInterrupted, text+": %w", rec.Name, rec.Failure)
		}
		delete(r.waiting, i)
		delete(r.unbegun, i)
		rec.Waits, rec.Due, rec.Awaits, rec.Ended = false, time.Time{}, "", r.o.Now()
		r.set(i, FailureState)
	case Reverting:
		if r.acceptedEnding.Keep {
			rec.RevertFailure, rec.Reverted, rec.Ended = newFailure(TypeInterrupted, "the revert of %s was interrupted",
				rec.Name), nil, r.o.Now()
			r.set(i, RevertFailure)
		}
	case Retrying:
		intention := rec.Intention
		r.resetAtom(i)
		r.setIntention(i, intention)
	}
}

// resetAtom moves an atom to PENDING. A controller keeps its history.
func (r *Runner) resetAtom(i int32) {
	history := r.recs[i].History
	r.clearAtom(i)
	r.recs[i].History = history
}

// endingFailure returns the failure of a flow whose end was requested; nil: it was not.
func (r *Runner) endingFailure() *Failure {
	if r.acceptedEnding == nil {
		return nil
	}
	return &Failure{Type: r.acceptedEnding.Type, Message: truncate(r.acceptedEnding.Text, longestMessage)}
}

// unfinished reports whether a flow that ends with Keep has atoms left to do.
func (r *Runner) unfinished() bool {
	return r.acceptedEnding != nil && r.acceptedEnding.Keep && r.state == Running &&
		(r.canContinue() || len(r.waiting) > 0 || len(r.timers) > 0)
}

// rollsBack reports whether the flow is being rolled back, and its run may continue.
func (r *Runner) rollsBack(ctx context.Context) bool {
	e := r.ending.Load()
	return e != nil && !e.Keep && ctx.Err() == nil && r.state == Running && r.requested.Load() != requestStop
}

// release ends the contexts of a run that is over.
func (r *taskContexts) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := range r.ctx {
		if r.cancel[at] != nil {
			r.cancel[at](nil)
		}
		r.ctx[at], r.cancel[at] = nil, nil
	}
}
