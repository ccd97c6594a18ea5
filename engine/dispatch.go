package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/internal/block"
	"github.com/stagepost/stagepost/engine/meter"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// dispatch claims jobs for free slots until ctx ends. It sleeps while there is nothing to claim or no slot is free.
func (e *Engine) dispatch(ctx context.Context) {
	for {
		worked := false
		wait := e.trySuspect(ctx)
		for _, p := range e.kindsNow().pools {
			if wait {
				break
			}
			e.mu.Lock()
			n := e.takeSlots(p, p.waiting)
			rest := p.waiting
			if n > 0 {
				p.waiting = 0
			}
			if rest < unknown {
				rest -= n
			}
			e.mu.Unlock()
			if n > 0 {
				e.claim(ctx, p, n, rest)
				worked = true
			}
		}
		if worked && ctx.Err() == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
		}
	}
}

// claim claims jobs for n slots that the caller has taken, starts them, and frees the slots that stay empty. rest is
// how many more may be claimable, if all n are granted.
func (e *Engine) claim(ctx context.Context, p *pool, n, rest int) {
	now := e.clock.Now()
	jobs, err := e.store.Claim(ctx, job.Claim{
		Worker: e.name, From: e.statesOf(p), Labels: e.options.Labels, N: n, Lease: e.options.Lease, Now: now,
		Limits: e.kindsNow().limits, Ageing: e.options.Ageing, Suspects: e.withSuspects(now),
	})
	if err != nil && ctx.Err() == nil {
		e.log.Error("claim", "error", err) // the sweep tries again
	}
	e.claimed(jobs, e.clock.Now())
	for i := range jobs {
		e.start(p, &jobs[i])
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(jobs) == n {
		p.expect(rest)
	}
	p.free += n - len(jobs)
	e.steps.Add(len(jobs) - n)
}

// start works on a claimed job in a slot that the caller has taken.
func (e *Engine) start(p *pool, j *job.Job) {
	r := &Run{id: j.ID, job: *j, engine: e, in: &e.surroundings, backend: local{e}, actor: e.name}
	claim := newTerm(e.work, e.clock, time.Time{})
	r.running, r.lasting = &r.claim, e.lasting
	r.claim.cancel, r.claim.changed = claim.close, make(chan struct{}, 1)
	r.claim.epoch.Store(j.Epoch)
	e.mu.Lock()
	p.busy++
	e.running[r.id], r.running.stopping = r.running, e.stopping
	e.mu.Unlock()
	go func() {
		defer e.finish(p, r)
		e.workOn(claim, r)
	}()
}

// workOn works on a claimed job, state after state, as long as the store lets it keep the claim.
func (e *Engine) workOn(claim *term, r *Run) {
	for held := true; held; {
		held = e.runState(claim, r)
		e.progress.drop(r.id)
	}
}

// finish notes that the work on a job has ended, and frees its slot.
func (e *Engine) finish(p *pool, r *Run) {
	r.running.cancel(nil)
	e.mu.Lock()
	alone := e.suspects.alone == r.id
	p.busy--
	p.free++
	e.leave(r.running, r.id)
	e.mu.Unlock()
	if alone {
		e.accompanied(r.id)
	}
	for _, code := range r.running.nudged() {
		if err := e.Nudge(r.lasting, r.id, code); err != nil {
			e.log.Info("nudge", "job", r.id, "code", code, "error", err) // it also tries by itself
		}
	}
	e.steps.Done()
	signal(e.wake)
}

// release notes that this goroutine no longer works on a job.
func (e *Engine) release(r *running, id job.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leave(r, id)
}

// leave removes a job from those that this engine works on, and notifies its waiters if it has ended. The caller holds
// mu.
func (e *Engine) leave(r *running, id job.ID) {
	if e.running[id] == r {
		delete(e.running, id)
	}
	if !r.ended {
		return
	}
	r.ended = false
	for _, w := range e.waiters[id] {
		signal(w.woken)
	}
}

// runState does one attempt at one state, or at several if the step moves the job through them, and commits the
// outcome. held reports whether this goroutine continues with the job, whose record is then that of the run.
func (e *Engine) runState(claim *term, r *Run) (held bool) {
	epoch := r.job.Epoch
	r.running.epoch.Store(epoch)
	r.work = e.workOf(r.job.Kind)
	for tries := 0; ; tries++ {
		r.newAttempt()
		o := r.attempt(claim)
		if r.over {
			return false
		}
		if o == nil || claim.lost() {
			e.lost(r, errLost)
			return false
		}
		next, err := e.conclude(claim, r, o)
		switch {
		case err == nil:
			if next != &r.job {
				r.record(next)
			}
			return next.Worker == e.name && !next.Ended && next.Epoch > epoch
		case job.KindOf(err) == job.Conflict && (tries < 3 || o.verdict == waits && r.running.listening()):
			if err := r.Fresh(claim); err != nil {
				return false
			} // what it waited for may have happened: check again
		case job.KindOf(err) == job.Stale:
			e.lost(r, err)
			return false
		default:
			e.log.Error("commit", "job", r.id, "state", r.job.State, "error", err)
			e.retryRefused(r, err)
			return false
		}
	}
}

// lost reports that the claim of a run ended during the attempt.
func (e *Engine) lost(r *Run, err error) {
	e.log.Info("claim lost", "job", r.id, "state", r.job.State, "epoch", r.job.Epoch, "error", err)
	e.meter.Lost(meter.Lost{Kind: r.job.Kind, State: r.job.State})
}

// attempt asks the gate and runs the step until the state's time is up. nil means that the claim was lost.
func (r *Run) attempt(ctx context.Context) *outcome {
	j := &r.job
	r.term = newTerm(ctx, r.in.clock, j.Expires)
	r.running.serve(j.Version, r.term)
	defer r.term.end()
	if b := r.work.foreign(j); b != nil {
		b.Until = r.Now().Add(time.Minute)
		return asOutcome(Wait(*b))
	}
	if r.work.Steps[j.State] == nil { // a person moved it to a state without a step here
		return &outcome{verdict: yields}
	}
	err := r.step(r.term)
	if err != nil && r.term.Err() != nil {
		switch ended := context.Cause(r.term); {
		case errors.Is(ended, errLost):
			return nil
		case errors.Is(ended, errStopping):
			return &outcome{verdict: yields}
		case errors.Is(ended, errExpired):
			return &outcome{verdict: fails, cause: cause.Timeout, err: errExpired}
		}
	}
	return asOutcome(err)
}

// step asks the gate and runs the step. A panic in either becomes an error: the first is tried again, the second fails
// the job.
func (r *Run) step(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.in.log.Error("panic in a step", "job", r.job.ID, "state", r.job.State, "panic", p, "stack",
				string(debug.Stack()))
			r.Log().Error("the step is defective", "panic", fmt.Sprint(p))
			err = &outcome{verdict: retries, cause: cause.Panic,
				err: fmt.Errorf("the step for %s panicked: %v", r.job.State, p)}
			if r.job.Attempts > 0 && r.job.Cause == cause.Panic {
				err = Fail(cause.Panic, errors.Unwrap(err))
			}
		}
	}()
	if gate := r.work.Gates[r.job.State]; gate != nil {
		if b := gate(ctx, &r.job); b != nil {
			return Wait(*b)
		}
	}
	err = r.work.Steps[r.job.State](ctx, r)
	if r.work.Owes == nil || r.over {
		return err
	}
	if t := r.begin(); t.settle(asOutcome(err), 0) == nil {
		if owing := r.owes(ctx, t); owing != nil {
			return owing
		}
	}
	return err
}

// conclude commits the outcome of an attempt together with what the step set. It returns the record after it, which may
// be that of the run.
func (e *Engine) conclude(ctx context.Context, r *Run, o *outcome) (*job.Job, error) {
	t := r.begin()
	var err error
	ev, timed := lifecycle.Event(""), errors.Is(o.err, errExpired)
	if timed {
		ev, timed = r.work.timerEvent(r.job.Position, late(&r.job, t.At))
	}
	if timed {
		err = t.move(ev, lifecycle.Timer)
		t.explain(r.work.late(&r.job, errExpired.Error()))
	} else {
		err = t.settle(o, e.chanceFor(o))
	}
	if err != nil {
		return &r.job, err
	}
	r.fill(t)
	e.chain(t)
	if o.verdict == waits && r.running.listening() {
		t.Version = r.job.Version // what it waits for may have been reported since the check
	}
	if t.Set.Due != nil && !t.Set.Due.IsZero() && !t.Set.Due.Equal(block.Never) {
		defer e.alarm(*t.Set.Due)
	}
	j, err := e.commit(r.lasting, r, t)
	if t.Require.Unheld && job.KindOf(err) == job.Refused {
		return e.concludeHeld(ctx, r, err)
	}
	if t.Require.Settled && job.KindOf(err) == job.Refused {
		err = job.Errorf(job.Conflict, "commit", j.ID, "%s", job.Reason(err)) // check again
	}
	if err == nil {
		ending := o.ending(t.Change)
		if timed {
			ending = meter.TimedOut
		}
		e.attempted(r.work, &r.job, t.Change, ending, t.At.Sub(r.began), j)
		r.record(j)
		t.free()
		return &r.job, nil
	}
	return j, err
}

// concludeHeld is conclude after the commit was refused because the job is held.
func (e *Engine) concludeHeld(ctx context.Context, r *Run, refusal error) (*job.Job, error) {
	moved, err := e.putBack(ctx, r.work, &r.job, e.name, refusal, func(t *transition) (job.Job, error) {
		t.Began = r.began
		j, err := e.commit(r.lasting, r, t)
		return *j, err
	})
	return &moved, err
}

// merge copies what the step set into the change that the engine made of its outcome. If the attempt did not succeed,
// the engine's message and cause have precedence.
func (t *transition) merge(set *settings) {
	own := &set.set
	t.Tasks, t.Outbox = set.tasks, set.outbox
	t.Set.Data, t.Set.Priority, t.Set.Tags = own.Data, own.Priority, own.Tags
	t.Set.Bytes, t.Set.Starts, t.Set.Deadline, t.Set.Words = own.Bytes, own.Starts, own.Deadline, own.Words
	if own.Cause != nil && (t.Set.Cause == nil || *t.Set.Cause == "") {
		t.Set.Cause = own.Cause
	}
	if own.Message != nil && (t.Set.Message == nil || *t.Set.Message == "") {
		t.Set.Message = own.Message
	}
	if t.Note == "" && t.Set.Message != nil {
		t.Note = *t.Set.Message
	}
}

// goesOn reports whether a change moves its job to a state that may be worked on under the same claim.
func goesOn(c *job.Change, w *Work) bool {
	return c.Event != "" && !c.Ended && c.To.State != c.From && w.Steps[c.To.State] != nil &&
		!w.policyFor(c.To.State).Serial
}

// chain asks to keep the claim if this engine has a step for the next state.
func (e *Engine) chain(t *transition) {
	if !goesOn(t.Change, t.work) || !e.takes(t.work, t.To.State) {
		return
	}
	if e.chains.Load() {
		t.continueBy(e.name, e.options.Labels, e.options.Lease, e.limitsOf(t.work.kind()))
	}
}

// limitsOf returns the limits of a kind: the ones that a claim of a job of this kind can be subject to.
func (e *Engine) limitsOf(k job.Kind) []job.Limit {
	if w := e.workOf(k); w != nil {
		return w.Limits
	}
	return nil
}

// commit passes the change to the store. If the store does not answer, commit reads the record and the history: while
// the claim stands and the history does not have the entry, the change was not applied and is committed again
// (reliability rule R5).
func (e *Engine) commit(ctx context.Context, r *Run, t *transition) (after *job.Job, err error) {
	r.running.committing()
	defer func(before int64) {
		version := int64(0)
		if err == nil && after != nil { // the goroutine does not end here, as it does where a test stops it
			version = after.Version
		}
		r.running.committed(before, version)
	}(r.job.Version)
	for try := 1; ; try++ {
		result, err := e.send(ctx, t)
		if err == nil {
			return &result.Job, result.Err
		}
		if try > 5 {
			return &r.job, err
		}
		pause := time.NewTimer(Backoff{First: 50 * time.Millisecond}.Pause(try, e.chance()))
		<-pause.C
		if now, err := e.applied(ctx, r, t); now != nil {
			return now, err
		}
	}
}

// applied reads the record after a commit that the store did not answer. It returns it if the change was applied, and
// with an error if it can no longer be; nil if it was not applied or that is unknown.
func (e *Engine) applied(ctx context.Context, r *Run, t *transition) (*job.Job, error) {
	now, err := e.store.Get(ctx, r.job.ID)
	if err != nil {
		return nil, err
	}
	applied, err := e.entered(ctx, r.job.Seq, &now, t.Change)
	switch {
	case err != nil:
		return nil, err
	case applied:
		return &now, nil
	case now.Epoch != t.Epoch || !now.Claimed():
		return &now, job.Errorf(job.Stale, "commit", r.job.ID, "the claim ended while the store did not answer")
	}
	return nil, nil
}

// entered reports whether the history of the job has an entry of change c after number seq.
func (e *Engine) entered(ctx context.Context, seq int64, j *job.Job, c *job.Change) (bool, error) {
	if c.Event == "" || j.Seq == seq {
		return false, nil
	}
	history, err := e.store.History(ctx, j.ID, seq, 0)
	for i := range history {
		if h := &history[i]; h.Event == c.Event && h.From == c.From && h.Epoch == c.Epoch && h.Actor == c.Actor &&
			h.At.Equal(c.At.Truncate(time.Microsecond)) {
			return true, nil
		}
	}
	return false, err
}

// retryRefused ends the attempt with a counted error after the store refused its outcome.
func (e *Engine) retryRefused(r *Run, refusal error) {
	o := &outcome{verdict: retries, cause: cause.Of(refusal), err: refusal}
	t := r.begin()
	if t.settle(o, e.chance()) != nil {
		return // the lease expires and the sweep finds the job
	}
	t.underClaim(e.name)
	t.Began = r.began
	if next, err := e.commit(r.lasting, r, t); err == nil {
		e.attempted(r.work, &r.job, t.Change, o.ending(t.Change), t.At.Sub(r.began), next)
		t.free()
	}
}
