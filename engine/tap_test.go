package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
)

// fate is what becomes of one call of a store.
type fate int

const (
	answered fate = iota // as the store states
	refused              // nothing happens, and the caller gets an error
	unheard              // it happens, and the caller gets an error all the same
)

// tap is between an engine and its store. It counts the calls and decides the fate of each.
type tap struct {
	job.Store
	mu    sync.Mutex // guards the rest
	calls map[string]int
	total int
	fate  func(op string, nth int) fate // nth of this operation, from 1; called under mu. nil: all are answered
}

func through[T any](p *tap, op string, call func() (T, error)) (T, error) {
	p.mu.Lock()
	if p.calls == nil {
		p.calls = map[string]int{}
	}
	p.total++
	p.calls[op]++
	f := answered
	if p.fate != nil {
		f = p.fate(op, p.calls[op])
	}
	p.mu.Unlock()
	var none T
	if f == refused {
		return none, errCut
	}
	answer, err := call()
	if f == unheard {
		return none, errCut
	}
	return answer, err
}

func (p *tap) Create(ctx context.Context, jobs ...job.Created) ([]job.Job, error) {
	return through(p, "Create", func() ([]job.Job, error) { return p.Store.Create(ctx, jobs...) })
}

func (p *tap) Get(ctx context.Context, id job.ID) (job.Job, error) {
	return through(p, "Get", func() (job.Job, error) { return p.Store.Get(ctx, id) })
}

func (p *tap) List(ctx context.Context, q job.Query) (job.Page, error) {
	return through(p, "List", func() (job.Page, error) { return p.Store.List(ctx, q) })
}

func (p *tap) ListEnded(ctx context.Context, q job.EndedQuery) (job.Page, error) {
	return through(p, "ListEnded", func() (job.Page, error) { return p.Store.ListEnded(ctx, q) })
}

func (p *tap) Count(ctx context.Context) ([]job.Tally, error) {
	return through(p, "Count", func() ([]job.Tally, error) { return p.Store.Count(ctx) })
}

func (p *tap) History(ctx context.Context, id job.ID, seq int64, n int) ([]job.Event, error) {
	return through(p, "History", func() ([]job.Event, error) { return p.Store.History(ctx, id, seq, n) })
}

func (p *tap) Tasks(ctx context.Context, id job.ID) ([]job.Task, error) {
	return through(p, "Tasks", func() ([]job.Task, error) { return p.Store.Tasks(ctx, id) })
}

func (p *tap) Claim(ctx context.Context, c job.Claim) ([]job.Job, error) {
	return through(p, "Claim", func() ([]job.Job, error) { return p.Store.Claim(ctx, c) })
}

func (p *tap) Renew(ctx context.Context, r job.Renewal) ([]job.Lease, error) {
	return through(p, "Renew", func() ([]job.Lease, error) { return p.Store.Renew(ctx, r) })
}

func (p *tap) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	return through(p, "Commit", func() ([]job.Result, error) { return p.Store.Commit(ctx, changes...) })
}

func (p *tap) Peek(ctx context.Context, c job.Claim, id job.ID) (job.Forecast, error) {
	return through(p, "Peek", func() (job.Forecast, error) { return p.Store.Peek(ctx, c, id) })
}

func (p *tap) Overdue(ctx context.Context, now time.Time, kinds []job.Kind, n int) ([]job.Job, error) {
	return through(p, "Overdue", func() ([]job.Job, error) { return p.Store.Overdue(ctx, now, kinds, n) })
}

func (p *tap) Holds(ctx context.Context) ([]job.Hold, error) {
	return through(p, "Holds", func() ([]job.Hold, error) { return p.Store.Holds(ctx) })
}

func (p *tap) Hold(ctx context.Context, h job.Hold) ([]job.Hold, error) {
	return through(p, "Hold", func() ([]job.Hold, error) { return p.Store.Hold(ctx, h) })
}

func (p *tap) Release(ctx context.Context, h job.Hold) ([]job.Hold, error) {
	return through(p, "Release", func() ([]job.Hold, error) { return p.Store.Release(ctx, h) })
}

func (p *tap) Take(ctx context.Context, t job.Taking) ([]job.Message, error) {
	return through(p, "Take", func() ([]job.Message, error) { return p.Store.Take(ctx, t) })
}

func (p *tap) Settle(ctx context.Context, messages ...job.Message) error {
	_, err := through(p, "Settle", func() (bool, error) { return true, p.Store.Settle(ctx, messages...) })
	return err
}

func (p *tap) Messages(ctx context.Context, q job.MessageQuery) ([]job.Message, error) {
	return through(p, "Messages", func() ([]job.Message, error) { return p.Store.Messages(ctx, q) })
}

func (p *tap) Replay(ctx context.Context, now time.Time, keys ...string) ([]job.Message, error) {
	return through(p, "Replay", func() ([]job.Message, error) { return p.Store.Replay(ctx, now, keys...) })
}

func (p *tap) Note(ctx context.Context, a job.Audit) error {
	_, err := through(p, "Note", func() (bool, error) { return true, p.Store.Note(ctx, a) })
	return err
}

func (p *tap) count(op string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if op == "" {
		return p.total
	}
	return p.calls[op]
}

func (p *tap) decide(f func(op string, nth int) fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fate = f
}

// cut ends the connection: for the store, the engine was killed.
func (p *tap) cut() { p.decide(func(string, int) fate { return refused }) }

// killable is an engine that can be killed.
type killable struct {
	*harness
	line *tap
}

func startKillable(t *testing.T, store job.Store, o engine.Options, works ...engine.Work) *killable {
	t.Helper()
	line := &tap{Store: store}
	return &killable{start(t, line, o, works...), line}
}

// kill cuts the engine off. Its goroutines end before the test does.
func (m *killable) kill() {
	m.line.cut()
	ended := make(chan struct{})
	go func() { m.stop(); close(ended) }()
	m.t.Cleanup(func() { <-ended })
}

// until waits for a condition of a job.
func (w *harness) until(id job.ID, done func(*job.Job) bool) job.Job {
	w.t.Helper()
	j, err := w.Await(w.t.Context(), id, done)
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

// events returns the transitions of a job.
func (w *harness) events(id job.ID) []lc.Event {
	w.t.Helper()
	history, err := w.store.History(w.t.Context(), id, 0, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	var events []lc.Event
	for _, h := range history {
		events = append(events, h.Event)
	}
	return events
}

// times counts a transition in a job's history.
func (w *harness) times(id job.ID, e lc.Event) int {
	n := 0
	for _, taken := range w.events(id) {
		if taken == e {
			n++
		}
	}
	return n
}

func named(prefix string, i int) engine.Options { return engine.Options{Name: fmt.Sprint(prefix, i)} }
