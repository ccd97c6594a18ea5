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

// lastYear is the last one that a time can have in JSON (RFC 3339).
const lastYear = 9999

// outcome is what became of one execution or revert.
type outcome struct {
	work
	value Value
	err   error
	fault error // of the hook after it
}

// queued is work for the flow's own goroutine.
type queued struct {
	work
	call *Call
}

// Encoder is a Storage that decides what can be stored. It is called in the goroutine of the task, before the result is
// anybody's: it gives the form in which the value is stored, or an error, which fails the task.
type Encoder interface {
	Encode(v Value) (Value, error)
}

// submit begins an execution or revert.
func (r *Runner) submit(ctx context.Context, w work) {
	c, err := r.call(w.atom, w.undo)
	switch f := r.recs[w.atom].Failure; {
	case err == nil:
	// it never had its arguments, and has done nothing that could be reverted
	case w.undo && f != nil && f.Type == TypeNotFound && r.lacks(w.atom):
		r.active[w.atom] = func() bool { return false }
		r.mail.Load().post(parcel{done: &outcome{work: w}, crew: r.crew})
		return
	default:
		r.fail(w.atom, err)
		return
	}
	if r.o.Workers == nil || r.recs[w.atom].Kind == KindRetry {
		r.queue = append(r.queue, queued{w, c})
		return
	}
	mail, crew, own := r.mail.Load(), r.crew, r.reins.take(ctx, w.undo)
	r.active[w.atom] = r.o.Workers.submit(func() {
		o := &outcome{work: w, err: gone(c)}
		defer func() { mail.post(parcel{done: o, crew: crew}) }()
		o = r.perform(own, w, c)
	})
}

// gone is the failure of a task that left without returning.
func gone(c *Call) *Failure {
	return failed(TypePanic, "%s ended its goroutine (runtime.Goexit)", c.Atom)
}

// lacks reports whether Execute of an atom does not have its arguments.
func (r *Runner) lacks(i int32) bool {
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
		_, o.err = guard(ctx, hook(before), c)
	}
	if o.err == nil && do != nil {
		var v any
		v, o.err = r.within(ctx, limit, do, c)
		o.value = ValueOf(v)
	}
	if after != nil {
		_, o.fault = guard(ctx, hook(after), c)
	}
	if k, ok := r.o.Storage.(Encoder); ok && o.err == nil {
		// encoding calls methods of the value
		keep := func(context.Context, *Call) (any, error) { return k.Encode(o.value) }
		var v any
		v, o.err = guard(ctx, keep, c)
		o.value = ValueOf(v)
	}
	o.err = interrupted(ctx, c, o.err)
	return o
}

func hook(h func(context.Context, *Call) error) Do {
	return func(ctx context.Context, c *Call) (any, error) { return nil, h(ctx, c) }
}

// guard makes a failure of a panic.
func guard(ctx context.Context, do Do, c *Call) (v any, err error) {
	defer func() {
		if p := recover(); p != nil {
			f := failed(TypePanic, "%s panicked: %v", c.Atom, p)
			f.Trace = cut(string(debug.Stack()), longestTrace)
			v, err = nil, f
		}
	}()
	v, err = do(ctx, c)
	return v, settled(err)
}

// settled makes a failure of an error, as long as its methods, which are not ours, can still be called under guard. An
// [Await] stays what it is.
func settled(err error) error {
	if err == nil {
		return nil
	}
	if f, ok := err.(*Failure); ok && f == nil {
		return failed(TypePanic, "a nil *Failure was given as an error")
	}
	var wait *awaiting
	if errors.As(err, &wait) {
		return wait
	}
	return FailureOf(err)
}

// within calls do for at most a time. When that is up its context ends, and it has Options.Grace to return; then it is
// left behind.
func (r *Runner) within(ctx context.Context, limit time.Duration, do Do, c *Call) (any, error) {
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
		got := result{err: gone(c)}
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
			r.o.Log.Error("a task does not end although its time is up; it is left behind", "flow", r.o.ID, "atom",
				c.Atom)
			got.err = context.DeadlineExceeded
		}
	}
	if got.err != nil && errors.Is(timed.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
		text := quantity.FormatDuration(limit)
		if errors.Is(got.err, context.DeadlineExceeded) {
			return nil, failed(TypeTimeout, "%s took longer than %s", c.Atom, text)
		}
		return nil, failed(TypeTimeout, "%s took longer than %s: %w", c.Atom, text, got.err)
	}
	return got.v, got.err
}

// await executes what is to be done in this goroutine and waits until something has ended elsewhere. It completes all
// but the last of a serial batch, so that each result is stored when it is there; what it gives is completed together
// with the decision that follows.
func (r *Runner) await(ctx context.Context) ([]*outcome, error) {
	var done []*outcome
	for len(r.queue) > 0 {
		next := r.queue[0]
		r.queue = r.queue[1:]
		if ctx.Err() != nil {
			continue // it stays RUNNING, and is done in the next run
		}
		if r.ends() && !next.undo {
			continue // it is settled with the next decision
		}
		var o *outcome
		own := r.reins.take(ctx, next.undo)
		r.outside(func() { o = r.perform(own, next.work, next.call) })
		done = append(done, o)
		r.open(&done)
		if r.o.Workers == nil && len(r.queue) > 0 {
			if err := r.conclude(ctx, done); err != nil {
				return nil, err
			}
			done = nil
		}
	}
	var patience <-chan time.Time
	for r.open(&done); len(done) == 0 && len(r.active) > 0; r.open(&done) {
		if err := r.heed(ctx); err != nil {
			return nil, err
		}
		r.rouse(ctx) // after the mail is read: a signal that came while it slept wakes no one a second time
		over := ctx.Done()
		if ctx.Err() != nil || r.state != Running || r.wish.Load() == wishStop || r.ends() {
			if r.recall(ctx); len(r.active) == 0 {
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
		if r.block(over, patience) {
			r.o.Log.Error("tasks do not end although their flow is given up; they are left behind", "flow", r.o.ID,
				"tasks", len(r.active))
			r.disown()
		}
	}
	return done, nil
}

// conclude stores what tasks came to, without beginning anything.
func (r *Runner) conclude(ctx context.Context, done []*outcome) error {
	for _, o := range done {
		r.complete(ctx, o)
	}
	if err := r.commit(ctx, nil, nil); err != nil {
		return err
	}
	return r.tellAll(ctx)
}

// block waits for mail, a time, the end of the context, or of patience; it reports whether it was the last.
func (r *Runner) block(over <-chan struct{}, patience <-chan time.Time) (enough bool) {
	var late <-chan time.Time
	if r.prune(); len(r.timers) > 0 {
		t := time.NewTimer(max(r.timers[0].at.Sub(r.o.Now()), 0))
		defer t.Stop()
		late = t.C
	}
	wake := r.mail.Load().wake
	r.outside(func() {
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

// open reads the mail: outcomes go to done, progress and signals are taken in.
func (r *Runner) open(done *[]*outcome) {
	for _, p := range r.mail.Load().take() {
		switch {
		case p.crew != r.crew && p.signal == "": // of a task that was left behind: it is done again
		case p.done != nil:
			delete(r.active, p.done.atom)
			*done = append(*done, p.done)
		case p.signal != "":
			r.inbox.add(p.signal, KeptSignal{ID: p.id, Value: ValueOf(p.value)})
			r.came = append(r.came, p.signal)
		// else it comes too late
		case p.moved && r.recs[p.atom].State == p.state && r.recs[p.atom].Attempts == p.attempt:
			r.moved(p)
		}
	}
}

// disown leaves behind what is active: what has not begun never will, and no one waits for the rest or receives it.
func (r *Runner) disown() {
	for _, cancel := range r.active {
		if cancel != nil {
			cancel()
		}
	}
	clear(r.active)
	clear(r.unbegun)
	r.crew++
}

// moved takes in progress. It is stored with whatever is stored next.
func (r *Runner) moved(p parcel) {
	rec := &r.recs[p.atom]
	rec.Progress = p.progress
	if p.details != nil {
		v := ValueOf(p.details)
		rec.Details = &v
	}
	r.mark(p.atom)
	if r.o.Workers != nil {
		r.tell(Event{Atom: rec.Name, Kind: rec.Kind, Old: rec.State, New: rec.State, Within: Progressed,
			Progress: p.progress, Details: rec.Details})
	}
}

// complete changes the records by what an execution or revert came to.
func (r *Runner) complete(ctx context.Context, o *outcome) {
	rec := &r.recs[o.atom]
	delete(r.unbegun, o.atom)
	if !o.undo {
		defer r.receipt(o.atom)
	}
	if o.err != nil && ctx.Err() != nil {
		return // it was interrupted: it is done again in the next run
	}
	var wait *awaiting
	if !o.undo && errors.As(o.err, &wait) && rec.Kind == KindTask && o.fault == nil {
		if o.err = r.plan.nodes[o.atom].awaits(wait); o.err == nil {
			rec.Failure = nil // of an earlier attempt
			r.pauseAt(o.atom, wait.until, wait.signal, Event{Within: Waits})
			return
		}
	}
	if o.fault != nil {
		r.fail(o.atom, o.fault)
		return
	}
	rec.Ended, rec.Waits, rec.Awaits, rec.Due = r.o.Now(), false, "", time.Time{}
	switch {
	case o.undo && o.err != nil:
		// the result stays: a run from FAILURE reverts once more
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

// failedTo is complete for an execution that failed: the task tries again by itself, or the flow receives it.
func (r *Runner) failedTo(ctx context.Context, o *outcome) {
	rec := &r.recs[o.atom]
	f := FailureOf(o.err)
	rec.Failure, rec.Result = f, nil
	if t := r.plan.nodes[o.atom].task; t != nil && rec.Intention == Execute && !r.ends() && rec.Tries+
		1 < min(t.Attempts.Max, r.o.MaxAttempts) && !r.enough(t, f) {
		rec.Tries++
		rec.Attempts++
		r.pauseAt(o.atom, r.o.Now().Add(t.Attempts.pause(rec.Tries, r.o.Rand.Float64())), "",
			Event{Within: TriedAgain, Failure: f})
		return
	}
	r.set(o.atom, FailureState)
	if r.ends() {
		return // no one is asked what is to become of it
	}
	if r.o.NeverResolve {
		r.faults = append(r.faults, &fault{rec.Name, f})
		return
	}
	r.resolve(ctx, o.atom, f)
}

// enough asks whether a task needs no second attempt after a failure. If the answer panics, it needs none.
func (r *Runner) enough(t *Task, f *Failure) (yes bool) {
	if t.Attempts.Until == nil {
		return false
	}
	if err := r.consult("Attempts.Until of "+t.Name, func() { yes = t.Attempts.Until(f) }); err != nil {
		r.o.Log.Error("a function of a task panicked; the task is not tried again", "flow", r.o.ID, "atom", t.Name,
			"err", err)
		return true
	}
	return yes
}

// pauseAt lets a RUNNING atom wait.
func (r *Runner) pauseAt(i int32, until time.Time, signal string, e Event) {
	rec := &r.recs[i]
	rec.Waits, rec.Due, rec.Awaits = true, until, signal
	r.mark(i)
	r.waitFor(i)
	if len(r.o.Listeners) > 0 {
		e.Atom, e.Kind, e.Old, e.New, e.Due = rec.Name, rec.Kind, rec.State, rec.State, until
		r.notes = append(r.notes, e)
	}
}

// tick sets the timer of a waiting atom, or of a retry controller that pauses.
func (r *Runner) tick(i int32) {
	if due := r.recs[i].Due; !due.IsZero() {
		heap.Push(&r.timers, timer{due, i})
	}
}

// prune drops timers of atoms that do not wait for them any more from the head.
func (r *Runner) prune() {
	for len(r.timers) > 0 {
		t := r.timers[0]
		rec := &r.recs[t.atom]
		if rec.Due.Equal(t.at) && (r.waiting[t.atom] || rec.Intention == ToRetry && rec.State == Success) {
			return
		}
		heap.Pop(&r.timers)
	}
}

// rouse goes on with atoms whose time or signal has come.
func (r *Runner) rouse(ctx context.Context) {
	if r.state != Running || r.fails() || ctx.Err() != nil || r.wish.Load() != noWish || r.ends() {
		return
	}
	now := r.o.Now()
	for r.prune(); len(r.timers) > 0 && !r.timers[0].at.After(now); r.prune() {
		i := heap.Pop(&r.timers).(timer).atom
		if r.waiting[i] {
			r.goOn(ctx, i)
		} else {
			r.gauge.note(i)
		}
	}
	var called []int32
	for _, name := range r.came {
		called = slices.AppendSeq(called, maps.Keys(r.callers[name]))
		delete(r.callers, name)
	}
	r.came = nil
	slices.Sort(called)
	for _, i := range called {
		if rec := &r.recs[i]; r.waiting[i] && rec.Intention == Execute {
			if r.inbox.has(rec.Awaits) {
				r.goOn(ctx, i)
			}
		}
	}
}

func (r *Runner) goOn(ctx context.Context, i int32) {
	delete(r.waiting, i)
	rec := &r.recs[i]
	rec.Waits = false
	r.submit(ctx, work{i, false})
}
