package enginetest

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Fuse counts calls. At call number At the process crashes: every goroutine that calls from then on ends there, as all
// do in a process that is killed. The call itself happens or not, by After.
type Fuse struct {
	At    int           // number of the call, from 1; 0: no crash
	After bool          // crash after the call rather than before
	Dead  chan struct{} // closed at the crash

	mu    sync.Mutex // guards calls, and At once calls are made
	calls int
}

// NewFuse returns a fuse without calls.
func NewFuse(at int, after bool) *Fuse { return &Fuse{At: at, After: after, Dead: make(chan struct{})} }

// Calls returns the number of calls so far.
func (f *Fuse) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// End makes every call from now on end its goroutine, for a process that crashed by itself.
func (f *Fuse) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.At = f.calls
}

// Call counts a call and makes it, or crashes.
func (f *Fuse) Call(do func()) {
	f.mu.Lock()
	f.calls++
	n := f.calls
	last := f.At > 0 && n == f.At
	past := f.At > 0 && n > f.At || last && !f.After
	if last && !f.After {
		close(f.Dead)
	}
	f.mu.Unlock()
	if past {
		runtime.Goexit()
	}
	do()
	if last {
		close(f.Dead)
		runtime.Goexit()
	}
}

// Crashing is a store in a process that crashes at one of its calls.
type Crashing struct {
	job.Store
	*Fuse
	Few bool // only commits and the settling of messages count
}

// NewCrashing returns a store with a fuse of its own.
func NewCrashing(inner job.Store, at int, after bool) *Crashing {
	return &Crashing{Store: inner, Fuse: NewFuse(at, after)}
}

// other makes a call that changes no job, or that counts only where all do.
func (c *Crashing) other(do func()) {
	if !c.Few {
		c.Call(do)
		return
	}
	select {
	case <-c.Dead:
		runtime.Goexit()
	default:
		do()
	}
}

// Create is part of job.Store.
func (c *Crashing) Create(ctx context.Context, jobs ...job.Created) (made []job.Job, err error) {
	c.other(func() { made, err = c.Store.Create(ctx, jobs...) })
	return made, err
}

// Get is part of job.Store.
func (c *Crashing) Get(ctx context.Context, id job.ID) (j job.Job, err error) {
	c.other(func() { j, err = c.Store.Get(ctx, id) })
	return j, err
}

// List is part of job.Store.
func (c *Crashing) List(ctx context.Context, q job.Query) (p job.Page, err error) {
	c.other(func() { p, err = c.Store.List(ctx, q) })
	return p, err
}

// ListEnded is part of job.Store.
func (c *Crashing) ListEnded(ctx context.Context, q job.EndedQuery) (p job.Page, err error) {
	c.other(func() { p, err = c.Store.ListEnded(ctx, q) })
	return p, err
}

// Overdue is part of job.Store.
func (c *Crashing) Overdue(ctx context.Context, now time.Time, kinds []job.Kind, n int) (jobs []job.Job, err error) {
	c.other(func() { jobs, err = c.Store.Overdue(ctx, now, kinds, n) })
	return jobs, err
}

// Claim is part of job.Store.
func (c *Crashing) Claim(ctx context.Context, claim job.Claim) (jobs []job.Job, err error) {
	c.other(func() { jobs, err = c.Store.Claim(ctx, claim) })
	return jobs, err
}

// Commit is part of job.Store.
func (c *Crashing) Commit(ctx context.Context, changes ...job.Change) (r []job.Result, err error) {
	c.Call(func() { r, err = c.Store.Commit(ctx, changes...) })
	return r, err
}

// Take is part of job.Store.
func (c *Crashing) Take(ctx context.Context, t job.Taking) (taken []job.Message, err error) {
	c.other(func() { taken, err = c.Store.Take(ctx, t) })
	return taken, err
}

// Settle is part of job.Store.
func (c *Crashing) Settle(ctx context.Context, messages ...job.Message) (err error) {
	c.Call(func() { err = c.Store.Settle(ctx, messages...) })
	return err
}

// Messages is part of job.Store.
func (c *Crashing) Messages(ctx context.Context, q job.MessageQuery) (all []job.Message, err error) {
	c.other(func() { all, err = c.Store.Messages(ctx, q) })
	return all, err
}

// Replay is part of job.Store.
func (c *Crashing) Replay(ctx context.Context, now time.Time, keys ...string) (again []job.Message, err error) {
	c.other(func() { again, err = c.Store.Replay(ctx, now, keys...) })
	return again, err
}
