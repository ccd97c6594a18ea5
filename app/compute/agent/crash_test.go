package agent

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// killable is a store at whose n-th call the process ends: every goroutine that calls it from then on ends there and
// then, as all would in a process that was killed. The call itself happens or not, by side. It declares that it is for
// one process alone, as the store on a disk does.
type killable struct {
	job.Store
	mu    sync.Mutex // guards the rest
	at    int        // number of the deadly call, from 1; 0: never
	after bool       // die after the call rather than before
	calls int
	over  bool
	dead  chan struct{} // closed at death
}

func newKillable(inner job.Store, at int, after bool) *killable {
	return &killable{Store: inner, at: at, after: after, dead: make(chan struct{})}
}

// call counts a call and does it, or ends.
func (m *killable) call(do func()) {
	m.mu.Lock()
	m.calls++
	n := m.calls
	if m.at > 0 && n == m.at && !m.after {
		m.die()
	}
	past := m.at > 0 && (n > m.at || n == m.at && !m.after)
	m.mu.Unlock()
	if past {
		runtime.Goexit()
	}
	do()
	m.mu.Lock()
	late := m.at > 0 && m.calls >= m.at && n != m.at && m.over
	if m.at > 0 && n == m.at {
		m.die()
		late = true
	}
	m.mu.Unlock()
	if late {
		runtime.Goexit()
	}
}

// die is called with mu.
func (m *killable) die() {
	if !m.over {
		m.over = true
		close(m.dead)
	}
}

func (m *killable) Properties() job.Properties {
	p := m.Store.Properties()
	p.Exclusive = true
	return p
}

func (m *killable) Create(ctx context.Context, jobs ...job.Created) (made []job.Job, err error) {
	m.call(func() { made, err = m.Store.Create(ctx, jobs...) })
	return made, err
}

func (m *killable) Claim(ctx context.Context, c job.Claim) (jobs []job.Job, err error) {
	m.call(func() { jobs, err = m.Store.Claim(ctx, c) })
	return jobs, err
}

func (m *killable) Commit(ctx context.Context, changes ...job.Change) (r []job.Result, err error) {
	m.call(func() { r, err = m.Store.Commit(ctx, changes...) })
	return r, err
}

func (m *killable) Get(ctx context.Context, id job.ID) (j job.Job, err error) {
	m.call(func() { j, err = m.Store.Get(ctx, id) })
	return j, err
}

// finish waits for all that a process did. An engine that ended in a call never releases its slots; the wait for them
// is short.
func (m *killable) finish(all *sync.WaitGroup) {
	gone := make(chan struct{})
	go func() { all.Wait(); close(gone) }()
	select {
	case <-gone:
		return
	case <-m.dead:
	}
	select {
	case <-gone:
	case <-time.After(200 * time.Millisecond):
	}
}

// way is one life of a payload; what it ends in if no process is killed.
type way struct {
	name string
	play func(context.Context, *sandbox.Command) (sandbox.Ending, error)
	kill bool // once it runs
	want lifecycle.State
}

// live lets an agent take a payload and run it to its end, until the agent is killed. runs counts what it began.
func (y *way) live(t *testing.T, m *killable, dir string, k compute.Ticket, runs *sync.Map) {
	t.Helper()
	begun := make(chan struct{}, 1)
	runner := &actor{play: func(ctx context.Context, c *sandbox.Command) (sandbox.Ending, error) {
		m.mu.Lock()
		if m.over { // an agent that is dead begins nothing, however late this goroutine had its turn
			m.mu.Unlock()
			runtime.Goexit()
		}
		n, _ := runs.LoadOrStore(c.Dir, new(int))
		*n.(*int)++ // one run at a time is what this test is about
		m.mu.Unlock()
		begun <- struct{}{}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(ctx, func() {})()
		ended := make(chan struct{})
		defer close(ended)
		go func() { // the processes of a payload end with the agent
			select {
			case <-m.dead:
				cancel()
			case <-ended:
			}
		}()
		e, err := y.play(ctx, c)
		select {
		case <-m.dead:
			runtime.Goexit() // its result reaches no one
		default:
		}
		return e, err
	}}
	app, err := New(Options{Dir: dir, Name: "a1", Slots: 2, Runner: runner, Reserve: 1})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(m, app.Works(), engine.Options{Name: "agent", Sweep: time.Hour, Grace: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	over := make(chan struct{})
	all.Go(func() {
		defer close(over)
		defer func() {
			select {
			case <-m.dead:
				stop()
			default:
			}
		}()
		app.Bind(e)
		all.Go(func() { _ = e.Run(ctx) })
		if _, err := app.Submit(ctx, parcel(k, "x")); err != nil && ctx.Err() == nil {
			t.Error(err)
			return
		}
		if y.kill {
			select {
			case <-begun:
				if err := app.Kill(ctx, handle(k)); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			case <-m.dead:
			}
		}
		_, _ = app.await(ctx, handle(k), "", enough)
	})
	select {
	case <-over:
	case <-m.dead:
	}
	stop()
	m.finish(&all)
	app.stop()
}

// TestDeathAtEveryCall kills the agent at every call of the store in the life of a payload, before and after the call.
// The next agent on what is left brings the payload to an end, with its results, and it is never run twice.
func TestDeathAtEveryCall(t *testing.T) {
	for _, y := range []way{
		{name: "ends well", play: writes(0), want: compute.Completed},
		{name: "fails", play: writes(3), want: compute.Failed},
		{name: "is killed", play: blocks(make(chan *sandbox.Command, 1000), nil), kill: true, want: compute.Killed},
	} {
		t.Run(y.name, func(t *testing.T) {
			whole, k := newKillable(mem.New(), 0, false), ticket()
			var runs sync.Map
			y.live(t, whole, t.TempDir(), k, &runs)
			if j, err := whole.Store.Get(t.Context(), idOf(k)); err != nil || j.State != y.want {
				t.Fatalf("control: got %s (%s), %v", j.State, j.Message, err)
			}
			whole.mu.Lock() // its background may still be at it
			calls := whole.calls
			whole.mu.Unlock()
			t.Logf("the life has %d calls", calls)
			ran, causes := map[int]int{}, map[string]int{}
			met := func() bool { return ran[1] > 0 && (causes[compute.CauseAgent] > 0 || y.kill) }
			for round := 0; round == 0 || round < 10 && !met(); round++ {
				// which call is the deadly one differs from life to life
				for at := 1; at <= calls; at++ {
					for _, after := range []bool{false, true} {
						n, cause := y.die(t, at, after)
						ran[n]++
						causes[cause]++
					}
				}
			}
			t.Logf("runs %v, causes %v", ran, causes)
			if !met() {
				t.Errorf("control: it never ran, or was never killed while it did: %v, %v", ran, causes)
			}
		})
	}
}

// die lets one agent die and another go on. It gives the number of runs.
func (y *way) die(t *testing.T, at int, after bool) (ran int, cause string) {
	t.Helper()
	name := fmt.Sprintf("death at %d, after=%t", at, after)
	store, dir, k := mem.New(), t.TempDir(), ticket()
	var runs sync.Map
	y.live(t, newKillable(store, at, after), dir, k, &runs)
	next := newKillable(store, 0, false)
	second := way{play: writes(0)}
	second.live(t, next, dir, k, &runs)
	j, err := store.Get(t.Context(), idOf(k))
	if err != nil || !j.Ended {
		t.Errorf("%s: got %s, %v", name, j.State, err)
		return 0, ""
	}
	runs.Range(func(_, n any) bool { ran = *n.(*int); return true })
	if ran > 1 {
		t.Errorf("%s: %d runs", name, ran)
	}
	w := &harness{T: t, store: store, dir: dir, runner: &actor{play: writes(0)}}
	w.start(nil)
	defer w.stop()
	n, err := w.app.Query(t.Context(), handle(k))
	if err != nil || n.Standing != compute.Ended {
		t.Errorf("%s: got %+v, %v", name, n, err)
	}
	if n.HasResult {
		r, err := w.app.Results(t.Context(), handle(k))
		unzip(t, r, err)
	} else if ran > 0 && w.app.ran(idOf(k)) {
		t.Errorf("%s: it ran and has no results: %+v", name, n.Ending)
	}
	if n.Ending.Cause == "" && (n.Ending.Exit != 0 || j.State != compute.Completed) {
		t.Errorf("%s: got %+v, %s", name, n.Ending, j.State)
	}
	return ran, n.Ending.Cause
}
