package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestSubmitTwiceIsOneJob checks that two submissions of one key or id, in sequence, concurrently or in one call, make
// one job and one run of its step.
func TestSubmitTwiceIsOneJob(t *testing.T) {
	one := engine.Order{Kind: "test.letter", Owner: "ann"}
	keyed, ided := one, one
	keyed.Key, ided.ID = "k", "let_01J9Z3"
	for _, c := range []struct {
		name   string
		order  engine.Order
		submit func(*harness, engine.Order)
		jobs   int32
	}{
		{"key, in turn", keyed, inTurn, 1},
		{"key, at once", keyed, atOnce, 1},
		{"key, in one call", keyed, inOneCall, 1},
		{"id, in turn", ided, inTurn, 1},
		{"id, at once", ided, atOnce, 1},
		{"id, in one call", ided, inOneCall, 1},
		{"control: neither", one, inTurn, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var runs atomic.Int32
				work := letters(map[lc.State]engine.Step{"Posted": func(ctx context.Context, r *engine.Run) error {
					runs.Add(1)
					return takes(time.Minute)(ctx, r)
				}})
				w := start(t, mem.New(), engine.Options{}, work)
				defer w.stop()
				c.submit(w, c.order)
				settle(t, w.store)
				if n := runs.Load(); n != c.jobs {
					t.Errorf("the step ran %d times, want %d", n, c.jobs)
				}
			})
		})
	}
}

func inTurn(w *harness, o engine.Order) {
	for range 5 {
		w.post(o)
		synctest.Wait()
	}
}

func atOnce(w *harness, o engine.Order) {
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if _, err := w.Submit(w.t.Context(), o); err != nil {
				w.t.Error(err)
			}
		})
	}
	all.Wait()
}

func inOneCall(w *harness, o engine.Order) {
	if _, err := w.SubmitAll(w.t.Context(), o, o, o); err != nil {
		w.t.Error(err)
	}
}

// TestPriorityOfOrders: an order without a priority gets the default; an explicit 0 stays 0.
func TestPriorityOfOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(nil))
		defer w.stop()
		for want, p := range map[int]*int{job.DefaultPriority: nil, job.FirstPriority: new(0),
			job.LastPriority: new(99)} {
			if j := w.get(w.post(engine.Order{Priority: p}).ID); j.Priority != want {
				t.Errorf("got %d, want %d", j.Priority, want)
			}
		}
	})
}

// TestSubmitRefuses checks that an invalid order creates no job of its call.
func TestSubmitRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(nil))
		defer w.stop()
		for i, bad := range []engine.Order{
			{Kind: "test.parcel"}, {Kind: "test.letter", Priority: new(100)}, {Kind: "test.letter", Priority: new(-1)},
			{Kind: "test.letter", Spec: func() {}},
		} {
			_, err := w.SubmitAll(t.Context(), engine.Order{Kind: "test.letter", Key: fmt.Sprint(i)}, bad)
			if job.KindOf(err) != job.Invalid {
				t.Errorf("%d: got %v", i, err)
			}
		}
		if _, err := w.Submit(t.Context(), engine.Order{Kind: "test.letter",
			Parent: "bag_none"}); job.KindOf(err) != job.NotFound {
			t.Errorf("no parent: got %v", err)
		}
		if page, err := w.store.List(t.Context(), job.Query{}); err != nil || len(page.Jobs) != 0 {
			t.Errorf("there are %d jobs, %v", len(page.Jobs), err)
		}
	})
}

// TestSubmitWhoseFateIsUnknown checks that a submission with a key may be repeated, whether it was applied or not.
func TestSubmitWhoseFateIsUnknown(t *testing.T) {
	for _, f := range []fate{refused, unheard} {
		synctest.Test(t, func(t *testing.T) {
			store := mem.New()
			m := startKillable(t, store, engine.Options{}, letters(nil))
			defer m.stop()
			m.line.decide(func(op string, nth int) fate {
				if op == "Create" && nth == 1 {
					return f
				}
				return answered
			})
			o := engine.Order{Kind: "test.letter", Key: "k"}
			if _, err := m.Submit(t.Context(), o); job.KindOf(err) != job.Unavailable {
				t.Fatalf("got %v", err)
			}
			j := m.end(m.post(o).ID)
			page, err := store.List(t.Context(), job.Query{})
			if err != nil || len(page.Jobs) != 1 || j.Outcome != lc.OK {
				t.Errorf("%d jobs, %s, %v", len(page.Jobs), j.Outcome, err)
			}
			if got := m.times(j.ID, "begin"); got != 1 {
				t.Errorf("it began %d times", got)
			}
		})
	}
}

// J
func TestSubmissionDoesNotOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		w := start(t, mem.New(), engine.Options{Slots: 1, Sweep: time.Hour},
			letters(map[lc.State]engine.Step{"Posted": func(ctx context.Context, r *engine.Run) error {
				order = append(order, r.Job().Group)
				return takes(time.Minute)(ctx, r)
			}}))
		defer w.stop()
		if _, err := w.Operator().Hold(t.Context(), job.Scope{}, "ann", "flood", time.Time{}); err != nil {
			t.Fatal(err)
		}
		w.post(engine.Order{Owner: "ann", Group: "old"})
		// a slot is free and the dispatcher has not run yet
		if _, err := w.store.Release(t.Context(), job.Hold{}); err != nil {
			t.Fatal(err)
		}
		w.post(engine.Order{Owner: "ben", Group: "new"})
		settle(t, w.store)
		if order[0] != "old" {
			t.Errorf("got %v", order)
		}
	})
}
