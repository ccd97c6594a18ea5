package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/enginetest"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// The lifecycles and steps of the tests.
var (
	letter, bag           = enginetest.Letter, enginetest.Bag
	letters, notes, bagOf = enginetest.Letters, enginetest.Notes, enginetest.BagOf
	takes, blocked        = enginetest.Takes, enginetest.Blocked
)

// harness is an engine on a store in memory, inside a synctest bubble.
type harness struct {
	*engine.Engine
	t     *testing.T
	store job.Store
	stop  func()
}

func start(t *testing.T, store job.Store, o engine.Options, works ...engine.Work) *harness {
	t.Helper()
	e, stop := enginetest.Start(t, store, o, works...)
	return &harness{Engine: e, t: t, store: store, stop: stop}
}

func (w *harness) post(o engine.Order) job.Job {
	w.t.Helper()
	return enginetest.Post(w.t, w.Engine, o)
}

func (w *harness) end(id job.ID) job.Job {
	w.t.Helper()
	return enginetest.End(w.t, w.Engine, id)
}

func (w *harness) get(id job.ID) job.Job {
	w.t.Helper()
	j, err := w.store.Get(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

func (w *harness) why(ctx context.Context, id job.ID, at time.Time) (api.Explanation, error) {
	return explain.New(w.Engine).Why(ctx, id, at)
}

func (w *harness) verify(id job.ID) {
	w.t.Helper()
	j := w.get(id)
	h, err := w.store.History(w.t.Context(), id, 0, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := job.Verify(j, h, w.Life(j.Kind)); err != nil {
		w.t.Errorf("%s: %v", id, err)
	}
}

var errBroken = errors.New("the axle broke")

func TestStraightThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(nil))
		defer w.stop()
		j := w.end(w.post(engine.Order{}).ID)
		if j.State != "Delivered" || j.Outcome != lc.OK || j.LastOK != "Riding" || j.Claimed() {
			t.Errorf("got %+v", j)
		}
		w.verify(j.ID)
	})
}

func TestRetryBacksOffAndFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{
			"Riding": func(context.Context, *engine.Run) error { tries++; return engine.Retry(errBroken) },
		}))
		defer w.stop()
		began := time.Now()
		j := w.end(w.post(engine.Order{}).ID)
		if j.State != "Lost" || j.Origin != "Riding" || j.Message != errBroken.Error() || tries != 5 {
			t.Errorf("got %s from %s (%q) after %d tries", j.State, j.Origin, j.Message, tries)
		}
		if took := time.Since(began); took < 12*time.Second || took > 18*time.Second {
			t.Errorf("1+2+4+8 s of backoff, a fifth more or less; got %s", took)
		}
		w.verify(j.ID)
		j, err := w.Do(t.Context(), operator.Act{Job: j.ID, Event: "retry", By: lc.Owner, Actor: "ann",
			Note: "new axle"})
		if err != nil || j.State != "Riding" || j.Retries != 1 || j.Outcome != lc.None {
			t.Fatalf("retry: %+v, %v", j.Position, err)
		}
		if j = w.end(j.ID); tries != 10 || j.Outcome != lc.Failed {
			t.Errorf("the retry starts a new count: got %d tries, outcome %s", tries, j.Outcome)
		}
		w.verify(j.ID)
	})
}

func TestPanicIsTriedOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{
			"Sorting": func(context.Context, *engine.Run) error { tries++; panic("no such letter") },
		}))
		defer w.stop()
		if j := w.end(w.post(engine.Order{}).ID); tries != 2 || j.Cause != cause.Panic {
			t.Errorf("got %d tries and cause %q", tries, j.Cause)
		}
	})
}

func TestBatchReportsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1200
		w := start(t, mem.New(), engine.Options{Slots: 8}, letters(nil), engine.Work{
			Life: bag, Prefix: "bag", Steps: map[lc.State]engine.Step{
				"Packed": func(context.Context, *engine.Run) error { return nil },
				"Open": func(ctx context.Context, r *engine.Run) error {
					if err := r.Spawn(ctx, n, func(int) (engine.Order, error) {
						return engine.Order{Kind: "test.letter"}, nil
					}); err != nil {
						return err
					}
					return r.WaitChildren()
				},
			},
		})
		defer w.stop()
		j := w.end(w.post(engine.Order{Kind: "test.bag"}).ID)
		if j.State != "Emptied" || j.Children.OK != n || j.Children.Expected != n {
			t.Errorf("got %s with %+v", j.State, j.Children)
		}
		w.verify(j.ID)
	})
}

func TestGracefulStopGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		entered := make(chan struct{}, 1)
		w := start(t, store, engine.Options{}, letters(map[lc.State]engine.Step{
			"Sorting": func(ctx context.Context, r *engine.Run) error {
				entered <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			},
		}))
		j := w.post(engine.Order{})
		<-entered
		w.stop()
		if j = w.get(j.ID); j.Claimed() || j.State != "Sorting" || j.Attempts != 0 || j.Starts != 0 {
			t.Errorf("got %+v", j)
		}
		w2 := start(t, store, engine.Options{}, letters(nil))
		defer w2.stop()
		if j = w2.end(j.ID); j.Outcome != lc.OK {
			t.Errorf("got %s", j.Outcome)
		}
		w2.verify(j.ID)
	})
}

func TestHoldKeepsAndReleaseMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(nil))
		defer w.stop()
		if _, err := w.Operator().Hold(t.Context(), job.Scope{Group: "maps"}, "ann", "flood", time.Time{}); err != nil {
			t.Fatal(err)
		}
		j := w.post(engine.Order{Group: "maps"})
		time.Sleep(time.Minute)
		why, err := w.why(t.Context(), j.ID, time.Time{})
		if err != nil || len(why.Blockers) != 1 || why.Blockers[0].Code != cause.Hold ||
			why.Blockers[0].Holder != "ann" {
			t.Fatalf("got %+v, %v", why.Blockers, err)
		}
		if _, err := w.Operator().Release(t.Context(), job.Scope{Group: "maps"}, "ann", "over"); err != nil {
			t.Fatal(err)
		}
		if j = w.end(j.ID); j.Outcome != lc.OK {
			t.Errorf("got %s", j.Outcome)
		}
	})
}
