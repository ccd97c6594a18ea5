package flow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// TestSuspendWhileTasksAreQueued: running tasks end and are stored, queued tasks return to PENDING, and the flow is
// SUSPENDED. The next run executes only the rest. (TaskFlow ends REVERTED and executes everything again.)
func TestSuspendWhileTasksAreQueued(t *testing.T) {
	for _, ask := range []func(*Runner){(*Runner).Suspend, (*Runner).Stop} {
		synctest.Test(t, func(t *testing.T) {
			var count [6]atomic.Int32
			begun, out := make(chan struct{}, 6), make(chan struct{})
			var items []Item
			for i := range 6 {
				items = append(items, does(fmt.Sprint("t", i), func(context.Context) error {
					count[i].Add(1)
					begun <- struct{}{}
					<-out
					return nil
				}))
			}
			r := rigged(t, Unordered("f", items...), Options{Workers: NewPool(2), Storage: newDisk()})
			done := r.running(t.Context())
			<-begun
			<-begun
			ask(r.Runner)
			synctest.Wait()
			close(out)
			err := <-done
			if s := r.State(); err == nil && s != Suspended || err != nil &&
				(s != Running || !errors.Is(err, ErrStopped)) {
				t.Fatalf("the flow is %s: %v", s, err)
			}
			r.atoms(t, "t0 SUCCESS, t1 SUCCESS, t2 PENDING, t3 PENDING, t4 PENDING, t5 PENDING")
			if err := r.run(t, Success); err != nil {
				t.Fatal(err)
			}
			for i := range count {
				if n := count[i].Load(); n != 1 {
					t.Errorf("t%d was executed %d times", i, n)
				}
			}
			for _, rec := range r.Atoms() {
				if rec.Attempts != 1 {
					t.Errorf("%s counts %d attempts", rec.Name, rec.Attempts)
				}
			}
		})
	}
}

// TestSuspendAnyTime: a flow that another goroutine suspends repeatedly, at any point, comes to the same end and
// executes nothing twice.
func TestSuspendAnyTime(t *testing.T) {
	for _, bad := range []bool{false, true} {
		for _, pool := range []*Pool{nil, NewPool(1), NewPool(3)} {
			var executed, reverted atomic.Int32
			var lines []Item
			for i := range 5 {
				var line []Item
				for k := range 5 {
					line = append(line, &Task{Name: fmt.Sprintf("t%d%d", i, k),
						Execute: func(context.Context, *Call) (any, error) { executed.Add(1); return nil, nil },
						Revert:  func(context.Context, *Call) (any, error) { reverted.Add(1); return nil, nil }})
				}
				lines = append(lines, Linear(fmt.Sprint("l", i), line...))
			}
			all := Linear("f", Unordered("u", lines...))
			if bad {
				all = Linear("f", Unordered("u", lines...), fails("bad"))
			}
			r := rigged(t, all, Options{Workers: pool, Storage: newDisk()})
			var err error
			runs := 0
			for r.State() != Success && r.State() != Reverted && runs < 10_000 {
				runs++
				stop := make(chan struct{})
				var wg sync.WaitGroup
				wg.Go(func() {
					for k := 0; ; k++ {
						select {
						case <-stop:
							return
						default:
							if k%(runs+1) == runs { // later in each run, so that it gets on
								r.Suspend()
							}
							r.State()
						}
					}
				})
				err = r.Run(t.Context())
				close(stop)
				wg.Wait()
			}
			want, undone := Success, int32(0)
			if bad {
				want, undone = Reverted, 25
			}
			if r.State() != want || (err != nil) != bad || executed.Load() != 25 || reverted.Load() != undone {
				t.Errorf("%s after %d runs: %v; %d executed, %d reverted", r.State(), runs, err, executed.Load(), reverted.Load())
			}
		}
	}
}

// TestSuspendWhereNothingRuns changes nothing.
func TestSuspendWhereNothingRuns(t *testing.T) {
	r := rigged(t, Linear("f", gives("a", 1)), Options{})
	r.Suspend()
	r.is(t, Pending)
	if err := r.run(t, Success); err != nil {
		t.Error(err)
	}
	r.Suspend()
	r.is(t, Success)
	if err := r.run(t, Success); err != nil {
		t.Error(err)
	}
}

// slowLoad is a storage whose Load returns when open is closed.
type slowLoad struct {
	Storage
	entered, open chan struct{}
}

func (s *slowLoad) Load(ctx context.Context) (*Snapshot, error) {
	close(s.entered)
	<-s.open
	return s.Storage.Load(ctx)
}

// TestRequestsDoNotWaitForStorage: Suspend and Stop return while the runner waits for its storage. A caller that has to
// end the call of the storage itself would wait indefinitely.
func TestRequestsDoNotWaitForStorage(t *testing.T) {
	for _, request := range []func(*Runner){(*Runner).Suspend, (*Runner).Stop} {
		disk := &slowLoad{newDisk(), make(chan struct{}), make(chan struct{})}
		r := rigged(t, Linear("f", gives("a", 1)), Options{Storage: disk})
		loaded, returned := make(chan error, 1), make(chan struct{})
		go func() { loaded <- r.Load(t.Context()) }()
		<-disk.entered
		go func() { defer close(returned); request(r.Runner) }()
		select {
		case <-returned:
		case <-time.After(time.Minute):
			t.Error("the request waits for the storage")
		}
		close(disk.open)
		if err := <-loaded; err != nil {
			t.Error(err)
		}
	}
}

// TestSuspendByListener: at every event that a flow reports, in turn.
func TestSuspendByListener(t *testing.T) {
	for _, bad := range []bool{false, true} {
		for _, pool := range []*Pool{nil, NewPool(2)} {
			for at := 1; ; at++ {
				executed := map[string]int{}
				var mu sync.Mutex
				task := func(name string) *Task {
					return does(name, func(context.Context) error {
						mu.Lock()
						defer mu.Unlock()
						executed[name]++
						return nil
					})
				}
				items := []Item{task("a"), Unordered("u", task("b"), task("c")), task("d")}
				if bad {
					items = append(items, fails("e"))
				}
				n := 0
				var r *rig
				r = rigged(t, Linear("f", items...), Options{Workers: pool, Storage: newDisk(),
					Listeners: []Listener{func(Event) {
						if n++; n == at {
							r.Suspend()
						}
					}}})
				err := r.Run(t.Context())
				if n < at {
					break
				}
				for range 3 {
					if r.State() == Suspended {
						err = r.Run(t.Context())
					}
				}
				want := Success
				if bad {
					want = Reverted
				}
				if got := fmt.Sprint(executed); r.State() != want || (err != nil) != bad ||
					got != "map[a:1 b:1 c:1 d:1]" {
					t.Fatalf("suspended at event %d: %s, %v, executed %s; %s", at, r.State(), err, got, r.heard)
				}
			}
		}
	}
}

// TestResetFromEachState: complete from every state in which the flow does not run, refused from the others.
func TestResetFromEachState(t *testing.T) {
	for _, c := range []struct {
		state lifecycle.State
		make  func(t *testing.T, r *rig, bad *bool)
	}{
		{Pending, func(*testing.T, *rig, *bool) {}},
		{Success, func(t *testing.T, r *rig, _ *bool) { r.run(t, Success) }},
		{Reverted, func(t *testing.T, r *rig, bad *bool) { *bad = true; r.run(t, Reverted) }},
		{FailureState, func(t *testing.T, r *rig, bad *bool) {
			*bad = true
			r.o.NeverResolve = true
			r.run(t, FailureState)
		}},
		{Suspended, func(t *testing.T, r *rig, _ *bool) {
			suspend := func(e Event) {
				if e.New == Success {
					r.Suspend()
				}
			}
			r.o.Listeners = append(r.o.Listeners, suspend)
			r.run(t, Suspended)
			r.o.Listeners = r.o.Listeners[:1]
		}},
	} {
		t.Run(string(c.state), func(t *testing.T) {
			bad, n, disk := false, 0, newDisk()
			b := does("b", func(context.Context) error {
				if bad {
					return errWoot
				}
				return nil
			})
			a := does("a", func(context.Context) error { n++; return nil })
			retry := Times(1)
			r := rigged(t, Linear("f", a, b).With(retry), Options{Storage: disk})
			c.make(t, r, &bad)
			r.is(t, c.state)
			if err := r.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.is(t, Pending)
			r.atoms(t, "f_retry PENDING, a PENDING, b PENDING")
			if len(r.ExecuteFailures())+len(r.RevertFailures())+len(r.Values()) > 0 {
				t.Errorf("something is left: %v %v", r.ExecuteFailures(), r.Values())
			}
			for _, rec := range r.Atoms() {
				if len(rec.History) > 0 || rec.Result != nil || rec.Failure != nil || rec.Intention != Execute {
					t.Errorf("left of %s: %+v", rec.Name, rec)
				}
			}
			bad, n, r.o.NeverResolve = false, 0, false
			again := rigged(t, r.plan.nodes[0].flow, Options{Storage: disk})
			if err := again.run(t, Success); err != nil || n != 1 {
				t.Errorf("%v after %d executions", err, n)
			}
		})
	}
	t.Run("RUNNING", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, begun, letGo := held("a")
			r := rigged(t, Linear("f", gives("z", 1), a), Options{Workers: NewPool(1)})
			done := r.running(t.Context())
			<-begun
			wantKind(t, r.Reset(t.Context()), ErrBusy, "running")
			if err := r.Run(t.Context()); !errors.Is(err, ErrBusy) {
				t.Errorf("a second run gave %v", err)
			}
			r.Stop()
			letGo()
			<-done
			var state *StateError
			if err := r.Reset(t.Context()); !errors.As(err, &state) || state.From != Running {
				t.Errorf("got %v", err)
			}
			r.is(t, Running)
			r.atoms(t, "z SUCCESS, a SUCCESS")
		})
	})
}

// TestResetThatCannotBeStored leaves everything as it was.
func TestResetThatCannotBeStored(t *testing.T) {
	disk := newDisk()
	r := rigged(t, Linear("f", gives("a", 1)), Options{Storage: disk})
	r.run(t, Success)
	disk.broken = errWoot
	if err := r.Reset(t.Context()); !errors.Is(err, errWoot) {
		t.Errorf("got %v", err)
	}
	disk.broken = nil
	if err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.is(t, Success)
	r.atoms(t, "a SUCCESS")
}

// TestRunAgain from each end.
func TestRunAgain(t *testing.T) {
	count := map[string]int{}
	bad := true
	step := func(name string, f func() error) *Task {
		task := does(name, func(context.Context) error { count[name]++; return f() })
		task.Revert = func(context.Context, *Call) (any, error) { count["un"+name]++; return nil, nil }
		return task
	}
	good := func() error { return nil }
	maybe := func() error {
		if bad {
			return errWoot
		}
		return nil
	}
	run := func(r *rig, want lifecycle.State, counted string) {
		t.Helper()
		clear(count)
		err := r.run(t, want)
		if got := fmt.Sprint(count); got != counted || (err == nil) != (want == Success) {
			t.Errorf("%v, executed %s, want %s", err, got, counted)
		}
	}
	r := rigged(t, Linear("f", step("a", good), step("b", maybe)), Options{})
	run(r, Reverted, "map[a:1 b:1 una:1 unb:1]")
	run(r, Reverted, "map[a:1 b:1 una:1 unb:1]")
	bad = false
	run(r, Success, "map[a:1 b:1]")
	run(r, Success, "map[]")
	if len(r.ExecuteFailures()) > 0 {
		t.Errorf("failures of the past: %v", r.ExecuteFailures())
	}
	bad = true
	r = rigged(t, Linear("f", step("a", good), step("b", maybe)), Options{NeverResolve: true})
	run(r, FailureState, "map[a:1 b:1]")
	r.atoms(t, "a SUCCESS, b FAILURE")
	run(r, FailureState, "map[]")
	r.o.NeverResolve = false
	run(r, Reverted, "map[una:1 unb:1]")
}
