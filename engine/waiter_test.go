package engine_test

import (
	"context"
	"slices"
	"strings"
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

// TestWaiterMayCallTheEngine checks that the condition of a waiter may read, submit and hold, whether the engine runs
// or not. It sees every state.
func TestWaiterMayCallTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{"Sorting": func(_ context.Context,
			r *engine.Run) error {
			if r.Job().Attempts < 3 {
				return engine.Retry(errBroken)
			}
			return nil
		}}))
		j := w.post(engine.Order{Due: w.Clock().Now().Add(time.Minute)})
		var seen []string
		ended, err := w.Await(t.Context(), j.ID, func(j *job.Job) bool {
			w.Status()
			if _, err := w.Store().Get(t.Context(), j.ID); err != nil {
				t.Error(err)
			}
			if _, err := w.Submit(t.Context(), engine.Order{Kind: "test.letter"}); err != nil {
				t.Error(err)
			}
			if !slices.Contains(seen, string(j.State)) {
				seen = append(seen, string(j.State))
			}
			return j.Ended
		})
		if err != nil || ended.State != "Delivered" || strings.Join(seen, " ") != "Posted Sorting Riding Delivered" {
			t.Errorf("got %s, %v, saw %v", ended.State, err, seen)
		}
		w.stop()
		still := w.post(engine.Order{})
		moved := make(chan job.Job, 1)
		go func() {
			j, err := w.Await(t.Context(), still.ID, func(j *job.Job) bool { w.Status(); return j.State == "Held" })
			if err != nil {
				t.Error(err)
			}
			moved <- j
		}()
		synctest.Wait()
		if _, err := w.Do(t.Context(), operator.Act{Job: still.ID, Event: "hold",
			By: lc.Operator, Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		if j := <-moved; j.State != "Held" {
			t.Errorf("got %s", j.State)
		}
	})
}

// TestSpawnOfFewerIsRefused checks that a step that expects fewer jobs than before fails with the reason, and does not
// wait for "-1 of 2". The control spawns as many, and more.
func TestSpawnOfFewerIsRefused(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second int
		want          lc.State
	}{{"fewer", 3, 2, "Torn"}, {"control: as many", 3, 3, "Emptied"}, {"control: more", 2, 3, "Emptied"}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := c.first
				w := start(t, mem.New(), engine.Options{}, letters(nil),
					engine.Work{Life: bag, Prefix: "bag", Steps: map[lc.State]engine.Step{
						"Packed": func(context.Context, *engine.Run) error { return nil },
						"Open": func(ctx context.Context, r *engine.Run) error {
							expect := n
							n = c.second
							if err := r.Spawn(ctx, expect, func(int) (engine.Order, error) {
								return engine.Order{Kind: "test.letter"}, nil
							}); err != nil {
								return err
							}
							if expect != c.second {
								return engine.Retry(errBroken)
							}
							if err := r.WaitChildren(); err != nil {
								return err
							}
							return engine.Go("report")
						},
					}})
				defer w.stop()
				j := w.end(w.post(engine.Order{Kind: "test.bag"}).ID)
				refused := strings.Contains(j.Message, "3 jobs were expected before")
				if refused != (c.want == "Torn") || j.State != c.want {
					t.Errorf("got %s: %s", j.State, j.Message)
				}
				w.verify(j.ID)
			})
		})
	}
}

// TestExpectFewerThanThereAre checks that no commit makes a batch expect fewer jobs than it has.
func TestExpectFewerThanThereAre(t *testing.T) {
	j := job.Job{ID: "b", Version: 3, Children: job.Children{Expected: 2, OK: 2}}
	one := 1
	if _, _, err := job.Apply(j, &job.Change{Job: "b", Version: 3,
		Set: job.Fields{Expected: &one}}); job.KindOf(err) != job.Refused {
		t.Errorf("got %v", err)
	}
}

// TestUnmovableOverdueJobsDoNotBlock checks that 5,000 overdue jobs of a kind that this engine does not run, or that it
// cannot move, do not block the timers of others.
func TestUnmovableOverdueJobsDoNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		strangers := outside(t, store, runs(blocked, engine.Policy{Timeout: time.Minute}), letters(nil))
		orders := make([]engine.Order, 5000)
		for i := range orders {
			orders[i].Kind = "test.race"
		}
		if _, err := strangers.SubmitAll(t.Context(), orders...); err != nil {
			t.Fatal(err)
		}
		page, err := store.List(t.Context(), job.Query{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; ; n++ {
			for _, j := range page.Jobs {
				soon := strangers.Clock().Now().Add(time.Minute)
				if _, err := store.Commit(t.Context(), job.Change{Job: j.ID, Version: j.Version, At: soon,
					Set: job.Fields{Expires: &soon}}); err != nil {
					t.Fatal(err)
				}
			}
			if page.Next == "" {
				break
			}
			if page, err = store.List(t.Context(), job.Query{Limit: 1000, After: page.Next}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Minute)
		work := letters(map[lc.State]engine.Step{"Sorting": blocked,
			"Posted": func(_ context.Context, r *engine.Run) error {
				return engine.Wait(job.Blocker{Code: "snow", Sentence: "the pass is shut",
					Until: r.Now().Add(24 * time.Hour)})
			}})
		work.Policy.Timeout = time.Hour
		w := start(t, store, engine.Options{}, work)
		defer w.stop()
		j := w.post(engine.Order{})
		time.Sleep(time.Hour + time.Minute)
		if j = w.get(j.ID); j.State != "Lost" || j.Cause != cause.Timeout {
			t.Errorf("after an hour it is %s (%s)", j.State, j.Cause)
		}
	})
}
