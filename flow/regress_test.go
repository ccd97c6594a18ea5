package flow

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// Failures that random simulations found, each reduced to a small flow.

func doing(name string, do func() (any, error)) *Task {
	return &Task{Name: name, Execute: func(context.Context, *Call) (any, error) { return do() }}
}

func fine(name string, needs ...string) *Task {
	return &Task{Name: name, Args: Args{Requires: needs}, Execute: func(context.Context, *Call) (any, error) {
		return 5, nil
	}}
}

// preset is storage in which a flow was left.
func preset(state lifecycle.State, records ...Record) *Memory {
	m := NewMemory()
	m.Change(func(s *Snapshot) { s.State, s.Atoms = state, records })
	return m
}

func left(name string, state lifecycle.State, intention Intention) Record {
	return Record{Name: name, Kind: KindTask, Version: "1.0", State: state, Intention: intention, Attempts: 1}
}

func runner(t *testing.T, item Item, o Options) *Runner {
	t.Helper()
	r, err := New(item, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A revert that fails after a reset can be tried once more.
func TestRevertIsTriedOnceMoreAfterReset(t *testing.T) {
	stubborn := true
	a := &Task{Name: "a", Revert: func(context.Context, *Call) (any, error) {
		if stubborn {
			return nil, errors.New("stays")
		}
		return nil, nil
	}}
	r := runner(t, Linear("f", a, doing("b", func() (any, error) { return nil, errors.New("fails") })), Options{})
	if err := r.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = r.Run(t.Context())
	stubborn = false
	if _ = r.Run(t.Context()); r.State() != Reverted {
		t.Errorf("the flow is %s, want REVERTED", r.State())
	}
}

// brittle is storage that fails once, at its n-th commit.
type brittle struct {
	*Memory
	n int
}

func (b *brittle) Save(ctx context.Context, c *Commit) error {
	if b.n--; b.n == 0 {
		return errors.New("the storage is away")
	}
	return b.Memory.Save(ctx, c)
}

// When the storage fails, tasks queued in the pool never start, and outcomes of active tasks are not taken for outcomes
// of the next run.
func TestTasksLeftBehindAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slowly, later atomic.Int32
		slow := doing("b", func() (any, error) {
			n := int(slowly.Add(1))
			time.Sleep(time.Duration(n) * time.Hour)
			return n, nil
		})
		brief := doing("a", func() (any, error) { time.Sleep(time.Minute); return nil, nil })
		next := doing("c", func() (any, error) { time.Sleep(9 * time.Hour); return nil, nil })
		queued := doing("d", func() (any, error) { later.Add(1); return nil, nil })
		r := runner(t, Unordered("f", brief, slow, next, queued),
			Options{Workers: NewPool(2), Storage: &brittle{NewMemory(), 3}})
		if err := r.Run(t.Context()); err == nil {
			t.Fatal("the storage did not fail")
		}
		synctest.Wait() // b and c have begun, d has not
		if later.Load() > 0 {
			t.Error("a task begins when the run is over")
		}
		r.o.Workers = NewPool(4)
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if b, _ := r.Atom("b"); b.Result == nil || b.Result.Any() != 2 {
			t.Errorf("the result of b is %v, want that of its second execution", b.Result)
		}
		if n := later.Load(); n != 1 {
			t.Errorf("d was executed %d times, want once", n)
		}
	})
}

// lacking is a flow of which b lacks what a promised, and c does not.
func lacking() *Flow {
	a := &Task{Name: "a", Result: Result{Keys: []string{"v"}}, Execute: func(context.Context, *Call) (any, error) {
		return map[string]any{}, nil
	}}
	return Linear("f", a, Unordered("u", fine("b", "v"), fine("c")))
}

// Moves that were stored with that of a task that cannot start are undone: they were not reported.
func TestUnreportedMovesAreUndone(t *testing.T) {
	var reported []lifecycle.State
	r := runner(t, lacking(), Options{Listeners: []Listener{func(e Event) {
		if e.Atom == "c" {
			reported = append(reported, e.New)
		}
	}}})
	_ = r.Run(t.Context())
	if c, _ := r.Atom("c"); r.State() != FailureState || c.State != Pending || len(reported) > 0 {
		t.Errorf("the flow is %s, c is %s, reported: %v", r.State(), c.State, reported)
	}
}

// The failure of a task that cannot start is reported although other tasks started with it.
func TestFailureToBeginIsReported(t *testing.T) {
	var reported []lifecycle.State
	r := runner(t, lacking(), Options{RevertErrors: true, Listeners: []Listener{func(e Event) {
		if e.Atom == "b" && e.Within == "" {
			reported = append(reported, e.New)
		}
	}}})
	_ = r.Run(t.Context())
	if want := []lifecycle.State{Running, FailureState, Reverting, Reverted}; !slices.Equal(reported, want) {
		t.Errorf("reported: %v, want %v", reported, want)
	}
}

// A task that an earlier run may have started does not return to PENDING on suspension: it would never be reverted.
func TestSuspensionKeepsWhatMayHaveBegun(t *testing.T) {
	var r *Runner
	a := doing("a", func() (any, error) { r.Suspend(); time.Sleep(time.Hour); return nil, nil })
	store := preset(Running, left("a", Running, Execute), left("b", Running, Execute), left("c", Pending, Execute))
	synctest.Test(t, func(t *testing.T) {
		r = runner(t, Unordered("f", a, fine("b"), fine("c")), Options{Workers: NewPool(1), Storage: store})
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		b, _ := r.Atom("b")
		if b.State == Pending {
			t.Error("b was RUNNING at the crash, and is PENDING")
		}
	})
}

// A request to suspend that a listener has during a reset is not for the next run.
func TestResetLeavesNoRequest(t *testing.T) {
	var r *Runner
	r = runner(t, Linear("f", fine("a")), Options{Listeners: []Listener{func(e Event) {
		if e.New == Pending {
			r.Suspend()
		}
	}}})
	_ = r.Run(t.Context())
	if err := r.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _ = r.Run(t.Context()); r.State() != Success {
		t.Errorf("the flow is %s, want SUCCESS", r.State())
	}
}

// An atom that is examined together with an ignored atom before it is executed once.
func TestAtomAfterIgnoredRunsOnce(t *testing.T) {
	calls := 0
	f, a, b := Graph("f"), fine("a"), fine("b")
	c := doing("c", func() (any, error) { calls++; return nil, nil })
	err := f.Add(a, b, c)
	err = errors.Join(err, f.LinkIf(a, b, func(Values) (bool, error) { return false, nil }, DepthAtom), f.Link(b, c))
	if err != nil {
		t.Fatal(err)
	}
	r := runner(t, f, Options{Storage: preset(Running, left("a", Success, Execute), left("b", Pending, Execute),
		left("c", Pending, Execute))})
	if err := r.Run(t.Context()); err != nil || calls != 1 {
		t.Errorf("c was executed %d times, want once (%v)", calls, err)
	}
}

// A pause before an attempt that cannot come is not waited for.
func TestNoWaitForImpossible(t *testing.T) {
	again := left("f_retry", Success, ToRetry)
	again.Kind, again.History, again.Due = KindRetry, History{{Value: ValueOf(1)}}, time.Now().Add(time.Hour)
	wreck := left("a", RevertFailure, ToRevert)
	wreck.RevertFailure = FailureOf(errors.New("stays"))
	r := runner(t, Linear("f", fine("a")).With(Times(3)), Options{Storage: preset(Running, again, wreck)})
	if rest, err := r.Advance(t.Context()); rest != nil || err == nil || r.State() != FailureState {
		t.Errorf("the flow is %s with %v and waits for %+v, want FAILURE", r.State(), err, rest)
	}
}

// A flow is REVERTED although an atom after two parts is PENDING, if one part is reverted and the other is retried
// later. The control is an atom that could be executed and was not: only damaged storage has it.
func TestAtomAfterRevertedPartIsNotMissed(t *testing.T) {
	tries := 0
	twice := doing("b", func() (any, error) {
		if tries++; tries == 1 {
			return nil, errors.New("not the first time")
		}
		return nil, nil
	})
	never := doing("a", func() (any, error) { return nil, errors.New("never") })
	flow := func() Item {
		parts := Unordered("parts", Linear("given-up", never).With(Times(1)), Linear("again", twice).With(Times(2)))
		return Linear("f", parts, fine("last"))
	}
	r := runner(t, flow(), Options{})
	if err := r.Run(t.Context()); err == nil || r.State() != Reverted || tries != 2 {
		t.Errorf("the flow is %s after %d tries of b: %v", r.State(), tries, err)
	}
	odd := preset(Suspended, left("first", Success, Execute), left("second", Reverted, Execute))
	r = runner(t, Linear("f", fine("first"), fine("second")), Options{Storage: odd})
	var refused *StateError
	if err := r.Run(t.Context()); !errors.As(err, &refused) && r.State() != FailureState {
		t.Errorf("control: the flow is %s: %v", r.State(), err)
	}
}
