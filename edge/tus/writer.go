package tus

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// writer is a request that writes to an upload.
type writer struct {
	done  chan struct{} // closed when it has released the upload
	brief bool          // it writes no piece, and ends at once
	last  atomic.Int64  // when it last received bytes, by the monotonic clock in nanoseconds since began

	mu      sync.Mutex // guards the rest
	until   func(time.Time)
	stopped bool
}

// began is the zero of the monotonic clock of the writers.
var began = time.Now()

// errStopped ends the body of a writer that was replaced.
var errStopped = errors.New("another request has replaced it")

// newWriter returns a writer; until sets the read deadline of its connection.
func newWriter(until func(time.Time)) *writer {
	w := &writer{until: until, done: make(chan struct{})}
	w.heard()
	return w
}

// newBrief returns a writer for a request that reads, gives or removes an upload.
func newBrief() *writer {
	w := newWriter(func(time.Time) {})
	w.brief = true
	return w
}

// stop makes its current and next read fail. Any goroutine may call it, repeatedly.
func (w *writer) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.until(time.Unix(1, 0))
}

// mayRead extends the deadline for a read, unless it was stopped.
func (w *writer) mayRead(until time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return errStopped
	}
	w.until(until)
	return nil
}

func (w *writer) heard() { w.last.Store(int64(time.Since(began))) }

func (w *writer) silent() time.Duration { return time.Since(began) - time.Duration(w.last.Load()) }

// hold makes w the writer of u, and reads what other stores changed. It stops another writer that has been silent for
// long, or any if w insists; otherwise it returns ErrBusy. Writers of other stores it can only request to end. It also
// returns ErrBusy if the upload was taken, and ErrNotFound if it was removed.
func (s *Store) hold(ctx context.Context, u *upload, w *writer, insist bool) error {
	for {
		s.mu.Lock()
		other := u.writer
		switch {
		case u.gone:
			s.mu.Unlock()
			return ErrNotFound
		case u.taken:
			s.mu.Unlock()
			return ErrBusy
		case other == nil:
			u.writer = w
			s.mu.Unlock()
			err := s.lock(ctx, u, insist)
			if err != nil {
				s.release(u, w)
			}
			return err
		}
		s.mu.Unlock()
		if !other.brief && !insist && other.silent() < s.o.Silence {
			return ErrBusy
		}
		if !other.end(ctx) {
			return ErrBusy
		}
	}
}

// end stops a writer and waits until it has released its upload, or ctx ends.
func (w *writer) end(ctx context.Context) bool {
	w.stop()
	select {
	case <-w.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// rouse stops the writer of u if it has been silent for long, so that its bytes count.
func (s *Store) rouse(ctx context.Context, u *upload) {
	s.mu.Lock()
	other := u.writer
	s.mu.Unlock()
	if other != nil && other.silent() >= s.o.Silence {
		other.end(ctx)
	}
}

// release lets others write. An upload that was taken stays locked against other stores.
func (s *Store) release(u *upload, w *writer) {
	s.mu.Lock()
	taken := u.taken
	s.mu.Unlock()
	if !taken {
		s.unlock(u) // before the next writer here tries to lock it
	}
	s.mu.Lock()
	u.writer = nil
	s.mu.Unlock()
	close(w.done)
}
