package flow

import (
	"context"
	"errors"
	"runtime"
	"testing"
)

// Cases from a hostile review of the inspection and reset of flows.

// TestRecordsAreCopies: a caller of Atoms cannot change the flow.
func TestRecordsAreCopies(t *testing.T) {
	r := runner(t, Linear("f", fine("a")).With(Times(1)), Options{})
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	one, _ := r.Atom("f_retry")
	one.History[0] = Attempt{}
	r.Atoms()[0].History[0] = Attempt{}
	if rec, _ := r.Atom("f_retry"); rec.History[0].Value.Any() != 1 {
		t.Error("the history was changed from outside")
	}
}

// TestListenersCallBack: a listener may examine and suspend the flow, also concurrently with other goroutines. Calls
// that need an idle flow are refused.
func TestListenersCallBack(t *testing.T) {
	for _, pool := range []*Pool{nil, NewPool(3)} {
		var r *Runner
		var refused int
		look := func() {
			r.State()
			r.Atoms()
			r.Atom("t1")
			r.Values()
			r.Value("v")
			r.ExecuteFailures()
			r.RevertFailures()
		}
		calls := func(e Event) {
			look()
			if e.Within != "" {
				return
			}
			if errors.Is(r.Run(context.Background()), ErrBusy) && errors.Is(r.Reset(context.Background()), ErrBusy) {
				refused++
			}
			if err := errors.Join(r.Load(context.Background()),
				r.Inject(context.Background(), Values{"v": 1})); err != nil {
				t.Error(err)
			}
			_ = r.signal("s", e.Atom, true)
			if e.Atom == "t3" && e.New == Running {
				r.Suspend()
			}
		}
		r = runner(t, Unordered("f", wide(20, func(name string) *Task {
			return doing(name, func() (any, error) {
				if name == "t19" {
					return nil, errHostile
				}
				return nil, nil
			})
		})...).With(Times(2)), Options{Workers: pool, Storage: NewMemory(), Listeners: []Listener{calls}})
		over, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-over:
					return
				default:
					look()
					runtime.Gosched()
				}
			}
		}()
		var err error
		for range 5 {
			if err = r.Run(t.Context()); r.State() != Suspended {
				break
			}
		}
		close(over)
		<-done
		if r.State() != Reverted || !errors.Is(err, errHostile) || refused == 0 {
			t.Errorf("the flow is %s with %v; refused %d times", r.State(), err, refused)
		}
	}
}

// TestResetRemovesSignals: a signal before a reset is not taken after it. A signal after the reset is.
func TestResetRemovesSignals(t *testing.T) {
	r := runner(t, Linear("f", Wait("w", "approved", 0)), Options{Storage: NewMemory()})
	r.Signal("approved", 1)
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Signal("approved", 2) // too late
	if err := r.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rest, err := r.Advance(t.Context()); rest == nil {
		t.Fatalf("the flow is %s with %v, want one that waits", r.State(), err)
	}
	r.Signal("approved", 3)
	if err := r.Run(t.Context()); err != nil || r.State() != Success {
		t.Errorf("the flow is %s with %v", r.State(), err)
	}
	if w, _ := r.Atom("w"); w.Result.Any() != 3 {
		t.Errorf("it was approved with %v", w.Result.Any())
	}
}
