package web

import (
	"context"
	"sync"
	"time"

	"github.com/stagepost/stagepost/api"
)

// Bounds of the search for what needs attention. It reads thousands of records where there are a million jobs, and the
// overview must not wait for it.
const (
	searchWait  = 50 * time.Millisecond // that a page waits for a search
	searchShare = 10                    // a search is not repeated before so many times its duration has passed
	searchMost  = 2 * time.Minute
)

// attention is what a search found.
type attention struct {
	At     time.Time // zero: no search has ended yet
	Stuck  api.Stuck
	Failed api.Page
}

// recent is the result of the last search. A page that asks for it begins a search, waits for it for a moment, and gets
// the result before if the search takes longer. One search is in progress at a time.
type recent struct {
	base context.Context // ends with the server
	stop context.CancelFunc
	wait time.Duration

	mu   sync.Mutex // guards the rest
	last attention
	err  error         // of the last search
	next time.Time     // no search begins before
	busy chan struct{} // closed when the search in progress ends; nil: none is
}

func newRecent() *recent {
	c := &recent{wait: searchWait}
	c.base, c.stop = context.WithCancel(context.Background())
	return c
}

// get returns the newest result. search gets a context with the values of ctx, which ends with the server.
func (c *recent) get(ctx context.Context, search func(context.Context) (attention, error)) (attention, error) {
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

func (c *recent) run(ctx context.Context, search func(context.Context) (attention, error)) {
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

// close ends a search in progress, and waits for its end.
func (c *recent) close() {
	c.stop()
	c.mu.Lock()
	busy := c.busy
	c.mu.Unlock()
	if busy != nil {
		<-busy
	}
}
