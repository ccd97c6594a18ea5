// Package recent keeps the result of a search that takes longer than a page may take.
package recent

import (
	"context"
	"sync"
	"time"
)

// Bounds of the search for what needs attention. It reads thousands of records where there are a million jobs, and the
// overview must not wait for it.
const (
	searchWait  = 50 * time.Millisecond // that a page waits for a search
	searchShare = 10                    // a search is not repeated before so many times its duration has passed
	searchMost  = 2 * time.Minute
)

// Result is the result of the last search. A page that asks for it begins a search, waits for it for a moment, and gets
// the result before if the search takes longer. One search is in progress at a time.
type Result[T any] struct {
	base context.Context // ends with the server
	stop context.CancelFunc
	wait time.Duration

	mu   sync.Mutex // guards the rest
	last T
	err  error         // of the last search
	next time.Time     // no search begins before
	busy chan struct{} // closed when the search in progress ends; nil: none is
}

// New makes one without a result.
func New[T any]() *Result[T] {
	c := &Result[T]{wait: searchWait}
	c.base, c.stop = context.WithCancel(context.Background())
	return c
}

// Get returns the newest result; the zero value before the first search has ended. search gets a context with the
// values of ctx, which ends with the server.
func (c *Result[T]) Get(ctx context.Context, search func(context.Context) (T, error)) (T, error) {
	c.mu.Lock()
	busy := c.busy
	if busy == nil && !time.Now().Before(c.next) && c.base.Err() == nil {
		busy = make(chan struct{})
		c.busy = busy
		go c.run(context.WithoutCancel(ctx), search)
	}
	c.mu.Unlock()
	if busy != nil {
		timer := time.NewTimer(c.wait)
		defer timer.Stop()
		select {
		case <-busy:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last, c.err
}

func (c *Result[T]) run(ctx context.Context, search func(context.Context) (T, error)) {
	ctx, cancel := context.WithTimeout(ctx, searchMost)
	defer cancel()
	defer context.AfterFunc(c.base, cancel)()
	began := time.Now()
	found, err := search(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err = err; err == nil {
		c.last = found
		c.next = time.Now().Add(searchShare * time.Since(began))
	}
	close(c.busy)
	c.busy = nil
}

// Close ends a search in progress, and waits for its end.
func (c *Result[T]) Close() {
	c.stop()
	c.mu.Lock()
	busy := c.busy
	c.mu.Unlock()
	if busy != nil {
		<-busy
	}
}
