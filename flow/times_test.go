package flow

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestForwardRunIsKept: a task that is reverted keeps when it was executed beside when it was reverted, also when the
// revert is done again in another process. A new execution begins with neither.
func TestForwardRunIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, stuck := time.Now(), true
		second := func(context.Context, *Call) (any, error) { time.Sleep(time.Second); return nil, nil }
		back := func(context.Context, *Call) (any, error) {
			time.Sleep(10 * time.Second)
			if stuck {
				return nil, errors.New("stuck")
			}
			return nil, nil
		}
		make := func() Item {
			return Linear("f", &Task{Name: "a", Execute: second, Revert: back},
				&Task{Name: "b", Execute: func(ctx context.Context, c *Call) (any, error) {
					time.Sleep(2 * time.Second)
					return nil, errWoot
				}})
		}
		disk := newDisk()
		check := func(r *rig, atom string, want ...int) {
			t.Helper()
			rec, _ := r.Atom(atom)
			for i, at := range []time.Time{rec.ExecuteBegan, rec.ExecuteEnded, rec.Began, rec.Ended} {
				if got := int(at.Sub(began) / time.Second); got != want[i] {
					t.Errorf("%s: time %d is %d s, want %d", atom, i, got, want[i])
				}
			}
		}
		r := rigged(t, make(), Options{Storage: disk})
		_ = r.run(t, FailureState)
		check(r, "a", 0, 1, 3, 13)
		check(r, "b", 1, 3, 3, 3)
		stuck = false
		r = rigged(t, make(), Options{Storage: disk})
		_ = r.run(t, Reverted)
		check(r, "a", 0, 1, 13, 23)
		if err := r.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		_ = r.run(t, Reverted)
		check(r, "a", 23, 24, 26, 36)
	})
}
