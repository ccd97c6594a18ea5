package flow

import (
	"context"
	"math"
	"sync"
	"testing"
)

// TestProgressFromOtherGoroutines reaches listeners, one at a time, and the record.
func TestProgressFromOtherGoroutines(t *testing.T) {
	for _, pool := range []*Pool{nil, NewPool(3)} {
		at, events := false, 0
		item := func(name string) *Task {
			return &Task{Name: name, Execute: func(_ context.Context, c *Call) (any, error) {
				var wg sync.WaitGroup
				for i := range 8 {
					wg.Go(func() {
						for k := range 20 {
							c.ProgressDetails(float64(k)/20, map[string]int{"by": i})
							c.Log().Debug("on the way")
						}
					})
				}
				wg.Wait()
				c.Progress(0.75)
				return nil, nil
			}}
		}
		r := rigged(t, Unordered("f", item("a"), item("b"), item("c")),
			Options{Workers: pool, Storage: newDisk(), Listeners: []Listener{func(e Event) {
				if at {
					t.Error("two events at once")
				}
				at = true
				if e.Within == Progressed {
					events++
				}
				at = false
			}}})
		if err := r.run(t, Success); err != nil {
			t.Fatal(err)
		}
		if want := 3 * (8*20 + 1 + 2); events != want {
			t.Errorf("%d events of progress, want %d", events, want)
		}
		for _, rec := range r.Atoms() {
			if rec.Progress != 1 || rec.Details == nil {
				t.Errorf("%s has progress %v, details %v", rec.Name, rec.Progress, rec.Details)
			}
		}
	}
}

// TestProgressIsClamped between 0 and 1.
func TestProgressIsClamped(t *testing.T) {
	for _, c := range []struct{ part, want float64 }{{-1, 0}, {0.5, 0.5}, {7, 1}, {math.NaN(), 0}, {math.Inf(1), 1}} {
		seen := -1.0
		r := rigged(t, &Task{Name: "a", Execute: func(_ context.Context, c2 *Call) (any, error) {
			c2.Progress(c.part)
			return nil, nil
		}}, Options{})
		r.run(t, Success)
		for _, e := range r.heard.Events()[2:] {
			if e.Within == Progressed && e.New == Running {
				seen = e.Progress
			}
		}
		if seen != c.want {
			t.Errorf("%v is reported as %v; want %v", c.part, seen, c.want)
		}
	}
}

// TestProgressThatIsNoJSON: progress is reported without the details that cannot be stored, and the flow continues.
func TestProgressThatIsNoJSON(t *testing.T) {
	for _, pool := range []*Pool{nil, NewPool(1)} {
		r := rigged(t, Linear("f", &Task{Name: "a", Execute: func(_ context.Context, c *Call) (any, error) {
			c.ProgressDetails(0.5, make(chan int))
			return nil, nil
		}}), Options{Workers: pool, Storage: newDisk()})
		if err := r.run(t, Success); err != nil {
			t.Fatal(err)
		}
		if rec, _ := r.Atom("a"); rec.Details != nil {
			t.Errorf("details %v are stored", rec.Details)
		}
	}
}
