package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// sack is a batch of letters that retention may clear.
var sack = lc.Must("test.sack",
	lc.OnWork("Open", "a sender brings it; its letters travel",
		lc.OnPass("report", "Emptied", lc.Engine, "all letters arrived"),
		lc.OnFail("fail", "Torn", lc.Worker|lc.Timer, "a letter was lost")),
	lc.OnEnd("Emptied", lc.OK, "all letters arrived", lc.On("delete", "Cut", lc.Operator|lc.Timer, "kept long enough")),
	lc.OnEnd("Torn", lc.Failed, "a letter was lost", lc.On("delete", "Cut", lc.Operator|lc.Timer, "kept long enough")),
	lc.OnEnd("Cut", lc.None, "only the record is left"),
)

// sacksOf is the work of a sack with one letter for each group. It fails if a letter did.
func sacksOf(keep time.Duration, groups ...string) engine.Work {
	return engine.Work{Life: sack, Prefix: "sac", Keep: keep, Steps: map[lc.State]engine.Step{
		"Open": func(ctx context.Context, r *engine.Run) error {
			err := r.Spawn(ctx, len(groups), func(i int) (engine.Order, error) {
				return engine.Order{Kind: "test.letter", Group: groups[i]}, nil
			})
			if err != nil {
				return err
			}
			if err := r.WaitChildren(); err != nil {
				return err
			}
			if r.Job().Children.Failed > 0 {
				return engine.Fail("lost", errors.New("a letter was lost"))
			}
			return nil
		},
	}}
}

// TestRetentionLeavesTheJobsOfABatchToItsReport checks that a letter that ended long ago stays while its sack has not
// ended. The control is a letter without a sack, which is cleared.
func TestRetentionLeavesTheJobsOfABatchToItsReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		work := letters(map[lc.State]engine.Step{"Riding": func(ctx context.Context, r *engine.Run) error {
			if r.Job().Group == "slow" {
				<-goOn
			}
			return nil
		}})
		work.Keep = time.Hour
		w := start(t, mem.New(), engine.Options{Sweep: time.Minute, Retain: engine.Retention{Every: time.Hour}}, work,
			sacksOf(time.Hour, "slow", "fast"))
		defer w.stop()
		batch, alone := w.post(engine.Order{Kind: "test.sack"}), w.post(engine.Order{})
		w.end(alone.ID)
		time.Sleep(24 * time.Hour)
		if j := w.get(alone.ID); j.State != "Burnt" {
			t.Errorf("control: the letter of no sack is %s", j.State)
		}
		if b := w.get(batch.ID); b.State != "Open" || b.Children.OK != 1 || b.Children.Deleted != 0 {
			t.Errorf("the sack is %s with %+v", b.State, b.Children)
		}
		close(goOn)
		w.end(batch.ID)
		time.Sleep(24 * time.Hour)
		if b := w.get(batch.ID); b.State != "Cut" || b.Children.Deleted != 2 {
			t.Errorf("after its report the sack is %s with %+v", b.State, b.Children)
		}
	})
}

// TestRetentionLeavesABatchWhoseJobsWereSentBack checks that a sack stays while its letter is retried, for longer than
// the sack is kept. The control is the same sack after the letter has arrived.
func TestRetentionLeavesABatchWhoseJobsWereSentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn, rides := make(chan struct{}), 0
		work := letters(map[lc.State]engine.Step{"Riding": func(context.Context, *engine.Run) error {
			if rides++; rides == 1 {
				return engine.Fail("coach", errors.New("the coach broke down"))
			}
			<-goOn
			return nil
		}})
		w := start(t, mem.New(), engine.Options{Sweep: time.Minute, Retain: engine.Retention{Every: time.Hour}}, work,
			sacksOf(time.Hour, "one"))
		defer w.stop()
		batch := w.end(w.post(engine.Order{Kind: "test.sack"}).ID)
		page, err := w.store.List(t.Context(), job.Query{Parent: batch.ID})
		if err != nil || len(page.Jobs) != 1 {
			t.Fatal(page.Jobs, err)
		}
		if _, err := w.Do(t.Context(), operator.Act{Job: page.Jobs[0].ID, Event: "retry",
			By: lc.Operator, Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		if b := w.get(batch.ID); b.State != "Torn" || b.Children.Open != 1 {
			t.Errorf("the sack is %s with %+v", b.State, b.Children)
		}
		close(goOn)
		w.end(page.Jobs[0].ID)
		time.Sleep(24 * time.Hour)
		if b := w.get(batch.ID); b.State != "Cut" {
			t.Errorf("control: the sack is %s", b.State)
		}
	})
}

// TestTimeRunsWhileRetentionClears checks that a letter times out while the clearing of another job takes hours.
// Without a goroutine of its own, retention would block the sweep.
func TestTimeRunsWhileRetentionClears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := letters(map[lc.State]engine.Step{"Riding": func(ctx context.Context, r *engine.Run) error {
			if r.Job().Group == "late" {
				return engine.Wait(job.Blocker{Code: "snow", Sentence: "it snows",
					Until: r.Now().Add(1000 * time.Hour)})
			}
			return nil
		}})
		work.Keep = time.Hour
		work.Policies = map[lc.State]engine.Policy{"Riding": {Timeout: 10 * time.Hour}}
		var clearing atomic.Bool
		w := start(t, mem.New(), engine.Options{Sweep: time.Minute, Retain: engine.Retention{
			Every: time.Hour, Records: 3 * time.Hour, Clear: func(ctx context.Context, j *job.Job) error {
				clearing.Store(true)
				select {
				case <-ctx.Done():
				case <-time.After(100 * time.Hour):
				}
				return ctx.Err()
			},
		}}, work)
		defer w.stop()
		w.end(w.post(engine.Order{}).ID)
		late := w.post(engine.Order{Group: "late"})
		time.Sleep(9 * time.Hour)
		if j := w.get(late.ID); j.Ended || !clearing.Load() {
			t.Fatalf("control: after 9 hours it is %s, clearing %t", j.State, clearing.Load())
		}
		time.Sleep(2 * time.Hour)
		if j := w.get(late.ID); !j.Ended {
			t.Errorf("its time was up an hour ago and it is %s", j.State)
		}
		if s := w.Status().Stalled; s > 2*time.Minute {
			t.Errorf("the sweep has stood still for %s", s)
		}
	})
}
