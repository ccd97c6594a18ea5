package flow

import (
	"container/heap"
	"context"
	"errors"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/stagepost/stagepost/quantity"
)

// lastYear is the last year that a time can have in JSON (RFC 3339).
const lastYear = 9999

// outcome is the end of one execution or revert.
type outcome struct {
	work
	value Value
	err   error
	fault error // of the hook after it
}

// queued is work for the goroutine of the flow.
type queued struct {
	work
	call *Call
}

// Encoder is a Storage that decides which values can be stored. Encode is called in the goroutine of the task, before
// any other code gets the result. It returns the stored form of a value, or an error, which fails the task.
type Encoder interface {
	Encode(v Value) (Value, error)
}

// submit starts an execution or revert.
func (r *Runner) submit(ctx context.Context, w work) {
	c, err := r.newCall(w.atom, w.undo)
	switch f := r.recs[w.atom].Failure; {
	case err == nil:
	case w.undo && f != nil && f.Type == TypeNotFound && r.lacksArguments(w.atom):
		// Execute was never called without its arguments: there is nothing to revert
		r.active[w.atom] = func() bool { return false }
		r.mail.Load().post(parcel{done: &outcome{work: w}, generation: r.generation})
		return
	default:
		r.addFault(w.atom, err)
		return
	}
	if r.o.Workers == nil || r.recs[w.atom].Kind == KindRetry {
		r.queue = append(r.queue, queued{w, c})
		return
	}
	mail, generation, own := r.mail.Load(), r.generation, r.contexts.contextFor(ctx, w.undo)
	r.active[w.atom] = r.o.Workers.submit(func() {
		o := &outcome{work: w, err: goexitFailure(c)}
		defer func() { mail.post(parcel{done: o, generation: generation}) }()
		o = r.perform(own, w, c)
	})
}

// goexitFailure is the failure of a task that called runtime.Goexit.
func goexitFailure(c *Call) *Failure {
	return newFailure(TypePanic, "%s ended its goroutine (runtime.Goexit)", c.Atom)
}

// lacksArguments reports whether an argument of an atom's Execute has no value.
func (r *Runner) lacksArguments(i int32) bool {
	_, err := r.arguments(i, r.plan.nodes[i].args)
	return err != nil
}

// perform does the work, hooks included.
func (r *Runner) perform(ctx context.Context, w work, c *Call) *outcome {
	o := &outcome{work: w}
	if w.undo {
		c.Failures = r.reasons()
	}
	n := &r.plan.nodes[w.atom]
	var before, after func(context.Context, *Call) error
	var do Do
	var limit time.Duration
	switch {
	case n.retry != nil && w.undo:
		do = n.retry.Revert
	case n.retry != nil:
		do = n.retry.Execute
	case w.undo:
		before, do, after, limit = n.task.BeforeRevert, n.task.Revert, n.task.AfterRevert, n.task.Timeout
	default:
		before, do, after, limit = n.task.BeforeExecute, n.task.Execute, n.task.AfterExecute, n.task.Timeout
	}
	if before != nil {
		_, o.err = guard(ctx, doHook(before), c)
	}
	if o.err == nil && do != nil {
		var v any
		v, o.err = r.callWithTimeout(ctx, limit, do, c)
		o.value = ValueOf(v)
	}
	if after != nil {
		_, o.fault = guard(ctx, doHook(after), c)
	}
	if k, ok := r.o.Storage.(Encoder); ok && o.err == nil {
		encode := func(context.Context, *Call) (any, error) { return k.Encode(o.value) }
		var v any
		v, o.err = guard(ctx, encode, c) // encoding calls methods of the value
		o.value = ValueOf(v)
	}
	o.err = interrupted(ctx, c, o.err)
	return o
}

func doHook(h func(context.Context, *Call) error) Do {
	return func(ctx context.Context, c *Call) (any, error) { return nil, h(ctx, c) }
}

// guard calls do and converts a panic to a failure.
func guard(ctx context.Context, do Do, c *Call) (v any, err error) {
	defer func() {
		if p := recover(); p != nil {
			f := newFailure(TypePanic, "%s panicked: %v", c.Atom, p)
			f.Trace = truncate(string(debug.Stack()), longestTrace)
			v, err = nil, f
		}
	}()
	v, err = do(ctx, c)
	return v, asFailure(err)
}

// asFailure converts an error to a failure, except an [Await]. It calls methods of the error, and so runs under guard.
func asFailure(err error) error {
	if err == nil {
		return nil
	}
	if f, ok := err.(*Failure); ok && f == nil {
		return newFailure(TypePanic, "a nil *Failure was given as an error")
	}
	var wait *awaiting
	if errors.As(err, &wait) {
		return wait
	}
	return FailureOf(err)
}

// callWithTimeout calls do with a time limit. After the limit its context ends. If do does not return within
// Options.Grace, callWithTimeout returns without it.
func (r *Runner) callWithTimeout(ctx context.Context, limit time.Duration, do Do, c *Call) (any, error) {
	if limit <= 0 {
		return guard(ctx, do, c)
	}
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	type result struct {
		v   any
		err error
	}
	done := make(chan result, 1)
	go func() {
		got := result{err: goexitFailure(c)}
		defer func() { done <- got }()
		got.v, got.err = guard(timed, do, c)
	}()
	var got result
	select {
	case got = <-done:
	case <-timed.Done():
		grace := time.NewTimer(r.o.Grace)
		defer grace.Stop()
		select {
		case got = <-done:
		case <-grace.C:
			r.o.Log.Error("a task did not return after its timeout; the flow continues without it", "flow", r.o.ID,
				"atom", c.Atom)
			got.err = context.DeadlineExceeded
		}
	}
	if got.err != nil && errors.Is(timed.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
		text := quantity.FormatDuration(limit)
		if errors.Is(got.err, context.DeadlineExceeded) {
			return nil, newFailure(TypeTimeout, "%s took longer than %s", c.Atom, text)
		}
		return nil, newFailure(TypeTimeout, "%s took longer than %s: %w", c.Atom, text, got.err)
	}
	return got.v, got.err
}

// awaitOutcomes executes the queue of this goroutine and waits until a task in the pool has ended. Of a serial batch it
// stores each outcome but the last at once. It returns the outcomes that are stored together with the next decision.
func (r *Runner) awaitOutcomes(ctx context.Context) ([]*outcome, error) {
	var done []*outcome
	for len(r.queue) > 0 {
		next := r.queue[0]
		r.queue = r.queue[1:]
		if ctx.Err() != nil {
			continue // it stays RUNNING and is executed in the next run
		}
		if r.isEnding() && !next.undo {
			continue // the next decision closes it
		}
		var o *outcome
		own := r.contexts.contextFor(ctx, next.undo)
		r.unlocked(func() { o = r.perform(own, next.work, next.call) })
		done = append(done, o)
		r.readMail(&done)
		if r.o.Workers == nil && len(r.queue) > 0 {
			if err := r.storeOutcomes(ctx, done); err != nil {
				return nil, err
			}
			done = nil
		}
	}
	var patience <-chan time.Time
	for r.readMail(&done); len(done) == 0 && len(r.active) > 0; r.readMail(&done) {
		if err := r.acceptSuspend(ctx); err != nil {
			return nil, err
		}
		r.resumeWaiting(ctx) // after the mail is read: a signal continues each atom once
		over := ctx.Done()
		if ctx.Err() != nil || r.state != Running || r.requested.Load() == requestStop || r.isEnding() {
			if r.cancelQueued(ctx); len(r.active) == 0 {
				break
			}
		}
		if ctx.Err() != nil {
			if over = nil; patience == nil {
				t := time.NewTimer(r.o.Grace)
				defer t.Stop()
				patience = t.C
			}
		}
		if r.waitForEvent(over, patience) {
			r.o.Log.Error("tasks did not return after their run was cancelled; the run ends without them",
				"flow", r.o.ID, "tasks", len(r.active))
			r.leaveBehind()
		}
	}
	return done, nil
}

// storeOutcomes stores the outcomes of tasks without starting further tasks.
func (r *Runner) storeOutcomes(ctx context.Context, done []*outcome) error {
	for _, o := range done {
		r.complete(ctx, o)
	}
	if err := r.commit(ctx, nil, nil); err != nil {
		return err
	}
	return r.notifyAll(ctx)
}

// waitForEvent waits for mail, a timer, the end of the context, or the end of patience. It reports whether patience
// ended.
func (r *Runner) waitForEvent(over <-chan struct{}, patience <-chan time.Time) (enough bool) {
	var late <-chan time.Time
	if r.dropTimers(); len(r.timers) > 0 {
		t := time.NewTimer(max(r.timers[0].at.Sub(r.o.Now()), 0))
		defer t.Stop()
		late = t.C
	}
	wake := r.mail.Load().wake
	r.unlocked(func() {
		select {
		case <-wake:
		case <-late:
		case <-over:
		case <-patience:
			enough = true
		}
	})
	return enough
}

// readMail reads the mail: it appends outcomes to done, and stores progress and signals in the Runner.
func (r *Runner) readMail(done *[]*outcome) {
	for _, p := range r.mail.Load().removeAll() {
		switch {
		case p.generation != r.generation && p.signal == "": // of a task that was left behind: it is executed again
		case p.done != nil:
			delete(r.active, p.done.atom)
			*done = append(*done, p.done)
		case p.signal != "":
			r.inbox.add(p.signal, KeptSignal{ID: p.id, Value: ValueOf(p.value)})
			r.arrived = append(r.arrived, p.signal)
		case p.isProgress && r.recs[p.atom].State == p.state && r.recs[p.atom].Attempts == p.attempt: // else it is late
			r.setProgress(p)
		}
	}
}

// leaveBehind removes all active work from the run: queued work is cancelled, and the outcomes of running work are
// ignored.
func (r *Runner) leaveBehind() {
	for _, cancel := range r.active {
		if cancel != nil {
			cancel()
		}
	}
	clear(r.active)
	clear(r.unbegun)
	r.generation++
}

// setProgress records the progress of an atom. The next commit stores it.
func (r *Runner) setProgress(p parcel) {
	rec := &r.recs[p.atom]
	rec.Progress = p.progress
	if p.details != nil {
		v := ValueOf(p.details)
		rec.Details = &v
	}
	r.markDirty(p.atom)
	if r.o.Workers != nil {
		r.notify(Event{Atom: rec.Name, Kind: rec.Kind, Old: rec.State, New: rec.State, Within: Progressed,
			Progress: p.progress, Details: rec.Details})
	}
}

// complete changes the records by the outcome of an execution or revert.
func (r *Runner) complete(ctx context.Context, o *outcome) {
	rec := &r.recs[o.atom]
	delete(r.unbegun, o.atom)
	if !o.undo {
		defer r.takeSignals(o.atom)
	}
	if o.err != nil && ctx.Err() != nil {
		return // it was interrupted: the next run executes it again
	}
	var wait *awaiting
	if !o.undo && errors.As(o.err, &wait) && rec.Kind == KindTask && o.fault == nil {
		if o.err = r.plan.nodes[o.atom].checkAwait(wait); o.err == nil {
			rec.Failure = nil // of an earlier attempt
			r.pauseAt(o.atom, wait.until, wait.signal, Event{Within: Waits})
			return
		}
	}
	if o.fault != nil {
		r.addFault(o.atom, o.fault)
		return
	}
	rec.Ended, rec.Waits, rec.Awaits, rec.Due = r.o.Now(), false, "", time.Time{}
	switch {
	case o.undo && o.err != nil:
		// the result is kept: a run from FAILURE repeats the revert
		rec.RevertFailure, rec.Reverted = FailureOf(o.err), nil
		r.set(o.atom, RevertFailure)
		r.faults = append(r.faults, &fault{rec.Name, rec.RevertFailure})
	case o.undo:
		r.counts.reverted++
		rec.Reverted, rec.History, rec.Progress = &o.value, nil, 1
		r.set(o.atom, Reverted)
	case o.err != nil:
		r.failedTo(ctx, o)
	default:
		r.counts.executed++
		if rec.Kind == KindRetry {
			rec.History = append(rec.History[:len(rec.History):len(rec.History)], Attempt{Value: o.value})
		} else {
			rec.Result = &o.value
		}
		rec.Failure, rec.Progress = nil, 1
		r.set(o.atom, Success)
	}
}

// failedTo completes a failed execution: the task is repeated because of its Attempts, or the failure is resolved.
func (r *Runner) failedTo(ctx context.Context, o *outcome) {
	rec := &r.recs[o.atom]
	f := FailureOf(o.err)
	rec.Failure, rec.Result = f, nil
	if t := r.plan.nodes[o.atom].task; t != nil && rec.Intention == Execute && !r.isEnding() &&
		rec.Tries+1 < min(t.Attempts.Max, r.o.MaxAttempts) && !r.isEnough(t, f) {
		rec.Tries++
		rec.Attempts++
		r.pauseAt(o.atom, r.o.Now().Add(t.Attempts.pause(rec.Tries, r.o.Rand.Float64())), "",
			Event{Within: TriedAgain, Failure: f})
		return
	}
	r.set(o.atom, FailureState)
	if r.isEnding() {
		return // no controller is asked
	}
	if r.o.NeverResolve {
		r.faults = append(r.faults, &fault{rec.Name, f})
		return
	}
	r.resolve(ctx, o.atom, f)
}

// isEnough reports whether a task is not repeated after a failure. If Until panics, it is not.
func (r *Runner) isEnough(t *Task, f *Failure) (yes bool) {
	if t.Attempts.Until == nil {
		return false
	}
	if err := r.callUser("Attempts.Until of "+t.Name, func() { yes = t.Attempts.Until(f) }); err != nil {
		r.o.Log.Error("a function of a task panicked; the task is not tried again", "flow", r.o.ID, "atom", t.Name,
			"err", err)
		return true
	}
	return yes
}

// pauseAt makes a RUNNING atom wait.
func (r *Runner) pauseAt(i int32, until time.Time, signal string, e Event) {
	rec := &r.recs[i]
	rec.Waits, rec.Due, rec.Awaits = true, until, signal
	r.markDirty(i)
	r.markWaiting(i)
	if len(r.o.Listeners) > 0 {
		e.Atom, e.Kind, e.Old, e.New, e.Due = rec.Name, rec.Kind, rec.State, rec.State, until
		r.events = append(r.events, e)
	}
}

// setTimer sets the timer of a waiting atom or of a retry controller between two attempts.
func (r *Runner) setTimer(i int32) {
	if due := r.recs[i].Due; !due.IsZero() {
		heap.Push(&r.timers, timer{due, i})
	}
}

// dropTimers removes timers from the head whose atoms no longer wait for them.
func (r *Runner) dropTimers() {
	for len(r.timers) > 0 {
		t := r.timers[0]
		rec := &r.recs[t.atom]
		if rec.Due.Equal(t.at) && (r.waiting[t.atom] || rec.Intention == ToRetry && rec.State == Success) {
			return
		}
		heap.Pop(&r.timers)
	}
}

// resumeWaiting continues atoms whose time or signal has come.
func (r *Runner) resumeWaiting(ctx context.Context) {
	if r.state != Running || r.hasFaults() || ctx.Err() != nil || r.requested.Load() != requestNone || r.isEnding() {
		return
	}
	now := r.o.Now()
	for r.dropTimers(); len(r.timers) > 0 && !r.timers[0].at.After(now); r.dropTimers() {
		i := heap.Pop(&r.timers).(timer).atom
		if r.waiting[i] {
			r.continueAtom(ctx, i)
		} else {
			r.gauge.recheck(i)
		}
	}
	var called []int32
	for _, name := range r.arrived {
		called = slices.AppendSeq(called, maps.Keys(r.callers[name]))
		delete(r.callers, name)
	}
	r.arrived = nil
	slices.Sort(called)
	for _, i := range called {
		if rec := &r.recs[i]; r.waiting[i] && rec.Intention == Execute {
			if r.inbox.hasUnreserved(rec.Awaits) {
				r.continueAtom(ctx, i)
			}
		}
	}
}

func (r *Runner) continueAtom(ctx context.Context, i int32) {
	delete(r.waiting, i)
	rec := &r.recs[i]
	rec.Waits = false
	r.submit(ctx, work{i, false})
}
