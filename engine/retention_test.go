package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// burnt counts the tombstones.
func (w *harness) burnt() int {
	w.t.Helper()
	tallies, err := w.store.Count(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, t := range tallies {
		if t.State == "Burnt" {
			n += int(t.Jobs)
		}
	}
	return n
}

// delivered makes a harness with n ended jobs, in which nothing else happens.
func delivered(t *testing.T, n int, keep time.Duration, clock clock.Clock) *harness {
	t.Helper()
	work := letters(map[lc.State]engine.Step{"Sorting": func(ctx context.Context, r *engine.Run) error {
		if r.Job().Group == "slow" {
			return blocked(ctx, r)
		}
		return nil
	}})
	work.Keep = keep
	w := start(t, mem.New(), engine.Options{Clock: clock, Sweep: time.Minute}, work)
	orders := make([]engine.Order, n)
	for i := range orders {
		orders[i].Kind = "test.letter"
	}
	if _, err := w.SubmitAll(t.Context(), orders...); err != nil {
		t.Fatal(err)
	}
	settle(t, w.store)
	return w
}

// TestRetentionKeepsAndThenClearsAShare checks that no job is cleared early, and then the larger of 100 jobs and a
// fifth of them at each check.
func TestRetentionKeepsAndThenClearsAShare(t *testing.T) {
	for _, c := range []struct {
		name string
		jobs int
		keep time.Duration
		want []int // after 24 h, 25 h, 26 h ...
	}{
		{"250 jobs", 250, 24 * time.Hour, []int{0, 100, 200, 250, 250}},
		{"1000 jobs", 1000, 24 * time.Hour, []int{0, 200, 360, 488, 590}},
		{"control: unlimited", 250, 0, []int{0, 0, 0, 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := delivered(t, c.jobs, c.keep, nil)
				defer w.stop()
				time.Sleep(24*time.Hour + 5*time.Minute)
				for i, want := range c.want {
					if got := w.burnt(); got != want {
						t.Errorf("%d h: %d cleared, want %d", 24+i, got, want)
					}
					time.Sleep(time.Hour)
				}
			})
		})
	}
}

// TestRetentionReadsOldJobsOnly: a check reads none of the jobs that ended less than Keep ago. Control: those that it
// clears.
func TestRetentionReadsOldJobsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := delivered(t, 1000, 24*time.Hour, nil)
		defer w.stop()
		read := func(d time.Duration) int64 {
			before, _ := w.store.(*mem.Store).Touched()
			time.Sleep(d)
			after, _ := w.store.(*mem.Store).Touched()
			return after - before
		}
		if n := read(23 * time.Hour); n > 500 {
			t.Errorf("%d records were read before any job was old enough", n)
		}
		if n := read(2 * time.Hour); n < 200 {
			t.Errorf("control: only %d records were read by a check that clears jobs", n)
		}
	})
}

// TestRetentionFreezesWhileTheClockJumps checks that retention stops while the clock is wrong and continues when it
// agrees again. In the control the clock is right.
func TestRetentionFreezesWhileTheClockJumps(t *testing.T) {
	for _, c := range []struct {
		name string
		jump time.Duration
		want int
	}{
		{"forward", 49 * time.Hour, 0}, {"back", -49 * time.Hour, 0}, {"a year", 365 * 24 * time.Hour, 0},
		{"a little", 50 * time.Minute, 10}, {"control: right", 0, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := &jumpy{Clock: clock.System()}
				w := delivered(t, 10, 24*time.Hour, clock)
				defer w.stop()
				clock.jump(c.jump)
				time.Sleep(72 * time.Hour)
				if got := w.burnt(); got != c.want {
					t.Errorf("%d cleared, want %d", got, c.want)
				}
				clock.jump(-c.jump)
				time.Sleep(2 * time.Hour)
				if got := w.burnt(); got != 10 {
					t.Errorf("after the clock was set right %d are cleared", got)
				}
			})
		})
	}
}

// TestRetentionLeavesAloneWhatHasNotEnded checks jobs at work, held by a person, and under a hold.
func TestRetentionLeavesAloneWhatHasNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := delivered(t, 10, time.Hour, nil)
		defer w.stop()
		if _, err := w.Operator().Hold(t.Context(), job.Scope{Group: "held"}, "ann", "flood", time.Time{}); err != nil {
			t.Fatal(err)
		}
		live := []job.Job{w.post(engine.Order{Group: "slow"}), w.post(engine.Order{Group: "held"}),
			w.post(engine.Order{Group: "held"})}
		if _, err := w.Do(t.Context(), operator.Act{Job: live[2].ID, Event: "hold",
			By: lc.Operator, Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(7 * 24 * time.Hour)
		for i, want := range []lc.State{"Sorting", "Posted", "Held"} {
			if j := w.get(live[i].ID); j.State != want {
				t.Errorf("got %s, want %s", j.State, want)
			}
		}
		if got := w.burnt(); got != 10 {
			t.Errorf("%d of the ended ones are cleared", got)
		}
	})
}
