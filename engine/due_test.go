package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// TestDueJobStartsAtItsTime checks that the engine wakes at the time of the job, long before the next sweep.
func TestDueJobStartsAtItsTime(t *testing.T) {
	for _, c := range []struct {
		name string
		due  []time.Duration
	}{
		{"one", []time.Duration{10 * time.Minute}},
		{"several", []time.Duration{20 * time.Minute, 10 * time.Minute, 15 * time.Minute, 20 * time.Minute}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, mem.New(), engine.Options{Sweep: time.Hour}, letters(nil))
				defer w.stop()
				began := time.Now()
				ids := make([]job.ID, len(c.due))
				for i, d := range c.due {
					ids[i] = w.post(engine.Order{Due: began.Add(d)}).ID
				}
				time.Sleep(50 * time.Minute)
				for i, id := range ids {
					if j := w.get(id); !j.Ended || !j.Entered.Equal(began.Add(c.due[i])) {
						t.Errorf("due after %s: it is %s since %s", c.due[i], j.State, j.Entered.Sub(began))
					}
				}
			})
		})
	}
}
