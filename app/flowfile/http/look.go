package flowhttp

import (
	"context"
	"sync"
	"time"

	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
)

// longestLook is how long the reading of a flow may take.
const longestLook = 30 * time.Second

// appears lets those who examine one flow at the same time share what is read: a page with pictures reads a flow three
// times, and everybody who follows it does so at every change. No one is given what was read before they asked.
type looks struct {
	ctx  context.Context // ends when it is closed
	stop context.CancelFunc
	busy sync.WaitGroup
	mu   sync.Mutex           // guards the rest, and next of the checks
	now  map[job.ID]*flowLook // under way
	over bool                 // nothing is read any more
}

// flowLook is one reading of a flow. Those who are given its view do not change it.
type flowLook struct {
	done chan struct{} // closed when view and err are there
	view *durable.View
	err  error
	next *flowLook // of those who came after this one had begun; nil: no one
}

func newLooks() *looks {
	ctx, stop := context.WithCancel(context.Background())
	return &looks{ctx: ctx, stop: stop, now: map[job.ID]*flowLook{}}
}

// close ends what is being read and waits until nothing is read any more.
func (l *looks) close() {
	l.stop()
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.busy.Wait()
}

// at reads a flow, together with others who ask for it before the reading begins.
func (l *looks) at(ctx context.Context, id job.ID, read func(context.Context) (*durable.View, error)) (*durable.View, error) {
	l.mu.Lock()
	mine := l.now[id]
	switch {
	case l.over:
		l.mu.Unlock()
		return nil, job.Errorf(job.Unavailable, "read", id, "the server stops")
	case mine == nil:
		mine = &flowLook{done: make(chan struct{})}
		l.now[id] = mine
		l.busy.Go(func() { l.take(id, mine, read) })
	case mine.next == nil:
		mine.next = &flowLook{done: make(chan struct{})}
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

// take reads until no one asks any more. It does not end with the request that began it: others wait for it too.
func (l *looks) take(id job.ID, one *flowLook, read func(context.Context) (*durable.View, error)) {
	for one != nil {
		ctx, cancel := context.WithTimeout(l.ctx, longestLook)
		one.view, one.err = seeing(ctx, id, read)
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

// seeing makes an error of a panic: no request catches it here.
func seeing(ctx context.Context, id job.ID, read func(context.Context) (*durable.View, error)) (v *durable.View, err error) {
	defer func() {
		if p := recover(); p != nil {
			v, err = nil, job.Errorf(job.Internal, "read", id, "it panicked: %v", p)
		}
	}()
	return read(ctx)
}
