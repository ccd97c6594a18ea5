package flow

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Cases from a hostile review. Each test fails without its guard.

var errHostile = errors.New("fails")

// wide makes n tasks.
func wide(n int, one func(name string) *Task) []Item {
	all := make([]Item, n)
	for i := range all {
		all[i] = one(fmt.Sprint("t", i))
	}
	return all
}

// TestManyFailuresAreCheap lets thousands fail and be reverted together. With a map of all failures for each revert, or
// a walk over the flow for each failure, this takes a minute and gigabytes.
func TestManyFailuresAreCheap(t *testing.T) {
	const n = 3000
	saw := map[int]int{}
	fails := func(name string) *Task {
		return &Task{Name: name, Execute: func(context.Context, *Call) (any, error) { return nil, errHostile },
			Revert: func(_ context.Context, c *Call) (any, error) { saw[len(c.Failures)]++; return nil, nil }}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := runner(t, Unordered("f", wide(n, fails)...), Options{})
	if err := r.Run(t.Context()); !errors.Is(err, errHostile) || r.State() != Reverted {
		t.Fatalf("the flow is %s with %v", r.State(), err)
	}
	runtime.ReadMemStats(&after)
	if saw[n] != n {
		t.Errorf("the reverts saw so many failures: %v", saw)
	}
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 100 {
		t.Errorf("%d failures took %d MiB", n, used)
	}
}

// TestOneDecisionForMany: of hundreds of simultaneous failures each is in the history, and the decision about their
// attempt does not apply to the next attempt.
func TestOneDecisionForMany(t *testing.T) {
	const n = 300
	left := n
	fails := func(name string) *Task {
		return doing(name, func() (any, error) {
			if left--; left >= 0 {
				return nil, errHostile
			}
			return nil, nil
		})
	}
	r := runner(t, Unordered("f", wide(n, fails)...).With(Times(2)), Options{})
	// the intentions of the first attempt do not apply to the second
	if err := r.Run(t.Context()); err != nil || left != -n {
		t.Errorf("the flow is %s with %v, and %d executions are left", r.State(), err, left)
	}
	if retry, _ := r.Atom("f_retry"); len(retry.History) != 2 || len(retry.History[0].Failures) != n {
		t.Errorf("the history is of %d attempts", len(retry.History))
	}
}

// TestRevertedAgain: a second attempt that fails is reverted like the first, although the first was.
func TestRevertedAgain(t *testing.T) {
	reverts := 0
	fine := &Task{Name: "a", Revert: func(context.Context, *Call) (any, error) { reverts++; return nil, nil }}
	r := runner(t, Linear("f", fine, doing("b", func() (any, error) { return nil, errHostile })).With(Times(3)),
		Options{})
	if _ = r.Run(t.Context()); reverts != 3 || r.State() != Reverted {
		t.Errorf("reverted %d times, and the flow is %s", reverts, r.State())
	}
}

// refusing is storage that refuses from its n-th commit on.
type refusing struct {
	*Memory
	n int
}

func (s *refusing) Save(ctx context.Context, c *Commit) error {
	if s.n--; s.n <= 0 {
		return errors.New("refused")
	}
	return s.Memory.Save(ctx, c)
}

// TestRefusedCommitEndsTasks: a worker that loses the flow ends the contexts of the active tasks.
func TestRefusedCommitEndsTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var why error
		long := &Task{Name: "long", Execute: func(ctx context.Context, _ *Call) (any, error) {
			select {
			case <-ctx.Done():
				why = ctx.Err()
			case <-time.After(time.Hour):
			}
			return nil, why
		}}
		r := runner(t, Unordered("f", long, fine("brief")),
			Options{Workers: NewPool(2), Storage: &refusing{NewMemory(), 3}})
		if err := r.Run(t.Context()); err == nil {
			t.Fatal("nothing was refused")
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if why == nil {
			t.Error("the task went on for an hour as if the flow were still ours")
		}
	})
}

// TestCancelIsNoFault: the context of a run ends while a controller decides; the next run of the same Runner asks again
// instead of failing.
func TestCancelIsNoFault(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	retry := Times(2)
	decide := retry.Decide
	retry.Decide = func(ctx context.Context, c *Call) (Decision, error) {
		if asked++; asked == 1 {
			cancel()
			return "", ctx.Err()
		}
		return decide(ctx, c)
	}
	n := 0
	r := runner(t, Linear("f", doing("a", func() (any, error) {
		if n++; n == 1 {
			return nil, errHostile
		}
		return nil, nil
	})).With(retry), Options{Storage: NewMemory()})
	if err := r.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if err := r.Run(t.Context()); err != nil || r.State() != Success {
		t.Errorf("the flow is %s with %v, want SUCCESS", r.State(), err)
	}
}

// TestCancelledIsNotAskedAbout: a task that merely waited when a sibling failed has a controller that would revert
// everything. It is not asked, after a crash as little as before.
func TestCancelledIsNotAskedAbout(t *testing.T) {
	f := Unordered("f", Linear("in", Wait("w", "never", 0)).With(AlwaysRevertAll()), fine("a")).With(Times(2))
	outer, inner := left("f_retry", Success, ToRetry), left("in_retry", Success, ToRevert)
	outer.Kind, inner.Kind = KindRetry, KindRetry
	outer.History = History{{Value: ValueOf(1), Failures: []FailedAtom{{"a", FailureOf(errHostile)}}}}
	inner.History = History{{}}
	a, w := left("a", FailureState, ToRevert), left("w", FailureState, ToRevert)
	a.Failure, w.Failure = FailureOf(errHostile), newFailure(TypeCancelled, "w was waiting when something else failed")
	r := runner(t, f, Options{Storage: preset(Running, outer, inner, a, w)})
	rest, err := r.Advance(t.Context())
	if rest == nil || r.State() != Running {
		t.Fatalf("the flow is %s with %v, want one that waits in its second attempt", r.State(), err)
	}
}

// TestSecondAttemptWaitsItsTime: the pause between two attempts is not taken for the time until which the task waited.
func TestSecondAttemptWaitsItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := Wait("w", "go", time.Hour)
		w.Attempts = Attempts{Max: 2, First: time.Minute, Jitter: -1}
		r := runner(t, Linear("f", w), Options{})
		go func() {
			time.Sleep(90 * time.Minute) // in the second attempt
			r.Signal("go", "on")
		}()
		if err := r.Run(t.Context()); err != nil {
			t.Errorf("got %v", err)
		}
	})
}

// rude is an error whose methods panic.
type rude struct{ text *string }

func (r *rude) Error() string { return *r.text }

// TestRudeErrors: methods of errors are code of the user, and a nil pointer in one ends no program.
func TestRudeErrors(t *testing.T) {
	var none *Failure
	for name, err := range map[string]error{"nil failure": none, "panics": (*rude)(nil),
		"wrapped": errors.Join(&rude{})} {
		for _, pool := range []*Pool{nil, NewPool(1)} {
			r := runner(t, Linear("f", doing("a", func() (any, error) { return nil, err })), Options{Workers: pool})
			if got := r.Run(t.Context()); r.State() != Reverted || got == nil || got.Error() == "" {
				t.Errorf("%s: the flow is %s", name, r.State())
			}
		}
		retry := Times(2)
		retry.Decide = func(context.Context, *Call) (Decision, error) { return "", err }
		r := runner(t, Linear("f", doing("a", func() (any, error) { return nil, errHostile })).With(retry), Options{})
		if _ = r.Run(t.Context()); r.State() != FailureState {
			t.Errorf("%s: the flow is %s", name, r.State())
		}
		g, a, b := Graph("g"), fine("a"), fine("b")
		if e := errors.Join(g.Add(a, b), g.LinkIf(a, b, func(Values) (bool, error) {
			return false, err
		}, "")); e != nil {
			t.Fatal(e)
		}
		r = runner(t, g, Options{})
		if _ = r.Run(t.Context()); r.State() != FailureState {
			t.Errorf("%s: the flow is %s", name, r.State())
		}
	}
}

// TestGoexit: a task that ends its goroutine fails, and its position in the pool is free again.
func TestGoexit(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Hour} {
		a := doing("a", func() (any, error) { runtime.Goexit(); return nil, nil })
		a.Timeout = limit
		r := runner(t, Unordered("f", a, fine("b")), Options{Workers: NewPool(1)})
		err := r.Run(t.Context())
		if f, ok := err.(*Failure); !ok || f.Type != TypePanic || r.State() != Reverted {
			t.Errorf("the flow is %s with %v", r.State(), err)
		}
	}
}

// TestBusyPoolDoesNotGrow keeps a pool busy, with always some in its queue.
func TestBusyPoolDoesNotGrow(t *testing.T) {
	p := NewPool(1)
	step, done := make(chan struct{}), make(chan struct{})
	const n = 5000
	one := func() { <-step; done <- struct{}{} }
	p.submit(one)
	p.submit(one)
	for range n {
		p.submit(one)
		step <- struct{}{}
		<-done
	}
	p.mu.Lock()
	if c := cap(p.queue); c > 100 {
		t.Errorf("a queue of 2 has a capacity of %d", c)
	}
	p.mu.Unlock()
	for range 2 {
		step <- struct{}{}
		<-done
	}
}

// TestLimitIsReported: Options.MaxAttempts ends a controller that would retry indefinitely, and the error names the
// limit; the controller above decides for itself.
func TestLimitIsReported(t *testing.T) {
	forever := func() *Retry {
		r := Times(1)
		r.Decide = func(context.Context, *Call) (Decision, error) { return DecideRetry, nil }
		return r
	}
	r := runner(t, Linear("f", doing("a", func() (any, error) { return nil, errHostile })).With(forever()),
		Options{MaxAttempts: 4})
	err := r.Run(t.Context())
	if !errors.Is(err, ErrLimit) || !errors.Is(err, errHostile) || r.State() != Reverted {
		t.Errorf("the flow is %s with %v", r.State(), err)
	}
	n := 0
	r = runner(t, Linear("f", Linear("in", doing("a", func() (any, error) {
		if n++; n <= 4 {
			return nil, errHostile
		}
		return nil, nil
	})).With(forever())).With(Times(2)), Options{MaxAttempts: 4})
	if err := r.Run(t.Context()); err != nil {
		t.Errorf("the second attempt of the controller above succeeds, and the error is %v", err)
	}
	r = runner(t, Linear("f", doing("a", func() (any, error) { return nil, errHostile })).With(Times(4)),
		Options{MaxAttempts: 4})
	if err := r.Run(t.Context()); errors.Is(err, ErrLimit) {
		t.Errorf("a controller that decided to revert: %v", err)
	}
}

// TestKeysDiffer: the atom b of the flow f/a and the atom a/b of f are not the same work.
func TestKeysDiffer(t *testing.T) {
	keys := map[string]bool{}
	for _, w := range [][2]string{{"f", "a/b"}, {"f/a", "b"}, {"f%2Fa", "b"}} {
		a := &Task{Name: w[1], Execute: func(_ context.Context, c *Call) (any, error) {
			keys[c.Key()] = true
			return nil, nil
		}}
		if err := runner(t, a, Options{ID: w[0]}).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(keys) != 3 {
		t.Errorf("the keys are %v", keys)
	}
}

// TestRevertIsNotLeftOutSilently: a task that executed and failed with NotFound is reverted, or the flow returns why
// not.
func TestRevertIsNotLeftOutSilently(t *testing.T) {
	promises := &Task{Name: "p", Result: Result{Keys: []string{"v"}},
		Execute: func(context.Context, *Call) (any, error) { return map[string]any{}, nil }}
	a := &Task{Name: "a", Undo: &Args{Requires: []string{"v"}},
		Execute: func(_ context.Context, c *Call) (any, error) { return nil, c.Into("other", new(int)) },
		Revert:  func(context.Context, *Call) (any, error) { return nil, nil }}
	r := runner(t, Linear("f", promises, a), Options{})
	if _ = r.Run(t.Context()); r.State() != FailureState {
		t.Errorf("the flow is %s although the revert of a could not be called", r.State())
	}
}

// TestLoadThatFailsIsRepeated: a load is repeated if its commit failed.
func TestLoadThatFailsIsRepeated(t *testing.T) {
	var reported []string
	store := &brittle{preset(Running, left("a", Pending, Execute)), 1}
	r := runner(t, Linear("f", fine("a")), Options{Storage: store, Listeners: []Listener{func(e Event) {
		if e.Atom == "" {
			reported = append(reported, string(e.New))
		}
	}}})
	if err := r.Load(t.Context()); err == nil {
		t.Fatal("the storage did not fail")
	}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"RESUMING", "SUSPENDED", "RUNNING", "SUCCESS"}; !slices.Equal(reported, want) {
		t.Errorf("reported: %v, want %v", reported, want)
	}
}

// TestInjectedIsStored: a value that could not be stored does not exist.
func TestInjectedIsStored(t *testing.T) {
	r := runner(t, Linear("f", fine("a")), Options{Storage: &brittle{NewMemory(), 1}})
	if err := r.Inject(t.Context(), Values{"v": 1}); err == nil {
		t.Fatal("the storage did not fail")
	}
	if v, there := r.Value("v"); there {
		t.Errorf("v is %v, and is not stored", v.Any())
	}
}

// TestSuspensionReportsInOrder: tasks that return to PENDING are reported in the order of the flow.
func TestSuspensionReportsInOrder(t *testing.T) {
	var r *Runner
	var reported []string
	first := doing("first", func() (any, error) { r.Suspend(); return nil, nil })
	first.Priority = 1
	items := append([]Item{first}, wide(20, func(name string) *Task { return fine(name) })...)
	synctest.Test(t, func(t *testing.T) {
		r = runner(t, Unordered("f", items...), Options{Workers: NewPool(1), Listeners: []Listener{func(e Event) {
			if e.New == Pending {
				reported = append(reported, e.Atom)
			}
		}}})
		held := make(chan struct{})
		r.o.Workers.submit(func() { <-held }) // nothing begins
		go func() {
			synctest.Wait()
			r.Suspend()
			synctest.Wait()
			close(held)
		}()
		_ = r.Run(t.Context())
	})
	var want []string
	for _, item := range items {
		want = append(want, item.Title())
	}
	if !slices.Equal(reported, want) {
		t.Errorf("reported: %v", reported)
	}
}

// TestPausesDoNotOverflow: no pause is negative or zero.
func TestPausesDoNotOverflow(t *testing.T) {
	for _, a := range []Attempts{{First: time.Second, Longest: math.MaxInt64},
		{First: math.MaxInt64, Longest: math.MaxInt64, Jitter: 1}} {
		for _, n := range []int{1, 10, 34, 35, 64, 1000} {
			if got := a.pause(n, 0.999); got <= 0 || n > 1 && got < a.pause(1, 0.999) {
				t.Errorf("%+v after %d: %s", a, n, got)
			}
		}
	}
}

// TestForEachWithoutJSON tries each value once, as it does others.
func TestForEachWithoutJSON(t *testing.T) {
	n := 0
	r := runner(t, Linear("f", doing("a", func() (any, error) {
		n++
		return nil, errHostile
	})).With(ForEach(math.NaN(), math.Inf(1), make(chan int))), Options{})
	if _ = r.Run(t.Context()); n != 3 {
		t.Errorf("executed %d times, want 3", n)
	}
}

// TestLateProgress: progress is ignored after the end of the task.
func TestLateProgress(t *testing.T) {
	var late *Call
	a := &Task{Name: "a", Execute: func(_ context.Context, c *Call) (any, error) { late = c; return nil, nil }}
	b := doing("b", func() (any, error) { late.Progress(0.5); return nil, nil })
	for _, pool := range []*Pool{nil, NewPool(1)} {
		r := runner(t, Linear("f", a, b), Options{Workers: pool})
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if rec, _ := r.Atom("a"); rec.Progress != 1 {
			t.Errorf("a is %s with progress %v", rec.State, rec.Progress)
		}
	}
}

// TestAwaitBeyondTime: a time that has no form in storage fails the task that awaits it, and not the storage.
func TestAwaitBeyondTime(t *testing.T) {
	r := runner(t, Linear("f", doing("a", func() (any, error) {
		return nil, Await("", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))
	})), Options{})
	if rest, err := r.Advance(t.Context()); rest != nil || !errors.Is(err, ErrInvalid) {
		t.Errorf("got %+v, %v", rest, err)
	}
}

// TestSignalsReachTheirTasks: each signal reaches the task that waits for it, whether signals come one by one, at once,
// before the task waits, or while the flow is suspended.
func TestSignalsReachTheirTasks(t *testing.T) {
	const n = 12
	items := make([]Item, n)
	for i := range items {
		items[i] = Wait(fmt.Sprint("t", i), fmt.Sprint("s", i/2), 0) // two for each
	}
	r := runner(t, Unordered("f", items...), Options{Storage: NewMemory()})
	send := func(name string, v int) {
		if err := r.Signal(name, v); err != nil {
			t.Error(err)
		}
	}
	send("s0", 0)
	send("s0", 1)
	for i := range n / 2 {
		rest, err := r.Advance(t.Context())
		if err != nil || rest == nil || len(rest.Atoms) != n-2*(i+1) {
			t.Fatalf("after %d signals: %+v, %v", i+1, rest, err)
		}
		if i == 2 {
			r.Suspend()
			if err := r.Run(t.Context()); err != nil || r.State() != Suspended {
				t.Fatalf("the flow is %s with %v", r.State(), err)
			}
		}
		send(fmt.Sprint("s", i+1), i)
		if send(fmt.Sprint("s", i+1), -i); i == n/2-2 {
			break
		}
	}
	if err := r.Run(t.Context()); err != nil || r.State() != Success {
		t.Errorf("the flow is %s with %v", r.State(), err)
	}
}
