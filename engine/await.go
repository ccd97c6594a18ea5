package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
)

// waiter is a call that waits for a condition of a job. Only the goroutine of the call calls done, which may call the
// engine.
type waiter struct {
	done  func(*job.Job) bool
	ends  bool          // done is true for ended jobs only: other records are not kept
	woken chan struct{} // has space for one: check again

	mu   sync.Mutex // guards the rest
	seen []job.Job  // records of hints that are not checked yet, oldest first
	read bool       // read the record: there was a hint without one
	one  [1]job.Job // the memory of the first of seen: most waiters get no more

	waited bool // since before the last round of checks; the engine's mu guards it
}

// mostSeen is how many unchecked records a waiter keeps. Beyond it the oldest are dropped: the waiter may miss a state
// that lasts for a moment.
const mostSeen = 256

// hint passes a hint to the waiter and reports whether it must wake. The store's commit loop calls it.
func (w *waiter) hint(h *job.Hint) bool {
	if w.ends && !h.Ended {
		return false
	}
	w.mu.Lock()
	if h.Record == nil {
		w.read = true
	} else if !w.ends || len(w.seen) == 0 {
		if len(w.seen) == mostSeen {
			w.seen = append(w.seen[:0], w.seen[1:]...)
		}
		w.seen = append(w.seen, *h.Record)
	}
	w.mu.Unlock()
	return true
}

// reads makes the call read the record.
func (w *waiter) reads() {
	w.mu.Lock()
	w.read = true
	w.mu.Unlock()
	signal(w.woken)
}

// free ends the use of a waiter that gets no more hints.
func (w *waiter) free() {
	w.done, w.seen, w.read, w.waited, w.one = nil, nil, false, false, [1]job.Job{}
	waiters.Put(w)
}

// check reports whether done returns true for an unchecked record, and puts the first such into j. read states that
// the record must be read.
func (w *waiter) check(j *job.Job) (found, read bool) {
	w.mu.Lock()
	seen, read := w.seen, w.read
	w.seen, w.read = nil, false
	w.mu.Unlock()
	for i := range seen {
		if w.done(&seen[i]) {
			*j = seen[i]
			j.Own() // the store has the data of a hint, too
			return true, false
		}
	}
	return false, read
}

// Await waits until done returns true for the job, and returns the record. done is called in the caller's goroutine and
// may call the engine.
func (e *Engine) Await(ctx context.Context, id job.ID, done func(*job.Job) bool) (j job.Job, err error) {
	err = e.awaitNow(ctx, id, done, &j)
	return j, err
}

// awaitNow is Await. It puts the record into j.
func (e *Engine) awaitNow(ctx context.Context, id job.ID, done func(*job.Job) bool, j *job.Job) error {
	w := e.wait(id, done, false)
	defer e.unwait(id, w)
	defer e.watchWhileStopped()()
	w.reads()
	return e.await(ctx, id, w, j)
}

// Complete submits a job and waits for its end.
func (e *Engine) Complete(ctx context.Context, o Order) (j job.Job, err error) {
	if o.ID == "" && e.workOf(o.Kind) != nil {
		o.ID = job.ID(e.workOf(o.Kind).Prefix + "_" + e.ulid(e.clock.Now()))
		o.fresh = true
	}
	w := e.wait(o.ID, ended, true)
	defer e.unwait(o.ID, w)
	defer e.watchWhileStopped()()
	switch err = e.submitOne(ctx, &o, &j); {
	case err != nil || j.Ended:
	case j.ID != o.ID: // an earlier submission with the same key
		err = e.awaitNow(ctx, j.ID, w.done, &j)
	default:
		err = e.await(ctx, j.ID, w, &j)
	}
	return j, err
}

// await waits for the hints of a waiter, and reads the record when [Engine.recheck] requests it. It puts the record
// into j.
func (e *Engine) await(ctx context.Context, id job.ID, w *waiter, j *job.Job) error {
	for {
		select {
		case <-w.woken:
		case <-ctx.Done():
			*j = job.Job{}
			return &job.Error{Op: "await", Kind: job.Unavailable, ID: id, Err: ctx.Err()}
		}
		found, read := w.check(j)
		if read {
			var err error
			if found, err = e.read(ctx, id, w, j); err != nil {
				return err
			}
		}
		if found {
			return nil
		}
	}
}

// read reads the record, and puts it into j if done returns true for it.
func (e *Engine) read(ctx context.Context, id job.ID, w *waiter, j *job.Job) (found bool, err error) {
	now, err := e.store.Get(ctx, id)
	if err != nil || w.done(&now) {
		*j = now
		return true, err
	}
	return false, nil
}

// recheck makes the calls read their records that have waited since the last round, because hints can be lost. While
// calls wait there are rounds at intervals; one timer for all of them costs a call nothing.
func (e *Engine) recheck() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, all := range e.waiters {
		for _, w := range all {
			if w.waited {
				w.reads()
			}
			w.waited = true
		}
	}
	if e.rechecks = len(e.waiters) > 0; e.rechecks {
		e.recheckLater()
	}
}

// recheckLater begins the interval to the next round.
func (e *Engine) recheckLater() { time.AfterFunc(max(e.options.Sweep, time.Second), e.recheck) }

// ended is the condition of [Engine.Complete].
func ended(j *job.Job) bool { return j.Ended }

// waiters has the memory of waiters that are not used any more.
var waiters = sync.Pool{New: func() any { return new(waiter) }}

// wait adds a waiter for a job.
func (e *Engine) wait(id job.ID, done func(*job.Job) bool, ends bool) *waiter {
	w := waiters.Get().(*waiter)
	w.done, w.ends, w.seen, w.woken = done, ends, w.one[:0], make(chan struct{}, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiters[id] = append(e.waiters[id], w)
	if !e.rechecks {
		e.rechecks = true
		e.recheckLater()
	}
	return w
}

// unwait removes a waiter, which gets no more hints.
func (e *Engine) unwait(id job.ID, w *waiter) {
	e.mu.Lock()
	left := slices.DeleteFunc(e.waiters[id], func(o *waiter) bool { return o == w })
	if len(left) == 0 {
		delete(e.waiters, id)
	} else {
		e.waiters[id] = left
	}
	e.mu.Unlock()
	w.free()
}

// stoppedWatch is the watch of the store for calls that wait while the engine does not run. All of them share one: each
// watch gets all hints, and passes them to all waiters.
type stoppedWatch struct {
	mu    sync.Mutex // guards the rest
	calls int
	end   context.CancelFunc
}

// watchWhileStopped watches the store if the engine does not run, because otherwise Run watches it. It returns a
// function that ends the watch.
func (e *Engine) watchWhileStopped() (end func()) {
	if e.open.Load() {
		return func() {}
	}
	s := &e.stopped
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls++; s.calls == 1 {
		watch, unwatch := context.WithCancel(context.Background())
		e.store.Watch(watch, e.onHints)
		s.end = unwatch
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.calls--; s.calls == 0 {
			s.end()
		}
	}
}
