package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestHoldEndsByItself checks that a hold ends at its time, and not before.
func TestHoldEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(nil))
		defer w.stop()
		began := time.Now()
		if _, err := w.Operator().Hold(t.Context(), job.Scope{Owner: "ann"}, "ben", "flood",
			began.Add(10*time.Minute)); err != nil {
			t.Fatal(err)
		}
		w.end(w.post(engine.Order{Owner: "ann"}).ID)
		if took := time.Since(began); took < 10*time.Minute || took > 10*time.Minute+time.Second {
			t.Errorf("it ended after %s", took)
		}
		w.end(w.post(engine.Order{Owner: "ann"}).ID)
		if took := time.Since(began); took > 10*time.Minute+time.Second {
			t.Errorf("the hold is over, and it still took until %s", took)
		}
	})
}

// hinting is a store of which a test sends hints.
type hinting struct {
	job.Store
	wake func([]job.Hint)
}

func (s *hinting) Watch(ctx context.Context, wake func([]job.Hint)) {
	s.wake = wake
	s.Store.Watch(ctx, wake)
}

// TestHoldOfAnotherServerEnds: the end of a hold that another server put wakes the engine, if its store sends a hint of
// the hold. The control sends none; then the sweep finds the job.
func TestHoldOfAnotherServerEnds(t *testing.T) {
	for _, hinted := range []bool{true, false} {
		t.Run(fmt.Sprintf("hinted %t", hinted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, &hinting{Store: mem.New()}, engine.Options{Sweep: time.Hour}, letters(nil))
				defer w.stop()
				synctest.Wait()
				began := time.Now()
				h := job.Hold{Scope: job.Scope{Group: "maps", State: "Posted"}, Who: "ann", Why: "flood", Since: began,
					Until: began.Add(10 * time.Minute)}
				if _, err := w.store.Hold(t.Context(), h); err != nil {
					t.Fatal(err)
				}
				if hinted {
					w.store.(*hinting).wake([]job.Hint{{Until: h.Until}})
				}
				w.end(w.post(engine.Order{Group: "maps"}).ID)
				want := time.Hour
				if hinted {
					want = 10 * time.Minute
				}
				if took := time.Since(began); took != want {
					t.Errorf("the job ended after %s, want %s", took, want)
				}
			})
		})
	}
}

// TestReleaseWakesAtOnce checks that a release wakes the engine. The control releases in the store alone; then the
// sweep finds the job.
func TestReleaseWakesAtOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		release func(*harness, job.Scope) error
		after   time.Duration
	}{
		{"release", func(w *harness, s job.Scope) error {
			_, err := w.Operator().Release(w.t.Context(), s, "ann", "over")
			return err
		}, 0},
		{"by another server, whose store sends a hint", func(w *harness, s job.Scope) error {
			_, err := w.store.Release(w.t.Context(), job.Hold{Scope: s})
			w.store.(*hinting).wake([]job.Hint{{Released: true}})
			return err
		}, 0},
		{"control: by the store", func(w *harness, s job.Scope) error {
			_, err := w.store.Release(w.t.Context(), job.Hold{Scope: s})
			return err
		}, 29 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, &hinting{Store: mem.New()}, engine.Options{Sweep: time.Hour}, letters(nil))
				defer w.stop()
				scope := job.Scope{Group: "maps", State: "Posted"}
				if _, err := w.Operator().Hold(t.Context(), scope, "ann", "flood", time.Time{}); err != nil {
					t.Fatal(err)
				}
				j := w.post(engine.Order{Group: "maps"})
				time.Sleep(31 * time.Minute)
				if got := w.get(j.ID); got.State != "Posted" {
					t.Fatalf("got %s", got.State)
				}
				began := time.Now()
				if err := c.release(w, scope); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if c.after == 0 && !w.get(j.ID).Ended {
					t.Errorf("got %s in the moment of the release", w.get(j.ID).State)
				}
				w.end(j.ID)
				if took := time.Since(began); took != c.after {
					t.Errorf("it ended after %s, want %s", took, c.after)
				}
			})
		})
	}
}

func TestHoldNeedsAReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(nil))
		defer w.stop()
		if _, err := w.Operator().Hold(t.Context(), job.Scope{}, "ann", "",
			time.Time{}); job.KindOf(err) != job.Invalid {
			t.Errorf("got %v", err)
		}
		if _, err := w.Operator().Release(t.Context(), job.Scope{}, "ann", "over"); job.KindOf(err) != job.NotFound {
			t.Errorf("a release of nothing: got %v", err)
		}
		if j := w.end(w.post(engine.Order{}).ID); j.Outcome != lc.OK {
			t.Errorf("got %s", j.Outcome)
		}
	})
}
