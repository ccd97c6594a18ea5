package explain_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestExplain checks that the application states who ends the wait of a step. Without it that is a timer
// (TestWhyDueAndBackoffAndReason).
func TestExplain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := letters(map[lc.State]engine.Step{"Sorting": func(_ context.Context, r *engine.Run) error {
			return engine.Wait(job.Blocker{Code: "snow", Sentence: "the pass is shut",
				Until: r.Now().Add(2 * time.Hour)})
		}})
		work.Explain = func(_ *job.Job, b *job.Blocker) {
			if b.Code == "snow" {
				b.Holder, b.Remedy = "the plough", "send the plough"
			}
		}
		w := start(t, mem.New(), engine.Options{}, work)
		defer w.stop()
		began := time.Now()
		later, waiting := w.post(engine.Order{Due: began.Add(time.Hour)}), w.post(engine.Order{})
		time.Sleep(time.Minute)
		fits(t, w.blocker(waiting.ID, "snow"), began, 0, 2*time.Hour, "the plough", "the pass is shut",
			"send the plough")
		fits(t, w.blocker(later.ID, explain.BlockDue), began, 0, time.Hour, "a timer", "not due before", "")
	})
}
