package compute_test

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
)

// killable is a store at whose n-th change the process ends: every goroutine that calls it from then on ends there and
// then, as all would in a process that was killed. The change itself happens or not, by side. Who creates jobs gets no
// answer instead: the engine holds slots for them that have to be given back, so that it comes to its end.
type killable struct {
	job.Store
	mu    sync.Mutex // guards the rest
	at    int        // number of the deadly change, from 1; 0 never
	after bool       // die after the change rather than before
	calls int
	past  bool
	dead  chan struct{} // closed at death
}

func newKillable(inner job.Store, at int, after bool) *killable {
	return &killable{Store: inner, at: at, after: after, dead: make(chan struct{})}
}

// kill has the process die now.
func (m *killable) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.die()
}

// isDead reports whether the process has ended.
func (m *killable) isDead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.past
}

// die needs the lock.
func (m *killable) die() {
	if !m.past {
		m.past = true
		close(m.dead)
	}
}

// read passes a call through that changes nothing, unless the process is dead.
func (m *killable) read() {
	m.mu.Lock()
	past := m.past || m.at > 0 && m.calls >= m.at // the deadly change may still be under way
	m.mu.Unlock()
	if past {
		runtime.Goexit()
	}
}

// change counts a call and does it, or ends. It reports whether the process lives.
func (m *killable) change(do func()) (lives bool) {
	m.mu.Lock()
	m.calls++
	last := m.at > 0 && m.calls == m.at
	if last && !m.after {
		m.die()
	}
	past := m.past || m.at > 0 && m.calls > m.at // no change follows the deadly one, not even while it is under way
	m.mu.Unlock()
	if past {
		return false
	}
	do()
	if last {
		m.kill()
	}
	return !last
}

// must is change for a caller that ends with the process.
func (m *killable) must(do func()) {
	if !m.change(do) {
		runtime.Goexit()
	}
}

func (m *killable) Create(ctx context.Context, jobs ...job.Created) (made []job.Job, err error) {
	if !m.change(func() { made, err = m.Store.Create(ctx, jobs...) }) {
		return nil, job.Errorf(job.Unavailable, "create", "", "the process is dead")
	}
	return made, err
}

func (m *killable) Commit(ctx context.Context, changes ...job.Change) (r []job.Result, err error) {
	m.must(func() { r, err = m.Store.Commit(ctx, changes...) })
	return r, err
}

func (m *killable) Claim(ctx context.Context, c job.Claim) (jobs []job.Job, err error) {
	m.read()
	if f, err := m.Store.Peek(ctx, c, ""); err != nil || len(f.Next) == 0 { // it would change nothing
		return nil, err
	}
	m.must(func() { jobs, err = m.Store.Claim(ctx, c) })
	return jobs, err
}

func (m *killable) Take(ctx context.Context, t job.Taking) ([]job.Message, error) {
	m.read()
	return m.Store.Take(ctx, t)
}

func (m *killable) Messages(ctx context.Context, q job.MessageQuery) ([]job.Message, error) {
	m.read()
	return m.Store.Messages(ctx, q)
}

func (m *killable) Settle(ctx context.Context, messages ...job.Message) (err error) {
	m.read()
	m.must(func() { err = m.Store.Settle(ctx, messages...) })
	return err
}

func (m *killable) Replay(ctx context.Context, now time.Time, keys ...string) (all []job.Message, err error) {
	m.read()
	m.must(func() { all, err = m.Store.Replay(ctx, now, keys...) })
	return all, err
}

func (m *killable) Get(ctx context.Context, id job.ID) (job.Job, error) {
	m.read()
	return m.Store.Get(ctx, id)
}

func (m *killable) List(ctx context.Context, q job.Query) (job.Page, error) {
	m.read()
	return m.Store.List(ctx, q)
}

func (m *killable) Overdue(ctx context.Context, now time.Time, kinds []job.Kind, n int) ([]job.Job, error) {
	m.read()
	return m.Store.Overdue(ctx, now, kinds, n)
}

func (m *killable) Renew(ctx context.Context, r job.Renewal) ([]job.Lease, error) {
	m.read()
	return m.Store.Renew(ctx, r)
}
