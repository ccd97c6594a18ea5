package flow

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// waits makes a Wait whose result has a name.
func waits(name, signal string, within time.Duration) *Task {
	task := Wait(name, signal, within)
	task.Result = One("ANSWER")
	return task
}

// TestSignalWheneverItComes: before the flow begins, while something else is done, while it is waited for.
func TestSignalWheneverItComes(t *testing.T) {
	for _, pool := range []*Pool{nil, NewPool(1), NewPool(2)} {
		for _, when := range []string{"before", "while another executes", "while it is awaited"} {
			t.Run(when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a, begun, letGo := held("a")
					r := rigged(t, Linear("f", a, waits("w", "go", 0), gives("b", 1)), Options{Workers: pool})
					if when == "before" {
						r.Signal("go", "yes")
					}
					done := r.running(t.Context())
					<-begun
					if when == "while another executes" {
						r.Signal("go", "yes")
					}
					letGo()
					synctest.Wait()
					if when == "while it is awaited" {
						r.atoms(t, "a SUCCESS, w RUNNING, b PENDING")
						_ = r.signal("something else", 1, true)
						synctest.Wait()
						r.atoms(t, "a SUCCESS, w RUNNING, b PENDING") // control: only its own signal
						r.Signal("go", "yes")
					}
					if err := <-done; err != nil {
						t.Fatal(err)
					}
					r.atoms(t, "a SUCCESS, w SUCCESS, b SUCCESS")
					if v, _ := r.Value("ANSWER"); v.Any() != "yes" {
						t.Errorf("the answer is %v", v.Any())
					}
				})
			})
		}
	}
}

// TestSignalComesAfterwards: a signal to an ended flow changes nothing and is kept for the next run from the beginning.
func TestSignalComesAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rigged(t, Linear("f", waits("w", "go", time.Minute)), Options{})
		var f *Failure
		if err := r.run(t, Reverted); !errors.As(err, &f) || f.Type != TypeTimeout {
			t.Fatalf("got %v", err)
		}
		r.Signal("go", "late")
		r.is(t, Reverted)
		if err := r.run(t, Success); err != nil {
			t.Error(err)
		}
	})
}

// TestWaitTimesOut: exactly when its time is up, as a failure like any other, and not if the signal comes a moment
// before.
func TestWaitTimesOut(t *testing.T) {
	for _, c := range []struct {
		signal time.Duration
		took   time.Duration
		kind   string
	}{{0, 10 * time.Second, TypeTimeout}, {9 * time.Second, 9 * time.Second, ""}} {
		synctest.Test(t, func(t *testing.T) {
			r := rigged(t, Linear("f", gives("a", 1), waits("w", "go", 10*time.Second)), Options{})
			began := time.Now()
			if c.signal > 0 {
				time.AfterFunc(c.signal, func() { r.Signal("go", 1) })
			}
			err := r.Run(t.Context())
			var f *Failure
			if c.kind == "" && err != nil || c.kind != "" && (!errors.As(err, &f) || f.Type != c.kind) {
				t.Errorf("got %v, want type %q", err, c.kind)
			}
			if took := time.Since(began); took != c.took {
				t.Errorf("took %s, want %s", took, c.took)
			}
		})
	}
}

// TestSiblingEndsTheWaiting: a task that waits when another one fails is Cancelled and reverted, and is not in the
// error of the flow.
func TestSiblingEndsTheWaiting(t *testing.T) {
	for _, pool := range []*Pool{nil, NewPool(2)} {
		synctest.Test(t, func(t *testing.T) {
			w := waits("w", "go", 0)
			var why *Failure
			w.Revert = func(_ context.Context, c *Call) (any, error) { why = c.Failure; return nil, nil }
			bad := Linear("line", Sleep("s", time.Second), fails("b"))
			r := rigged(t, Unordered("f", w, bad), Options{Workers: pool})
			if err := r.run(t, Reverted); !errors.Is(err, errWoot) || err.Error() != "Woot" {
				t.Errorf("got %v, want what b failed of alone", err)
			}
			r.atoms(t, "w REVERTED, s REVERTED, b REVERTED")
			if why == nil || why.Type != TypeCancelled {
				t.Errorf("the revert got %v", why)
			}
		})
	}
}

// TestSiblingEndsTheBackoff: a task that waits for its next attempt when another one fails keeps its last failure.
func TestSiblingEndsTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flaky := does("flaky", func(context.Context) error { return errors.New("flaked") })
		flaky.Attempts = Attempts{Max: 9, First: time.Hour}
		r := rigged(t, Unordered("f", flaky, Linear("line", Sleep("s", time.Second), fails("b"))), Options{})
		began := time.Now()
		err := r.run(t, Reverted)
		if took := time.Since(began); took != time.Second || err.Error() != "flaky: flaked; b: Woot" {
			t.Errorf("%v after %s", err, took)
		}
	})
}

// TestSuspendWhileWaiting: a flow is suspended while it waits. A new Runner continues with the rest of the time, or
// with the signal that came.
func TestSuspendWhileWaiting(t *testing.T) {
	for _, signal := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			make := func() Item { return Linear("f", gives("a", 1), waits("w", "go", time.Minute), gives("b", 1)) }
			disk := newDisk()
			r := rigged(t, make(), Options{Storage: disk})
			began := time.Now()
			done := r.running(t.Context())
			time.Sleep(20 * time.Second)
			r.Suspend()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			r.is(t, Suspended)
			r.atoms(t, "a SUCCESS, w RUNNING, b PENDING")
			time.Sleep(10 * time.Second)
			again := rigged(t, make(), Options{Storage: disk})
			if signal {
				time.AfterFunc(time.Second, func() { again.Signal("go", 1) })
			}
			err := again.Run(t.Context())
			took, want, end := time.Since(began), 60*time.Second, Reverted
			if signal {
				want, end = 31*time.Second, Success
			}
			again.is(t, end)
			if took != want || (err == nil) != signal {
				t.Errorf("%v after %s, want %s", err, took, want)
			}
		})
	}
}

// TestAwaitGoesOn: Execute is called again when the signal is there or the time has come, and can determine which.
func TestAwaitGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		began := time.Now()
		task := &Task{Name: "a", Signals: []AnySignal{Signal[string]("go")},
			Execute: func(_ context.Context, c *Call) (any, error) {
				v, come := c.Signal("go")
				calls = append(calls, fmt.Sprintf("%d %v %v %v %s", c.Attempt, v.Any(), come, c.Due().IsZero(),
					time.Since(began)))
				if len(calls) < 3 {
					return nil, Await("go", c.Now().Add(5*time.Second))
				}
				return nil, nil
			}}
		r := rigged(t, task, Options{})
		time.AfterFunc(7*time.Second, func() { r.Signal("go", "now") })
		if err := r.run(t, Success); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"1 <nil> false true 0s", "1 <nil> false false 5s", "1 now true false 7s"},
			calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

// TestAwaitOfNothing: an Await without a signal and a time fails the task, and so does an Await of a revert.
func TestAwaitOfNothing(t *testing.T) {
	r := rigged(t, does("a", func(context.Context) error { return Await("", time.Time{}) }), Options{})
	wantKind(t, r.run(t, Reverted).(*Failure).err, ErrInvalid, "waits for nothing", "a")
	a := gives("a", 1)
	a.Revert = func(context.Context, *Call) (any, error) { return nil, Await("go", time.Time{}) }
	r = rigged(t, Linear("f", a, fails("b")), Options{})
	if err := r.run(t, FailureState); err == nil {
		t.Error("a revert waited")
	}
}

// TestSleepers: tasks that sleep at once take as long as the longest, in the goroutine of the flow alone.
func TestSleepers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []Item
		for i := range 50 {
			all = append(all, Sleep(fmt.Sprint("s", i), time.Duration(i)*time.Second))
		}
		began := time.Now()
		r := rigged(t, Unordered("f", all...), Options{})
		if err := r.run(t, Success); err != nil || time.Since(began) != 49*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// TestManyFlowsOneGoroutine: ten thousand flows wait for a signal each, and one goroutine brings them all to their end.
func TestManyFlowsOneGoroutine(t *testing.T) {
	const n = 10_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	goroutines := runtime.NumGoroutine()
	flows := make([]*Runner, n)
	for i := range flows {
		r, err := New(Linear("f", gives("a", 1), waits("w", "go", 0), gives("b", 2)), Options{ID: fmt.Sprint(i)})
		if err != nil {
			t.Fatal(err)
		}
		rest, err := r.Advance(t.Context())
		if err != nil || rest == nil {
			t.Fatalf("flow %d: %+v, %v", i, rest, err)
		}
		if diff := cmp.Diff(&Rest{Signals: []string{"go"}, Atoms: []string{"w"}}, rest); diff != "" {
			t.Fatalf("flow %d waits (-want +got):\n%s", i, diff)
		}
		flows[i] = r
	}
	if now := runtime.NumGoroutine(); now > goroutines+10 { // the runtime has a few of its own
		t.Errorf("%d goroutines, and %d before", now, goroutines)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n
	t.Logf("%d waiting flows of three tasks: %d bytes each", n, each)
	if each > 20_000 {
		t.Errorf("a waiting flow takes %d bytes", each)
	}
	for i, r := range flows {
		if rest, err := r.Advance(t.Context()); rest == nil || err != nil { // control: nothing has come
			t.Fatalf("flow %d ended without a signal: %v", i, err)
		}
		r.Signal("go", i)
		if rest, err := r.Advance(t.Context()); rest != nil || err != nil {
			t.Fatalf("flow %d: %+v, %v", i, rest, err)
		}
		if v, _ := r.Value("ANSWER"); r.State() != Success || v.Any() != i {
			t.Fatalf("flow %d is %s with %v", i, r.State(), v.Any())
		}
	}
}
