package flow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// trace records the executions and reverts of a flow.
type trace struct {
	mu    sync.Mutex // guards the rest
	open  map[string]bool
	late  []string // begun after the request
	asked bool
	runs  map[string]int
}

func (l *trace) begin(name string, undo bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked {
		l.late = append(l.late, fmt.Sprintf("%s, revert %t", name, undo))
	}
	if l.open[name] = !undo; !undo {
		l.runs[name]++
	}
}

func (l *trace) left() (names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, open := range l.open {
		if open {
			names = append(names, name)
		}
	}
	return names
}

func (l *trace) task(name string, fails int) *Task {
	return &Task{
		Name: name,
		Execute: func(ctx context.Context, _ *Call) (any, error) {
			l.begin(name, false)
			if l.count(name) <= fails {
				return nil, errWoot
			}
			return name, ctx.Err()
		},
		Revert: func(ctx context.Context, _ *Call) (any, error) {
			l.begin(name, true)
			return nil, ctx.Err()
		},
	}
}

func (l *trace) count(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[name]
}

// flow makes a flow with sequential and concurrent tasks, a waiting task, a task with Attempts, a part that is retried,
// and with bad a last task that fails.
func (l *trace) flow(bad bool) Item {
	again := l.task("again", 1)
	again.Attempts = Attempts{Max: 3, First: time.Second}
	last := l.task("last", 0)
	if bad {
		last = l.task("last", 1000)
	}
	part := Linear("part", l.task("p1", 0), l.task("p2", 2)).With(Times(3))
	part.Retry.Pause = func(int) time.Duration { return time.Second }
	return Linear("f", l.task("a", 0), Unordered("u", l.task("b", 0), Wait("w", "go", 0), again,
		Sleep("nap", time.Second)), part, last)
}

// TestCancelAtEveryEvent ends a flow at each event of its listeners, with each Ending, alone and after a request to
// suspend. All executed tasks are reverted, or the flow can continue to its end.
func TestCancelAtEveryEvent(t *testing.T) {
	for _, workers := range []int{0, 3} {
		for _, bad := range []bool{false, true} {
			for _, e := range []Ending{{}, {Now: true}, {Keep: true}, {Keep: true, Now: true}} {
				for _, paused := range []bool{false, true} {
					t.Run(fmt.Sprintf("%d workers, bad %t, keep %t, now %t, paused %t", workers, bad, e.Keep, e.Now, paused), func(t *testing.T) {
						tried := 0
						for at, more := 1, true; more && at < 200; at++ {
							synctest.Test(t, func(t *testing.T) { more = cancelAt(t, at, workers, bad, e, paused) })
							tried++
						}
						if tried < 30 {
							t.Errorf("only %d events were tried", tried)
						}
					})
				}
			}
		}
	}
}

// cancelAt asks at one event. It reports whether the flow came to it.
func cancelAt(t *testing.T, at, workers int, bad bool, e Ending, paused bool) (came bool) {
	l := &trace{open: map[string]bool{}, runs: map[string]int{}}
	events, before := 0, lifecycle.State("")
	var r *Runner
	o := Options{Storage: NewMemory(), Listeners: []Listener{func(Event) {
		if events++; events == at {
			before = r.state
			if paused {
				r.Suspend()
			}
			r.Cancel(e)
			l.mu.Lock()
			l.asked = workers == 0
			l.mu.Unlock()
		}
	}}}
	if workers > 0 {
		o.Workers = NewPool(workers)
	}
	r, err := New(l.flow(bad), o)
	if err != nil {
		t.Fatal(err)
	}
	r.Signal("go", 1)
	err = r.Run(t.Context())
	state, where := r.State(), fmt.Sprintf("event %d", at)
	switch {
	case before == "" || Life.Ended(before): // it came too late
		return before != ""
	case e.Keep && state == Success && err == nil: // it was done when the request came
		return true
	case e.Keep && state != FailureState && state != Reverted || !e.Keep && state != Reverted:
		t.Fatalf("%s: the flow is %s (%v), the atoms are %v", where, state, err, states(r))
	case err == nil || FailureOf(err).Type == "" || state == FailureState && !caused(err, TypeCancelled):
		t.Errorf("%s: %v", where, err)
	}
	for _, rec := range r.Atoms() {
		if rec.State == Running || rec.State == Reverting || rec.State == Retrying || rec.Waits {
			t.Errorf("%s: %s stays %s", where, rec.Name, rec.State)
		}
	}
	l.check(t, where, e, state)
	if state == Reverted {
		return true
	}
	l.asked = false
	r.Signal("go", 1)
	if err := r.Run(t.Context()); !bad && r.State() == Success {
		return true
	} else if r.State() != Reverted || len(l.left()) > 0 && !bad {
		t.Fatalf("%s: run again the flow is %s (%v), the atoms are %v, not reverted: %v", where, r.State(), err, states(r), l.left())
	}
	return true
}

func (l *trace) check(t *testing.T, where string, e Ending, state lifecycle.State) {
	t.Helper()
	if left := l.left(); state == Reverted && !e.Keep && len(left) > 0 {
		t.Errorf("%s: not reverted: %v", where, left)
	}
	for i, one := range l.late { // reverts that were announced already begin
		if e.Keep && i > 3 || one[len(one)-4:] != "true" {
			t.Errorf("%s: begins after the request: %s", where, one)
		}
	}
}

func caused(err error, kind string) bool {
	var all *Failures
	if errors.As(err, &all) {
		return all.All[0].Type == kind
	}
	return FailureOf(err).Caused(kind)
}

func states(r *Runner) (all []string) {
	for _, rec := range r.Atoms() {
		all = append(all, fmt.Sprintf("%s %s %s", rec.Name, rec.State, rec.Intention))
	}
	return all
}
