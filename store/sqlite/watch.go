package sqlite

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/stagepost/stagepost/job"
)

// watchers are the callers of Watch.
type watchers struct {
	mu   sync.Mutex // guards wake and next
	wake map[int]func([]job.Hint)
	next int
	n    atomic.Int32 // length of wake

	// Used by the loop only, and used again after each commit.
	hints  []job.Hint
	called []func([]job.Hint)
}

// Watch is part of job.Store.
func (s *Store) Watch(ctx context.Context, wake func([]job.Hint)) {
	w := &s.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wake == nil {
		w.wake = map[int]func([]job.Hint){}
	}
	id := w.next
	w.next++
	w.wake[id] = wake
	w.n.Add(1)
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.wake, id)
		w.n.Add(-1)
	})
}

// hints returns the hints for the changes of the transaction.
func (s *Store) hints() []job.Hint {
	touched, w := s.ledger.Touched(), &s.watch
	if len(touched) == 0 || w.n.Load() == 0 {
		return nil
	}
	w.hints = w.hints[:0] // those who are notified do not keep them
	for i := range touched {
		w.hints = append(w.hints, job.HintOf(&touched[i]))
	}
	return w.hints
}

func (s *Store) notify(hints []job.Hint) {
	if len(hints) == 0 {
		return
	}
	w := &s.watch
	w.mu.Lock()
	w.called = w.called[:0]
	for _, wake := range w.wake {
		w.called = append(w.called, wake)
	}
	w.mu.Unlock()
	for _, wake := range w.called {
		wake(hints)
	}
}
