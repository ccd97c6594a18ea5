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
)

var errGone = errors.New("the worker has to go")

// TestCancelOfRun: when the context of Run ends, in any phase, the flow stays RUNNING and keeps its results, and the
// next run continues to the right end.
func TestCancelOfRun(t *testing.T) {
	type fixture struct {
		item   Item
		cancel context.CancelCauseFunc
		mu     sync.Mutex // guards count
		count  map[string]int
	}
	add := func(w *fixture, name string) int {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.count[name]++
		return w.count[name]
	}
	step := func(w *fixture, name string, then func(ctx context.Context) error) *Task {
		task := does(name, func(ctx context.Context) error {
			if add(w, name) == 1 && then != nil {
				return then(ctx)
			}
			return nil
		})
		task.Revert = func(ctx context.Context, _ *Call) (any, error) {
			add(w, "un"+name)
			return nil, nil
		}
		return task
	}
	ends := func(w *fixture) func(context.Context) error {
		return func(ctx context.Context) error { w.cancel(errGone); <-ctx.Done(); return ctx.Err() }
	}
	for _, c := range []struct {
		name  string
		make  func(w *fixture) Item
		count string // of executions and reverts by the end of the second run
		end   string
	}{
		{"while a task executes", func(w *fixture) Item {
			return Linear("f", step(w, "a", nil), step(w, "b", ends(w)), step(w, "c", nil))
		}, "map[a:1 b:2 c:1]", "SUCCESS"},
		{"when a task is done that does not heed it", func(w *fixture) Item {
			return Linear("f", step(w, "a", func(context.Context) error { w.cancel(errGone); return nil }),
				step(w, "b", nil))
		}, "map[a:1 b:1]", "SUCCESS"},
		{"while several execute", func(w *fixture) Item {
			return Unordered("f", step(w, "a", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }),
				step(w, "b", ends(w)), step(w, "c", nil))
		}, "map[a:2 b:2 c:1]", "SUCCESS"},
		{"while a task waits for its next attempt", func(w *fixture) Item {
			a := step(w, "a", func(context.Context) error {
				time.AfterFunc(time.Second, func() { w.cancel(errGone) })
				return errWoot
			})
			a.Attempts = Attempts{Max: 2, First: time.Minute}
			return Linear("f", a, step(w, "b", nil))
		}, "map[a:2 b:1]", "SUCCESS"},
		{"while a task reverts", func(w *fixture) Item {
			b := step(w, "b", nil)
			b.Revert = func(ctx context.Context, c *Call) (any, error) {
				if add(w, "unb") == 1 {
					return nil, ends(w)(ctx)
				}
				return nil, nil
			}
			return Linear("f", step(w, "a", nil), b, fails("c"))
		}, "map[a:1 b:1 una:1 unb:2]", "REVERTED"},
		{"while a controller pauses", func(w *fixture) Item {
			r := Times(2)
			r.Pause = func(int) time.Duration {
				time.AfterFunc(time.Second, func() { w.cancel(errGone) })
				return time.Minute
			}
			return Linear("f", step(w, "a", nil), step(w, "b", func(context.Context) error { return errWoot })).With(r)
		}, "map[a:2 b:2 una:1 unb:1]", "SUCCESS"},
		{"before it begins", func(w *fixture) Item {
			w.cancel(errGone)
			return Linear("f", step(w, "a", nil))
		}, "map[a:1]", "SUCCESS"},
	} {
		for _, pool := range []int{0, 1, 3} {
			for _, anew := range []bool{false, true} {
				if pool == 0 && c.name == "while several execute" {
					continue // one after another: the first would wait for the second
				}
				if pool == 1 && c.name == "while several execute" {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d/%v", c.name, pool, anew), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						ctx, cancel := context.WithCancelCause(t.Context())
						w := &fixture{cancel: cancel, count: map[string]int{}}
						w.item = c.make(w)
						o := Options{Storage: newDisk()}
						if pool > 0 {
							o.Workers = NewPool(pool)
						}
						r := rigged(t, w.item, o)
						if err := r.Run(ctx); !errors.Is(err, errGone) {
							t.Fatalf("the first run gave %v", err)
						}
						if s := r.State(); s != Running {
							t.Fatalf("the flow is %s; %s", s, r.heard)
						}
						if anew {
							r = rigged(t, w.item, o)
						}
						err := r.Run(t.Context())
						if got := string(r.State()); got != c.end || (err == nil) != (c.end == "SUCCESS") {
							t.Errorf("the second run ended %s, %v; %s", got, err, r.heard)
						}
						if got := fmt.Sprint(w.count); got != c.count {
							t.Errorf("executed %s, want %s; %s", got, c.count, r.heard)
						}
					})
				})
			}
		}
	}
}

// TestCancelLeavesBehindWhatDoesNotReturn: a cancelled run ends after Grace at the latest. Later outcomes of its tasks
// are ignored.
func TestCancelLeavesBehindWhatDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		deaf := does("deaf", func(context.Context) error {
			if n.Add(1) == 1 {
				time.Sleep(time.Minute)
				return errWoot
			}
			time.Sleep(2 * time.Minute)
			return nil
		})
		r := rigged(t, deaf, Options{Workers: NewPool(2), Grace: 3 * time.Second})
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errGone)
		defer cancel()
		began := time.Now()
		if err := r.Run(ctx); !errors.Is(err, errGone) || time.Since(began) != 4*time.Second {
			t.Fatalf("%v after %s, want the cause after 4 s", err, time.Since(began))
		}
		if err := r.run(t, Success); err != nil || n.Load() != 2 {
			t.Errorf("%v after %d executions", err, n.Load())
		}
	})
}

// TestStopLeavesTheFlowRunning: Stop is for the worker, Suspend for the flow; both wait for active tasks.
func TestStopLeavesTheFlowRunning(t *testing.T) {
	for _, c := range []struct {
		name string
		ask  func(*Runner)
		err  error
		end  string
	}{{"stop", (*Runner).Stop, ErrStopped, "RUNNING"}, {"suspend", (*Runner).Suspend, nil, "SUSPENDED"}} {
		for _, pool := range []*Pool{nil, NewPool(1), NewPool(4)} {
			t.Run(c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a, begun, letGo := held("a")
					r := rigged(t, Linear("f", a, gives("b", 1)), Options{Workers: pool, Storage: newDisk()})
					done := r.running(t.Context())
					<-begun
					c.ask(r.Runner)
					synctest.Wait()
					select {
					case err := <-done:
						t.Fatalf("the run ended with %v while a task was active", err)
					default:
					}
					letGo()
					if err := <-done; !errors.Is(err, c.err) {
						t.Errorf("got %v, want %v", err, c.err)
					}
					if got := string(r.State()); got != c.end {
						t.Errorf("the flow is %s, want %s", got, c.end)
					}
					r.atoms(t, "a SUCCESS, b PENDING")
					if err := r.run(t, Success); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// TestCancelOfSuspendingFlow: if a worker ends while its flow is SUSPENDING, the next worker moves it to SUSPENDED.
func TestCancelOfSuspendingFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, begun, letGo := held("a")
		r := rigged(t, Linear("f", a, gives("b", 1)), Options{Workers: NewPool(1), Storage: newDisk()})
		ctx, cancel := context.WithCancelCause(t.Context())
		done := r.running(ctx)
		<-begun
		r.Suspend()
		r.await(t, "f", Suspending)
		cancel(errGone)
		if err := <-done; !errors.Is(err, errGone) {
			t.Fatalf("got %v", err)
		}
		r.is(t, Suspending)
		letGo()
		if err := r.run(t, Suspended); err != nil {
			t.Error(err)
		}
		if err := r.run(t, Success); err != nil {
			t.Error(err)
		}
	})
}
