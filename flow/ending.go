package flow

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Ending asks a flow to end before all of it is done; see [Runner.Cancel].
type Ending struct {
	Keep bool // nothing is rolled back: the flow ends in FAILURE and can be run again from there
	// running tasks are interrupted, with Keep running reverts too: their contexts end. Otherwise they end by
	// themselves first
	Now  bool
	Type string // of the failure that the run returns; defaults to TypeCancelled
	Text string // why; defaults to "the flow NAME was cancelled"
}

// errInterrupted is why the context of a task ends that is interrupted.
var errInterrupted = errors.New("its flow is being ended")

// Cancel asks the flow to end. Nothing new is executed; running tasks end by themselves, or at once with Now. Then
// everything that was executed is reverted, also what an earlier run left, and the flow ends REVERTED, or in FAILURE if
// a revert fails. With Keep nothing is reverted: the flow ends in FAILURE, and a later run goes on from there. A flow
// that is SUSPENDING or SUSPENDED ends too. A later request replaces an earlier one. Cancel may be called from
// anywhere, listeners included. A request to a flow that does not run holds for its next run; in SUCCESS and REVERTED
// it has no effect.
func (r *Runner) Cancel(e Ending) {
	if e.Type == "" {
		e.Type = TypeCancelled
	}
	if e.Text == "" {
		e.Text = "the flow " + r.plan.name + " was cancelled"
	}
	r.ending.Store(&e)
	if e.Now {
		r.reins.cut(false)
		if e.Keep {
			r.reins.cut(true)
		}
	}
	r.mail.Load().stir()
}

// reins are the contexts of what is executed and of what is reverted, so that each can be interrupted.
type reins struct {
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

// take gives the context of an execution or a revert within that of the run.
func (r *reins) take(run context.Context, undo bool) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := side(undo)
	if r.ctx[at] == nil {
		r.ctx[at], r.cancel[at] = context.WithCancelCause(run)
	}
	return r.ctx[at]
}

// cut interrupts what is executed or reverted now; what begins later has another context.
func (r *reins) cut(undo bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := side(undo); r.ctx[at] != nil {
		r.cancel[at](errInterrupted)
		r.ctx[at], r.cancel[at] = nil, nil
	}
}

// interrupted makes the failure of a task whose context ended by [reins.cut].
func interrupted(ctx context.Context, c *Call, err error) error {
	if err == nil || !errors.Is(context.Cause(ctx), errInterrupted) {
		return err
	}
	return failed(TypeInterrupted, "%s was interrupted: %w", c.Atom, FailureOf(err))
}

// ends reports whether somebody asked for the end of the flow.
func (r *Runner) ends() bool { return r.ending.Load() != nil }

// asked reports whether there is a request to end the flow that is to be taken in.
func (r *Runner) asked(ctx context.Context) bool {
	e := r.ending.Load()
	return e != nil && e != r.quitting && r.state == Running && ctx.Err() == nil && r.wish.Load() != wishStop
}

// quit takes in a new request to end the flow: it changes intentions, and settles what no one works on. It gives the
// reverts that an earlier run left; they begin again.
func (r *Runner) quit(ctx context.Context) (left []work) {
	if !r.asked(ctx) {
		return nil
	}
	if r.quitting = r.ending.Load(); !r.quitting.Keep {
		r.rollBack()
	}
	for _, i := range r.plan.atoms {
		r.settle(i)
		if _, works := r.active[i]; !works && r.recs[i].State == Reverting {
			left = append(left, work{i, true})
		}
	}
	return left
}

// rollBack lets everything be reverted. Reverts that failed before are tried again.
func (r *Runner) rollBack() {
	for _, f := range r.faults {
		if i, there := r.plan.byName[f.atom]; !there || r.recs[i].RevertFailure != f.failure {
			r.extra = append(r.extra, f.failure)
		}
	}
	r.faults = nil
	for _, i := range r.plan.atoms {
		switch rec := &r.recs[i]; {
		case rec.State == RevertFailure:
			r.again[i] = true
			r.gauge.note(i)
		case rec.Intention == ToRetry && !rec.Due.IsZero(): // a pause between attempts
			rec.Due = time.Time{}
			r.mark(i)
		}
	}
	r.revertAll()
}

// settle gives an atom that no one works on a state that a flow may end with, or from which it is reverted.
func (r *Runner) settle(i int32) {
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
		if rec.Failure == nil {
			rec.Failure = failed(TypeInterrupted, text, rec.Name)
		} else if r.quitting.Keep { // it was to be tried again, and will be when the flow is run again
			rec.Failure = failed(TypeInterrupted, text+": %w", rec.Name, rec.Failure)
		}
		delete(r.waiting, i)
		delete(r.unbegun, i)
		rec.Waits, rec.Due, rec.Awaits, rec.Ended = false, time.Time{}, "", r.o.Now()
		r.set(i, FailureState)
	case Reverting:
		if r.quitting.Keep {
			rec.RevertFailure, rec.Reverted, rec.Ended = failed(TypeInterrupted, "the revert of %s was interrupted",
				rec.Name), nil, r.o.Now()
			r.set(i, RevertFailure)
		}
	case Retrying:
		intention := rec.Intention
		r.renew(i)
		r.intend(i, intention)
	}
}

// renew puts an atom back to PENDING, a controller with the attempts that it has made.
func (r *Runner) renew(i int32) {
	history := r.recs[i].History
	r.restart(i)
	r.recs[i].History = history
}

// ended gives the failure of a flow that was asked to end; nil: it was not.
func (r *Runner) ended() *Failure {
	if r.quitting == nil {
		return nil
	}
	return &Failure{Type: r.quitting.Type, Message: cut(r.quitting.Text, longestMessage)}
}

// unfinished reports whether a flow that keeps what it has done stops short of its end.
func (r *Runner) unfinished() bool {
	return r.quitting != nil && r.quitting.Keep && r.state == Running &&
		(r.left() || len(r.waiting) > 0 || len(r.timers) > 0)
}

// rolls reports whether the flow is being rolled back, and nothing keeps its run from going on.
func (r *Runner) rolls(ctx context.Context) bool {
	e := r.ending.Load()
	return e != nil && !e.Keep && ctx.Err() == nil && r.state == Running && r.wish.Load() != wishStop
}

// release forgets the contexts of a run that is over.
func (r *reins) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := range r.ctx {
		if r.cancel[at] != nil {
			r.cancel[at](nil)
		}
		r.ctx[at], r.cancel[at] = nil, nil
	}
}
