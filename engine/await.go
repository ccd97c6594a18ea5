package engine

import (
	"context"
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
)

// waiter is somebody who awaits something of a job.
type waiter struct {
	done  func(*job.Job) bool
	woken chan struct{} // has room for one: look again
	found chan job.Job  // has room for one: the record that done said yes to
}

// tell passes a hint on. A record that comes with it is judged at once.
func (w *waiter) tell(h *job.Hint) {
	if h.Record == nil {
		signal(w.woken)
		return
	}
	if w.done(h.Record) {
		select {
		case w.found <- *h.Record:
		default:
		}
	}
}

// Await waits until done says yes of the job, and gives the record. done must be quick: it is called in the store's commit loop too.
func (e *Engine) Await(ctx context.Context, id job.ID, done func(*job.Job) bool) (job.Job, error) {
	w := e.wait(id, done)
	defer e.unwait(id, w)
	defer e.overhear(ctx)()
	signal(w.woken)
	return e.await(ctx, id, w)
}

// Complete submits a job and waits for its end.
func (e *Engine) Complete(ctx context.Context, o Order) (job.Job, error) {
	if o.ID == "" && e.works[o.Kind] != nil {
		o.ID = job.ID(e.works[o.Kind].Prefix + "_" + e.ulid(e.clock.Now()))
		o.fresh = true
	}
	w := e.wait(o.ID, func(j *job.Job) bool { return j.Ended })
	defer e.unwait(o.ID, w)
	defer e.overhear(ctx)()
	j, err := e.Submit(ctx, o)
	switch {
	case err != nil || j.Ended:
		return j, err
	case j.ID != o.ID: // an earlier submission with the same key
		return e.Await(ctx, j.ID, w.done)
	}
	return e.await(ctx, j.ID, w)
}

// await waits for the hints of a waiter. Hints can be lost, so it looks for itself now and then.
func (e *Engine) await(ctx context.Context, id job.ID, w *waiter) (job.Job, error) {
	look := time.NewTicker(max(e.options.Sweep, time.Second))
	defer look.Stop()
	for {
		select {
		case j := <-w.found:
			return j, nil
		case <-w.woken:
		case <-look.C:
		case <-ctx.Done():
			return job.Job{}, &job.Error{Op: "await", Kind: job.Unavailable, ID: id, Err: ctx.Err()}
		}
		if j, err := e.store.Get(ctx, id); err != nil || w.done(&j) {
			return j, err
		}
	}
}

func (e *Engine) wait(id job.ID, done func(*job.Job) bool) *waiter {
	w := &waiter{done: done, woken: make(chan struct{}, 1), found: make(chan job.Job, 1)}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiters[id] = append(e.waiters[id], w)
	return w
}

func (e *Engine) unwait(id job.ID, w *waiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	left := slices.DeleteFunc(e.waiters[id], func(o *waiter) bool { return o == w })
	if len(left) == 0 {
		delete(e.waiters, id)
	} else {
		e.waiters[id] = left
	}
}

// overhear watches the store while the engine does not run and so does not hear for itself. It gives what ends that.
func (e *Engine) overhear(ctx context.Context) (end func()) {
	e.mu.Lock()
	open := e.open
	e.mu.Unlock()
	if open {
		return func() {}
	}
	watch, unwatch := context.WithCancel(ctx)
	e.store.Watch(watch, e.hear)
	return unwatch
}
