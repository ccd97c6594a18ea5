package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestDueJobStartsAtItsTime: not before, and no later than the next sweep.
func TestDueJobStartsAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{Sweep: 3 * time.Second}, letters(nil))
		defer w.stop()
		began := time.Now()
		due := []time.Duration{20 * time.Minute, 10 * time.Minute, 15*time.Minute + time.Second, 20 * time.Minute, -time.Hour, 0}
		ids := make([]job.ID, len(due))
		for i, d := range due {
			ids[i] = w.post(engine.Order{Due: began.Add(d)}).ID
		}
		time.Sleep(30 * time.Minute)
		for i, id := range ids {
			at := w.get(id).Entered.Sub(began)
			if want := max(due[i], 0); at < want || at > want+3*time.Second || !w.get(id).Ended {
				t.Errorf("due after %s: it is %s since %s", due[i], w.get(id).State, at)
			}
		}
	})
}

// TestBackoffEndsAtItsTime: the engine that paused a job wakes for it; the sweep, here once in three hours, is not needed.
func TestBackoffEndsAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		w := start(t, mem.New(), engine.Options{Sweep: 3 * time.Hour}, letters(map[lc.State]engine.Step{
			"Sorting": func(context.Context, *engine.Run) error {
				if tries++; tries < 4 {
					return engine.RetryAfter(10*time.Minute, errBroken)
				}
				return nil
			},
		}))
		defer w.stop()
		began := time.Now()
		j := w.end(w.post(engine.Order{}).ID)
		if took := j.Entered.Sub(began); took != 30*time.Minute {
			t.Errorf("three pauses of 10 min took %s", took)
		}
	})
}

// TestIdleEngineLeavesTheStoreAlone: between sweeps, an engine that has nothing to do makes no call.
func TestIdleEngineLeavesTheStoreAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startMortal(t, mem.New(), engine.Options{Sweep: 3 * time.Hour}, letters(nil))
		defer m.stop()
		m.end(m.post(engine.Order{}).ID)
		synctest.Wait()
		calls, claims := m.line.count(""), m.line.count("Claim")
		time.Sleep(2 * time.Hour)
		if got := m.line.count(""); got != calls {
			t.Errorf("%d calls while idle", got-calls)
		}
		time.Sleep(28 * time.Hour) // ten sweeps
		if got := m.line.count("Claim") - claims; got > 10 {
			t.Errorf("%d claims in ten sweeps", got)
		}
		m.post(engine.Order{}) // the control: the count counts
		synctest.Wait()
		if m.line.count("Commit") < 3 {
			t.Error("a job's life made no calls")
		}
	})
}
