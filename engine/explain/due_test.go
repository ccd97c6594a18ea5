package explain_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// snow is what steps of these tests wait for.
func snow(until time.Time) error {
	return engine.Wait(job.Blocker{Code: "snow", Sentence: "the pass is shut", Until: until})
}

// TestWhyAfterLostClaims checks that the reason of an earlier wait is not reported while a job pauses after two claims
// that ended without a report. Control: the wait itself.
func TestWhyAfterLostClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := letters(map[lc.State]engine.Step{"Posted": func(_ context.Context, r *engine.Run) error {
			if r.Job().Cause == "" {
				return snow(r.Now().Add(time.Minute))
			}
			runtime.Goexit()
			return nil
		}})
		work.Policy.Backoff = engine.Backoff{First: 10 * time.Minute, Max: 10 * time.Minute}
		w := start(t, mem.New(), engine.Options{Lease: 10 * time.Second}, work)
		defer w.stop()
		id := w.post(engine.Order{}).ID
		time.Sleep(30 * time.Second)
		w.blocker(id, "snow")
		time.Sleep(2 * time.Minute)
		j, err := w.store.Get(t.Context(), id)
		if err != nil || j.Starts != 2 || j.Claimed() {
			t.Fatalf("control: %+v, %v", j, err)
		}
		b := w.blocker(id, explain.BlockDue)
		fits(t, b, j.Changed, 0, j.Due.Sub(j.Changed), "a timer", "the last workers that had it ended without a report",
			"stagepost logs "+string(id))
	})
}

// TestWhyWaitAfterPriority checks that a change of priority does not turn a wait after a failed attempt into a failed
// attempt, nor a failed attempt into a wait, however often people change it.
func TestWhyWaitAfterPriority(t *testing.T) {
	for _, c := range []struct {
		name string
		code string
		step func(r *engine.Run) error
	}{
		{"a wait", "snow", func(r *engine.Run) error {
			if r.Job().Attempts == 0 {
				return errBroken
			}
			return snow(r.Now().Add(24 * time.Hour))
		}},
		{"a wait with the cause of the attempt", "error", func(r *engine.Run) error {
			if r.Job().Attempts == 0 {
				return errBroken
			}
			return engine.Wait(job.Blocker{Code: r.Job().Cause, Sentence: "the pass is shut",
				Until: r.Now().Add(24 * time.Hour)})
		}},
		{"control: a failed attempt", explain.BlockDue, func(*engine.Run) error {
			return engine.RetryAfter(24*time.Hour, errBroken)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{
					"Posted": func(_ context.Context, r *engine.Run) error { return c.step(r) },
				}))
				defer w.stop()
				id := w.post(engine.Order{}).ID
				time.Sleep(time.Minute)
				w.blocker(id, c.code)
				for i := range 50 {
					if _, err := w.Operator().SetPriority(t.Context(), id, 0, i, "ann", "it is urgent"); err != nil {
						t.Fatal(err)
					}
				}
				w.blocker(id, c.code)
			})
		})
	}
}
