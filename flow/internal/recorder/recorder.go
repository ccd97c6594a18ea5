// Package recorder keeps the events of a listener, for tests.
package recorder

import (
	"context"
	"slices"
	"sync"
)

// Recorder keeps events in their order. The zero Recorder works.
type Recorder[E any] struct {
	mu     sync.Mutex // guards the rest
	events []E
	more   chan struct{} // closed when an event comes; nil: no call waits
}

// Listen appends an event.
func (r *Recorder[E]) Listen(e E) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	if r.more != nil {
		close(r.more)
		r.more = nil
	}
}

// Events returns the events so far.
func (r *Recorder[E]) Events() []E {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Await waits for an event of which is reports true, and returns the first. Error: the context's cause.
func (r *Recorder[E]) Await(ctx context.Context, is func(E) bool) (found E, err error) {
	for from := 0; ; {
		r.mu.Lock()
		for ; from < len(r.events); from++ {
			if e := r.events[from]; is(e) {
				r.mu.Unlock()
				return e, nil
			}
		}
		if r.more == nil {
			r.more = make(chan struct{})
		}
		more := r.more
		r.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return found, context.Cause(ctx)
		}
	}
}
