package flowhttp

import (
	"context"
	"sync"
	"time"

	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
)

// longestReading is how long the reading of a flow may take.
const longestReading = 30 * time.Second

// views shares readings of a flow among the requests that ask for it at the same time: each follower reads it at every
// change. No request gets a reading that began before it.
type views struct {
	ctx  context.Context // ends when it is closed
	stop context.CancelFunc
	busy sync.WaitGroup
	mu   sync.Mutex          // guards the rest, and next of the readings
	now  map[job.ID]*reading // under way
	over bool                // nothing more is read
}

// reading is one reading of a flow. Its view is shared and not to be changed.
type reading struct {
	done chan struct{} // closed when view and err are there
	view *durable.View
	err  error
	next *reading // for the requests that came after this one began; nil: there are none
}

func newViews() *views {
	ctx, stop := context.WithCancel(context.Background())
	return &views{ctx: ctx, stop: stop, now: map[job.ID]*reading{}}
}

// close stops the readings and waits for them.
func (l *views) close() {
	l.stop()
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.busy.Wait()
}

// share reads a flow, once for all requests that come before the reading begins.
func (l *views) share(ctx context.Context, id job.ID, read func(context.Context) (*durable.View, error)) (*durable.View,
	error) {
	l.mu.Lock()
	mine := l.now[id]
	switch {
	case l.over:
		l.mu.Unlock()
		return nil, job.Errorf(job.Unavailable, "read", id, "the server stops")
	case mine == nil:
		mine = &reading{done: make(chan struct{})}
		l.now[id] = mine
		l.busy.Go(func() { l.serve(id, mine, read) })
	case mine.next == nil:
		mine.next = &reading{done: make(chan struct{})}
		mine = mine.next
	default:
		mine = mine.next
	}
	l.mu.Unlock()
	select {
	case <-mine.done:
		return mine.view, mine.err
	case <-ctx.Done():
		return nil, &job.Error{Op: "read", Kind: job.Unavailable, ID: id, Err: context.Cause(ctx)}
	}
}

// serve reads as long as requests wait. It does not end with the request that began it: others wait for it too.
func (l *views) serve(id job.ID, one *reading, read func(context.Context) (*durable.View, error)) {
	for one != nil {
		ctx, cancel := context.WithTimeout(l.ctx, longestReading)
		one.view, one.err = guarded(ctx, id, read)
		cancel()
		close(one.done)
		l.mu.Lock()
		if one = one.next; one != nil {
			l.now[id] = one
		} else {
			delete(l.now, id)
		}
		l.mu.Unlock()
	}
}

// guarded returns a panic as an error: the goroutine belongs to no request.
func guarded(ctx context.Context, id job.ID, read func(context.Context) (*durable.View, error)) (v *durable.View,
	err error) {
	defer func() {
		if p := recover(); p != nil {
			v, err = nil, job.Errorf(job.Internal, "read", id, "it panicked: %v", p)
		}
	}()
	return read(ctx)
}
