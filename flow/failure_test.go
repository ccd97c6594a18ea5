package flow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/lifecycle"
)

// TestTwoFailuresAtOnce: every revert, ExecuteFailures and the error have both, each with its atom.
func TestTwoFailuresAtOnce(t *testing.T) {
	for _, pool := range []*Pool{nil, NewPool(3)} {
		both := make(chan struct{}, 2)
		bad := func(name string) *Task {
			return does(name, func(context.Context) error {
				if pool != nil { // neither fails before the other has begun
					both <- struct{}{}
					for len(both) < 2 {
						time.Sleep(time.Millisecond)
					}
				}
				return errors.New("fault of " + name)
			})
		}
		seen := map[string]string{}
		a := gives("a", 1)
		a.Revert = func(_ context.Context, c *Call) (any, error) {
			for name, f := range c.Failures {
				seen[name] = f.Message
			}
			return nil, nil
		}
		r := rigged(t, Linear("f", a, Unordered("u", bad("b"), bad("c"))), Options{Workers: pool})
		err := r.run(t, Reverted)
		var all *Failures
		if !errors.As(err, &all) || err.Error() != "b: fault of b; c: fault of c" {
			t.Errorf("got %v", err)
		}
		want := map[string]string{"b": "fault of b", "c": "fault of c"}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("the revert saw (-want +got):\n%s", diff)
		}
		if n := len(r.ExecuteFailures()); n != 2 || len(r.RevertFailures()) != 0 {
			t.Errorf("%d failures of execute, %d of revert", n, len(r.RevertFailures()))
		}
	}
}

// explosive is a value that cannot be encoded.
type explosive struct{}

func (explosive) MarshalJSON() ([]byte, error) { panic("boom") }

// TestPanics: a panic in any function of the user has the effect of an error, and the failure names the function.
func TestPanics(t *testing.T) {
	boom := func() { panic("boom") }
	for _, c := range []struct {
		name string
		make func() Item
		end  lifecycle.State
		word string
	}{
		{"execute", func() Item {
			return Linear("f", gives("a", 1), does("b", func(context.Context) error { boom(); return nil }))
		}, Reverted, "b panicked: boom"},
		{"execute with a time", func() Item {
			b := does("b", func(context.Context) error { boom(); return nil })
			b.Timeout = time.Minute
			return Linear("f", b)
		}, Reverted, "b panicked: boom"},
		{"revert", func() Item {
			a := gives("a", 1)
			a.Revert = func(context.Context, *Call) (any, error) { boom(); return nil, nil }
			return Linear("f", a, fails("b"))
		}, FailureState, "a panicked: boom"},
		{"a hook before", func() Item {
			a := gives("a", 1)
			a.BeforeExecute = func(context.Context, *Call) error { boom(); return nil }
			return Linear("f", a)
		}, Reverted, "a panicked: boom"},
		{"a hook after", func() Item {
			a := gives("a", 1)
			a.AfterExecute = func(context.Context, *Call) error { boom(); return nil }
			return Linear("f", a)
		}, FailureState, "a panicked: boom"},
		{"a decider", func() Item {
			a, b := gives("a", 1), gives("b", 1)
			g := Graph("f")
			if err := errors.Join(g.Add(a, b), g.LinkIf(a, b, func(Values) (bool, error) {
				boom()
				return true, nil
			}, "")); err != nil {
				panic(err)
			}
			return g
		}, FailureState, "a decider panicked: boom"},
		{"a controller that gives a value", func() Item {
			r := Times(1)
			r.Execute = func(context.Context, *Call) (any, error) { boom(); return nil, nil }
			return Linear("f", gives("a", 1)).With(r)
		}, Reverted, "f_retry panicked: boom"},
		{"a controller that decides", func() Item {
			r := Times(1)
			r.Decide = func(context.Context, *Call) (Decision, error) { boom(); return DecideRetry, nil }
			return Linear("f", fails("a")).With(r)
		}, FailureState, "f_retry panicked: boom"},
		{"a controller that pauses", func() Item {
			r := Times(2)
			r.Pause = func(int) time.Duration { boom(); return 0 }
			return Linear("f", fails("a")).With(r)
		}, FailureState, "f_retry panicked: boom"},
		{"Attempts.Until", func() Item {
			a := fails("a")
			a.Attempts = Attempts{Max: 2, Until: func(*Failure) bool { boom(); return true }}
			return Linear("f", a)
		}, Reverted, "Woot"},
		{"a result that is stored", func() Item {
			return Linear("f", gives("a", explosive{}))
		}, Reverted, "a panicked: boom"},
	} {
		for _, pool := range []*Pool{nil, NewPool(2)} {
			t.Run(c.name, func(t *testing.T) {
				r := rigged(t, c.make(), Options{Workers: pool, Storage: newDisk()})
				err := r.Run(t.Context())
				var f *Failure
				if r.State() != c.end || !errors.As(err, &f) || f.Caused(TypePanic) != (c.word != "Woot") ||
					!strings.Contains(err.Error(), c.word) {
					t.Errorf("%s: %v, want %s with %q", r.State(), err, c.end, c.word)
				}
				if c.name == "execute" && !strings.Contains(f.Trace, "failure_test.go") {
					t.Errorf("the trace does not lead here: %s", f.Trace)
				}
			})
		}
	}
}

// TestListenerThatPanics: the panic is logged and changes nothing; the other listeners get every event.
func TestListenerThatPanics(t *testing.T) {
	var log bytes.Buffer
	r := rigged(t, Linear("f", gives("a", 1)), Options{Log: slog.New(slog.NewTextHandler(&log, nil)),
		Listeners: []Listener{func(Event) { panic("boom") }}})
	if err := r.run(t, Success); err != nil {
		t.Fatal(err)
	}
	r.changes(t, "f RUNNING, a RUNNING, a SUCCESS, f SUCCESS")
	if !strings.Contains(log.String(), "boom") {
		t.Errorf("log: %s", log.String())
	}
}

// TestErrorsOfTheFlow: by default the flow ends in FAILURE with nothing reverted, and the next run continues; with
// RevertErrors it is reverted.
func TestErrorsOfTheFlow(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(bad *bool) Item
		kind error
	}{
		{"a value that was promised is not there", func(bad *bool) Item {
			a := &Task{Name: "a", Result: Result{Keys: []string{"x"}},
				Execute: func(context.Context, *Call) (any, error) { return map[string]int{"x": 1}, nil }}
			if *bad {
				a.Execute = func(context.Context, *Call) (any, error) { return map[string]int{}, nil }
			}
			return Linear("f", a, &Task{Name: "b", Args: Args{Requires: []string{"x"}}})
		}, ErrNotFound},
		{"a hook after", func(bad *bool) Item {
			b := gives("b", 1)
			b.AfterExecute = func(context.Context, *Call) error {
				if *bad {
					return errWoot
				}
				return nil
			}
			return Linear("f", gives("a", 1), b)
		}, errWoot},
		{"a decider", func(bad *bool) Item {
			a, b := gives("a", 1), gives("b", 1)
			g := Graph("f")
			if err := errors.Join(g.Add(a, b), g.LinkIf(a, b, func(Values) (bool, error) {
				if *bad {
					return false, errWoot
				}
				return true, nil
			}, DepthAtom)); err != nil {
				panic(err)
			}
			return g
		}, errWoot},
		{"a decision that does not exist", func(bad *bool) Item {
			r := Times(1)
			r.Decide = func(context.Context, *Call) (Decision, error) { return "MAYBE", nil }
			return Linear("f", gives("a", 1), fails("b")).With(r)
		}, ErrInvalid},
	} {
		for _, revert := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, " ", revert), func(t *testing.T) {
				bad := true
				r := rigged(t, c.make(&bad), Options{RevertErrors: revert})
				err := r.Run(t.Context())
				rec, _ := r.Atom("a")
				want, state := FailureState, Success
				if revert {
					want, state = Reverted, Reverted
				}
				if r.State() != want || rec.State != state || !errors.Is(err, c.kind) {
					t.Errorf("%s with a %s: %v; %s", r.State(), rec.State, err, r.heard)
				}
				if bad = false; !revert && (c.kind == errWoot) {
					if err := r.run(t, Success); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// TestCorruptStorage: an impossible state in the storage is found when the flow continues from it. The flow ends in
// FAILURE with a StateError, or does what can still be done. It never ends in a wrong SUCCESS or REVERTED.
func TestCorruptStorage(t *testing.T) {
	type corrupt map[string]lifecycle.State
	for _, c := range []struct {
		name   string
		states corrupt
		intent Intention
		want   string
	}{
		{"a task in a state that tasks do not have", corrupt{"a": Retrying}, Execute, "FAILURE"},
		{"a task in an unknown state", corrupt{"a": "ELSEWHERE"}, Execute, "FAILURE"},
		{"a controller in an unknown state", corrupt{"f_retry": "ELSEWHERE"}, Execute, "FAILURE"},
		{"a task that is done under a controller that reverts", corrupt{"f_retry": Reverting, "a": Success, "b": Success}, Execute, "FAILURE"},
		{"a task reverts and is to be executed", corrupt{"f_retry": Success, "a": Reverting, "b": Success}, Execute,
			"FAILURE"},
		{"control: nothing is wrong", corrupt{}, Execute, "SUCCESS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := newDisk()
			disk.live = true
			item := func() Item { return Linear("f", gives("a", 1), gives("b", 1)).With(Times(1)) }
			seed := rigged(t, item(), Options{Storage: disk})
			if err := seed.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			disk.Change(func(s *Snapshot) {
				s.State = Running
				for i := range s.Atoms {
					if state, there := c.states[s.Atoms[i].Name]; there {
						s.Atoms[i].State, s.Atoms[i].Intention = state, c.intent
					}
				}
			})
			r := rigged(t, item(), Options{Storage: disk})
			err := r.Run(t.Context())
			if got := string(r.State()); got != c.want {
				t.Errorf("the flow ended %s: %v; %s", got, err, r.heard)
			}
			var state *StateError
			if c.want == "FAILURE" && (!errors.Is(err, ErrState) || !errors.As(err, &state) || state.Name == "") {
				t.Errorf("the error is %v, want the evidence", err)
			}
		})
	}
}

// TestResultThatIsNoJSON: it fails the task if results are stored, and is allowed in memory.
func TestResultThatIsNoJSON(t *testing.T) {
	for _, v := range []any{make(chan int), func() {}, map[string]any{"x": make(chan int)}} {
		r := rigged(t, Linear("f", gives("z", 1), gives("a", v)), Options{Storage: newDisk()})
		err := r.run(t, Reverted)
		if !errors.Is(err, ErrUnstored) {
			t.Errorf("%T: got %v", v, err)
		}
		r.atoms(t, "z REVERTED, a REVERTED")
		r = rigged(t, Linear("f", gives("a", v)), Options{}) // control
		if err := r.run(t, Success); err != nil {
			t.Error(err)
		}
	}
}

// TestNeverResolve: nothing is reverted or retried.
func TestNeverResolve(t *testing.T) {
	for _, never := range []bool{true, false} {
		r := rigged(t, Linear("f", gives("a", 1), failsTimes("b", 1)).With(Times(2)), Options{NeverResolve: never})
		err := r.Run(t.Context())
		if never && (r.State() != FailureState || !errors.Is(err, errWoot)) || !never &&
			(r.State() != Success || err != nil) {
			t.Errorf("never %v: %s, %v", never, r.State(), err)
		}
		if never {
			r.atoms(t, "f_retry SUCCESS, a SUCCESS, b FAILURE")
		}
	}
}

// TestDeferReverts: atoms before the part of a controller that decides REVERT are reverted only with the option.
func TestDeferReverts(t *testing.T) {
	for deferred, want := range map[bool]string{
		false: "a SUCCESS, inner_retry REVERTED, b REVERTED",
		true:  "a REVERTED, inner_retry REVERTED, b REVERTED",
	} {
		r := rigged(t, Linear("f", gives("a", 1), Linear("inner", fails("b")).With(Times(1))),
			Options{DeferReverts: deferred})
		if err := r.run(t, Reverted); !errors.Is(err, errWoot) {
			t.Error(err)
		}
		r.atoms(t, want)
	}
}

// TestControllerPauses: between two attempts the other parts of the flow continue, and Advance returns.
func TestControllerPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, pool := range []*Pool{nil, NewPool(1)} {
			retry := Times(3)
			retry.Pause = func(n int) time.Duration { return time.Duration(n) * 10 * time.Second }
			began := time.Now()
			var other time.Duration
			part := Linear("part", failsTimes("a", 2)).With(retry)
			line := Linear("line", Sleep("s", time.Second),
				does("b", func(context.Context) error { other = time.Since(began); return nil }))
			r := rigged(t, Unordered("f", part, line), Options{Workers: pool, Storage: newDisk()})
			if err := r.run(t, Success); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != 30*time.Second || other != time.Second {
				t.Errorf("took %s, and the other line %s; want 30 s (pauses of 10 and 20) and 1 s", took, other)
			}
		}
	})
}

// TestMaxAttempts ends controllers and tasks that would try indefinitely.
func TestMaxAttempts(t *testing.T) {
	n := 0
	forever := &Retry{Execute: func(_ context.Context, c *Call) (any, error) { return len(c.History), nil },
		Decide: func(context.Context, *Call) (Decision, error) { return DecideRetry, nil }}
	r := rigged(t, Linear("f", does("a", func(context.Context) error { n++; return errWoot })).With(forever),
		Options{MaxAttempts: 7})
	if err := r.run(t, Reverted); n != 7 || !errors.Is(err, errWoot) {
		t.Errorf("executed %d times: %v", n, err)
	}
	synctest.Test(t, func(t *testing.T) {
		n := 0
		a := does("a", func(context.Context) error { n++; return errWoot })
		a.Attempts = Attempts{Max: 1 << 30}
		r := rigged(t, Linear("f", a), Options{MaxAttempts: 7})
		if err := r.run(t, Reverted); n != 7 || err == nil {
			t.Errorf("executed %d times: %v", n, err)
		}
	})
}

// TestFailureOfErrors keeps the chain within its bounds.
func TestFailureOfErrors(t *testing.T) {
	deep := error(errWoot)
	for i := range 100 {
		deep = fmt.Errorf("%d: %w", i, deep)
	}
	f, depth := FailureOf(deep), 0
	for ; len(f.Causes) > 0; f = f.Causes[0] {
		depth++
	}
	if depth != deepestCause {
		t.Errorf("%d causes deep, want %d", depth, deepestCause)
	}
	many := make([]error, 100)
	for i := range many {
		many[i] = errWoot
	}
	if n := len(FailureOf(errors.Join(many...)).Causes); n != mostCauses {
		t.Errorf("%d causes, want %d", n, mostCauses)
	}
	if got := FailureOf(errors.New(strings.Repeat("ä", longestMessage))).Message; len(got) > longestMessage+4 ||
		!strings.HasSuffix(got, "ä ...") {
		t.Errorf("%d bytes of message", len(got))
	}
	if f := FailureOf(fmt.Errorf("ask: %w", context.DeadlineExceeded)); f.Type != TypeTimeout ||
		!errors.Is(f, context.DeadlineExceeded) {
		t.Errorf("got %+v", f)
	}
}
