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
			n := 0
			if wait {
				break
			}
			e.mu.Lock()
			if p.search && p.free > 0 {
				p.search = false
				n = e.takeSlots(p, p.free)
			}
			e.mu.Unlock()
			if n > 0 {
				e.claim(ctx, p, n)
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

// claim claims jobs for n slots that the caller has taken, starts them, and frees the slots that stay empty.
func (e *Engine) claim(ctx context.Context, p *pool, n int) {
	now := e.clock.Now()
	jobs, err := e.store.Claim(ctx, job.Claim{
		Worker: e.name, From: e.statesOf(p), N: n, Lease: e.options.Lease, Now: now,
		Limits: e.kindsNow().limits, Ageing: e.options.Ageing, Suspects: e.withSuspects(now),
	})
	if err != nil && ctx.Err() == nil {
		e.log.Error("claim", "error", err) // the sweep tries again
	}
	e.claimed(jobs, e.clock.Now())
	for _, j := range jobs {
		e.start(p, j)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(jobs) == n {
		p.search = true
	}
	p.free += n - len(jobs)
	e.steps.Add(len(jobs) - n)
}

// start works on a claimed job in a slot that the caller has taken.
func (e *Engine) start(p *pool, j job.Job) {
	e.occupy(p)
	go func() {
		defer e.vacate(p)
		e.workOn(e.work, j)
	}()
}

// workOn works on a claimed job, state after state, as long as the store lets it keep the claim.
func (e *Engine) workOn(ctx context.Context, j job.Job) {
	step, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &running{epoch: j.Epoch, cancel: cancel, changed: make(chan struct{}, 1)}
	e.mu.Lock()
	e.running[j.ID], r.stopping = r, e.stopping
	e.mu.Unlock()
	for held := true; held; {
		e.mu.Lock()
		r.epoch = j.Epoch
		e.mu.Unlock()
		j, held = e.runState(step, r, j)
		e.progress.drop(j.ID)
	}
	e.release(r, j.ID)
	e.accompanied(j.ID)
}

// release notes that this goroutine no longer works on a job.
func (e *Engine) release(r *running, id job.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running[id] == r {
		delete(e.running, id)
	}
}

// runState does one attempt at one state, or at several if the step moves the job through them, and commits the
// outcome. held reports whether this goroutine continues with the job.
func (e *Engine) runState(ctx context.Context, current *running, j job.Job) (next job.Job, held bool) {
	w := e.workOf(j.Kind)
	for tries := 0; ; tries++ {
		r := &Run{id: j.ID, epoch: j.Epoch, job: j, engine: e, work: w, running: current, actor: e.name,
			began: e.clock.Now()}
		o := e.attempt(ctx, r)
		if r.over {
			return r.job, false
		}
		if o == nil || errors.Is(context.Cause(ctx), errLost) {
			e.log.Info("claim lost", "job", j.ID, "state", r.job.State, "epoch", j.Epoch)
			e.meter.Lost(meter.Lost{Kind: j.Kind, State: r.job.State})
			return r.job, false
		}
		next, err := e.conclude(ctx, r, o)
		switch {
		case err == nil:
			return next, next.Worker == e.name && !next.Ended && next.Epoch > j.Epoch
		case job.KindOf(err) == job.Conflict && (tries < 3 || o.verdict == waits && current.listening()):
			if err := r.Fresh(ctx); err != nil {
				return r.job, false
			}
			j = r.job // what it waited for may have happened: check again
		case job.KindOf(err) == job.Stale:
			e.log.Info("claim lost", "job", j.ID, "state", r.job.State, "error", err)
			e.meter.Lost(meter.Lost{Kind: j.Kind, State: r.job.State})
			return r.job, false
		default:
			e.log.Error("commit", "job", j.ID, "state", r.job.State, "error", err)
			e.retryRefused(ctx, r, err)
			return r.job, false
		}
	}
}

// attempt asks the gate and runs the step until the state's time is up. nil means that the claim was lost.
func (e *Engine) attempt(ctx context.Context, r *Run) *outcome {
	j := &r.job
	r.term = newTerm(ctx, e.clock, j.Expires)
	r.running.serve(j.Version, r.term)
	defer r.term.end()
	if b := r.work.foreign(j); b != nil {
		b.Until = e.clock.Now().Add(time.Minute)
		return asOutcome(Wait(*b))
	}
	if r.work.Steps[j.State] == nil { // a person moved it to a state without a step here
		return &outcome{verdict: yields}
	}
	err := e.step(r.term, r)
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
func (e *Engine) step(ctx context.Context, r *Run) (err error) {
	defer func() {
		if p := recover(); p != nil {
			e.log.Error("panic in a step", "job", r.job.ID, "state", r.job.State, "panic", p, "stack",
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
	if c, refused := settle(r.work, &r.job, asOutcome(err), e.clock.Now(), 0); refused == nil {
		if owing := r.owes(ctx, c); owing != nil {
			return owing
		}
	}
	return err
}

// conclude commits the outcome of an attempt together with what the step set.
func (e *Engine) conclude(ctx context.Context, r *Run, o *outcome) (job.Job, error) {
	now := e.clock.Now()
	var c job.Change
	var err error
	ev, timed := lifecycle.Event(""), errors.Is(o.err, errExpired)
	if timed {
		ev, timed = r.work.timerEvent(r.job.Position, late(&r.job, now))
	}
	if timed {
		c, err = move(r.work, &r.job, ev, lifecycle.Timer, now)
		explain(&c, r.work.late(&r.job, errExpired.Error()))
	} else {
		c, err = settle(r.work, &r.job, o, now, e.chance())
	}
	if err != nil {
		return r.job, err
	}
	r.fill(&c)
	e.chain(&c, r.work, now)
	if o.verdict == waits && r.running.listening() {
		c.Version = r.job.Version // what it waits for may have been reported since the check
	}
	if c.Set.Due != nil && !c.Set.Due.IsZero() && !c.Set.Due.Equal(block.Never) {
		defer e.alarm(*c.Set.Due)
	}
	j, err := e.commit(context.WithoutCancel(ctx), r, c)
	if c.Require.Unheld && job.KindOf(err) == job.Refused {
		return e.putBack(ctx, r.work, &r.job, e.name, err, func(c job.Change) (job.Job, error) {
			return e.commit(context.WithoutCancel(ctx), r, c)
		})
	}
	if c.Require.Settled && job.KindOf(err) == job.Refused {
		err = job.Errorf(job.Conflict, "commit", j.ID, "%s", job.Reason(err)) // check again
	}
	if err == nil {
		ending := o.ending(&c)
		if timed {
			ending = meter.TimedOut
		}
		e.attempted(r.work, &r.job, &c, ending, now.Sub(r.began), &j)
	}
	return j, err
}

// merge copies what the step set into the change that the engine made of its outcome. If the attempt did not succeed,
// the engine's message and cause have precedence.
func merge(c *job.Change, set job.Change) {
	c.Epoch, c.Actor, c.Tasks, c.Outbox = set.Epoch, set.Actor, set.Tasks, set.Outbox
	c.Set.Data, c.Set.Priority, c.Set.Tags = set.Set.Data, set.Set.Priority, set.Set.Tags
	c.Set.Bytes, c.Set.Starts, c.Set.Deadline = set.Set.Bytes, set.Set.Starts, set.Set.Deadline
	if set.Set.Cause != nil && (c.Set.Cause == nil || *c.Set.Cause == "") {
		c.Set.Cause = set.Set.Cause
	}
	if set.Set.Message != nil && (c.Set.Message == nil || *c.Set.Message == "") {
		c.Set.Message = set.Set.Message
	}
	if c.Note == "" && c.Set.Message != nil {
		c.Note = *c.Set.Message
	}
}

// goesOn reports whether a change moves its job to a state that may be worked on under the same claim.
func goesOn(c *job.Change, w *Work) bool {
	return c.Event != "" && !c.Ended && c.To.State != c.From && w.Steps[c.To.State] != nil &&
		!w.policyFor(c.To.State).Serial
}

// chain asks to keep the claim if this engine has a step for the next state.
func (e *Engine) chain(c *job.Change, w *Work, now time.Time) {
	if !goesOn(c, w) {
		return
	}
	e.mu.Lock()
	open := e.open && e.suspects.draining.IsZero()
	e.mu.Unlock()
	if open {
		c.Chain = &job.Chain{Worker: e.name, Lease: e.options.Lease, Limits: e.kindsNow().limits}
	}
}

// commit passes the change to the store. If the store does not answer, commit reads the record and the history: while
// the claim stands and the history does not have the entry, the change was not applied and is committed again
// (reliability rule R5).
func (e *Engine) commit(ctx context.Context, r *Run, c job.Change) (after job.Job, err error) {
	r.running.committing()
	defer func(before int64) {
		version := int64(0)
		if err == nil {
			version = after.Version
		}
		r.running.committed(before, version)
	}(r.job.Version)
	for try := 1; ; try++ {
		results, err := e.store.Commit(ctx, c)
		if err == nil {
			return results[0].Job, results[0].Err
		}
		if try > 5 {
			return r.job, err
		}
		pause := time.NewTimer(Backoff{First: 50 * time.Millisecond}.Pause(try, e.chance()))
		<-pause.C
		now, err := e.store.Get(ctx, r.job.ID)
		if err != nil {
			continue
		}
		applied, err := e.entered(ctx, r.job.Seq, &now, &c)
		switch {
		case err != nil:
		case applied:
			return now, nil
		case now.Epoch != c.Epoch || !now.Claimed():
			return now, job.Errorf(job.Stale, "commit", r.job.ID, "the claim ended while the store did not answer")
		}
	}
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
func (e *Engine) retryRefused(ctx context.Context, r *Run, refusal error) {
	o := &outcome{verdict: retries, cause: cause.Of(refusal), err: refusal}
	c, err := settle(r.work, &r.job, o, e.clock.Now(), e.chance())
	if err != nil {
		return // the lease expires and the sweep finds the job
	}
	c.Epoch, c.Actor = r.job.Epoch, e.name
	r.work.announce(&r.job, &c)
	if next, err := e.commit(context.WithoutCancel(ctx), r, c); err == nil {
		e.attempted(r.work, &r.job, &c, o.ending(&c), c.At.Sub(r.began), &next)
	}
}
