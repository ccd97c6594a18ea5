package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestSpawnIsTwoPhase kills the engine after each of its store calls while it creates 2,500 children. At the end there
// are exactly 2,500 children, all of them counted, and one report.
func TestSpawnIsTwoPhase(t *testing.T) {
	const n = 2500
	cuts := 0
	for after := 1; ; after++ {
		whole := false
		synctest.Test(t, func(t *testing.T) {
			store := mem.New()
			first := startKillable(t, store, engine.Options{Name: "clerk", Slots: 1, Grace: time.Second},
				bagOf(n, "test.note"), notes())
			first.line.decide(func(string, int) fate {
				if first.line.total > after {
					return refused
				}
				if first.line.total == after {
					return unheard
				}
				return answered
			})
			waiting := func(j *job.Job) bool { return j.Cause == cause.Children && !j.Claimed() }
			bag, err := first.Submit(t.Context(), engine.Order{Kind: "test.bag", Key: "one"})
			synctest.Wait()
			if err == nil {
				if j, err := store.Get(t.Context(), bag.ID); err == nil && (waiting(&j) || j.Ended) {
					whole = true
				}
			}
			if !whole {
				cuts++
			}
			first.kill()
			second := start(t, store, engine.Options{Name: "clerk"}, bagOf(n, "test.note"), notes())
			defer second.stop()
			j := second.end(second.post(engine.Order{Kind: "test.bag", Key: "one"}).ID)
			if j.State != "Emptied" || j.Children.Expected != n || j.Children.OK != n || j.Children.Created() != n {
				t.Errorf("killed after call %d: %s with %+v", after, j.State, j.Children)
			}
			tallies, err := store.Count(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, tally := range tallies {
				if tally.Kind == "test.note" && (tally.State != "Sent" || tally.Jobs != n) {
					t.Errorf("killed after call %d: %d notes are %s", after, tally.Jobs, tally.State)
				}
			}
			if got := second.times(j.ID, "report"); got != 1 {
				t.Errorf("killed after call %d: %d reports", after, got)
			}
			second.verify(j.ID)
		})
		if whole || after > 40 {
			break
		}
	}
	if cuts < 8 {
		t.Errorf("only %d cuts fell into the creation", cuts)
	}
}

// TestRetryOfAChildDuringTheBatch checks that the child counts as open again, and that the report waits for it.
func TestRetryOfAChildDuringTheBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		w := start(t, mem.New(), engine.Options{}, bagOf(3, "test.letter"), letters(map[lc.State]engine.Step{
			"Riding": func(ctx context.Context, r *engine.Run) error {
				if n := r.Job().Number; n == 1 && broken {
					return engine.Fail("axle", errBroken)
				} else if n == 2 {
					return takes(10*time.Minute)(ctx, r)
				}
				return takes(time.Hour)(ctx, r)
			},
		}))
		defer w.stop()
		batch := w.post(engine.Order{Kind: "test.bag"})
		time.Sleep(time.Minute)
		if c := w.get(batch.ID).Children; c.Failed != 1 || c.Open != 2 {
			t.Fatalf("got %+v", c)
		}
		page, err := w.store.List(t.Context(), job.Query{Parent: batch.ID, Outcomes: []lc.Outcome{lc.Failed}})
		if err != nil || len(page.Jobs) != 1 {
			t.Fatalf("%d failed, %v", len(page.Jobs), err)
		}
		broken = false
		if _, err := w.Do(t.Context(), operator.Act{Job: page.Jobs[0].ID, Event: "retry",
			By: lc.Owner, Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		if c := w.get(batch.ID).Children; c.Failed != 0 || c.Open != 3 {
			t.Fatalf("after the retry: %+v", c)
		}
		began := time.Now()
		j := w.end(batch.ID)
		if j.Children.OK != 3 || j.Children.Failed != 0 || w.times(j.ID, "report") != 1 {
			t.Errorf("got %+v, %v", j.Children, w.events(j.ID))
		}
		if took := time.Since(began); took < 58*time.Minute || took > time.Hour {
			t.Errorf("the report came after %s, want it with the last child", took)
		}
		w.verify(j.ID)
	})
}

// TestDeletedChildCounts checks that a child that is deleted during the batch counts as ended.
func TestDeletedChildCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, bagOf(3, "test.letter"), letters(map[lc.State]engine.Step{
			"Posted": func(_ context.Context, r *engine.Run) error {
				if r.Job().Number == 2 {
					return engine.Go("hold")
				}
				return nil
			},
		}))
		defer w.stop()
		batch := w.post(engine.Order{Kind: "test.bag"})
		time.Sleep(time.Hour)
		page, err := w.store.List(t.Context(), job.Query{Parent: batch.ID, States: []lc.State{"Held"}})
		if err != nil || len(page.Jobs) != 1 {
			t.Fatalf("%d held, %v", len(page.Jobs), err)
		}
		if j := w.get(batch.ID); j.Ended || j.Children.Open != 1 {
			t.Fatalf("the batch is %s with %+v", j.State, j.Children)
		}
		if _, err := w.Do(t.Context(), operator.Act{Job: page.Jobs[0].ID, Event: "delete",
			By: lc.Operator, Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		j := w.get(batch.ID)
		if j.State != "Emptied" || j.Children.Deleted != 1 || j.Children.OK != 2 || w.times(j.ID, "report") != 1 {
			t.Errorf("got %s with %+v, %v", j.State, j.Children, w.events(j.ID))
		}
		w.verify(j.ID)
	})
}

// TestLastChildDuringTheWait lets the last child end after its batch has checked the counts and before the batch waits.
// The report does not have to wait for the next check.
func TestLastChildDuringTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		looks := 0
		b := bagOf(1, "test.note")
		spawn := b.Steps["Open"]
		b.Steps["Open"] = func(ctx context.Context, r *engine.Run) error {
			looks++
			verdict := spawn(ctx, r)
			for range 10 {
				if j, err := store.Get(ctx, r.Job().ID); err != nil || j.Children.Settled() {
					return verdict
				}
				<-time.After(time.Second)
			}
			return engine.Fail("slow", errBroken)
		}
		w := start(t, store, engine.Options{}, b, notes())
		defer w.stop()
		began := time.Now()
		j := w.end(w.post(engine.Order{Kind: "test.bag"}).ID)
		if took := time.Since(began); j.State != "Emptied" || took > time.Minute || looks != 2 {
			t.Errorf("got %s (%s) after %s and %d checks", j.State, j.Message, took, looks)
		}
		w.verify(j.ID)
	})
}

// TestEmptyBatchReports checks that a batch without children reports at once.
func TestEmptyBatchReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, bagOf(0, "test.letter"), letters(nil))
		defer w.stop()
		began := time.Now()
		if j := w.end(w.post(engine.Order{Kind: "test.bag"}).ID); j.State != "Emptied" || time.Since(began) != 0 {
			t.Errorf("got %s after %s", j.State, time.Since(began))
		}
	})
}

// L
func TestChildWhoseKeyExistsIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bagOf(0, "test.letter")
		b.Steps["Open"] = func(ctx context.Context, r *engine.Run) error {
			if err := r.Spawn(ctx, 2, func(i int) (engine.Order, error) {
				return engine.Order{Kind: "test.letter", Key: []string{"a", "b"}[i]}, nil
			}); err != nil {
				return err
			}
			return r.WaitChildren()
		}
		w := start(t, mem.New(), engine.Options{}, b, letters(nil))
		defer w.stop()
		w.end(w.post(engine.Order{Kind: "test.letter", Key: "a"}).ID)
		j := w.post(engine.Order{Kind: "test.bag"})
		time.Sleep(10 * time.Hour)
		if j = w.get(j.ID); !j.Ended {
			t.Errorf("the batch waits indefinitely: %s, %+v", j.Message, j.Children)
		}
	})
}

// TestRetryBetweenTheLookAndTheReport retries a child after its batch has counted all children as ended, and before the
// report is committed. The report waits for the child.
func TestRetryBetweenTheLookAndTheReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		var w *harness
		broken, between := true, 0
		b := bagOf(1, "test.letter")
		look := b.Steps["Open"]
		b.Steps["Open"] = func(ctx context.Context, r *engine.Run) error {
			verdict := look(ctx, r)
			if verdict == nil && broken {
				broken = false
				between++
				page, err := store.List(ctx, job.Query{Parent: r.Job().ID})
				if err != nil {
					return err
				}
				if _, err := w.Do(ctx, operator.Act{Job: page.Jobs[0].ID, Event: "retry",
					By: lc.Operator, Actor: "ann"}); err != nil {
					return err
				}
			}
			return verdict
		}
		w = start(t, store, engine.Options{}, b, letters(map[lc.State]engine.Step{"Riding": func(ctx context.Context,
			_ *engine.Run) error {
			if broken {
				return engine.Fail("axle", errBroken)
			}
			<-time.After(time.Hour)
			return nil
		}}))
		defer w.stop()
		j := w.end(w.post(engine.Order{Kind: "test.bag"}).ID)
		if between != 1 || j.State != "Emptied" || j.Children.OK != 1 || j.Children.Open != 0 {
			t.Errorf("got %s with %+v after %d retries in between", j.State, j.Children, between)
		}
		w.verify(j.ID)
	})
}
