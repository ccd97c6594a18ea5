package engine_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// letter is a small lifecycle: a queue, two work states, a wait for a person, and a retry to the state that failed.
var letter = lc.Must("test.letter",
	lc.OnQueue("Posted", "a sender brings it, a clerk takes it",
		lc.OnPass("begin", "Sorting", lc.Worker, "a clerk has time"),
		lc.On("hold", "Held", lc.Worker|lc.Operator, "its town is shut"),
		lc.OnFail("fail", "Lost", lc.Worker|lc.Timer, "it cannot be read")),
	lc.OnWait("Held", "its town is shut; an operator lets it go on",
		lc.On("release", "Posted", lc.Operator, "the town is open again"),
		lc.On("delete", "Burnt", lc.Operator, "it is not needed").Sets(lc.Cancelled)),
	lc.OnWork("Sorting", "a clerk reads the address",
		lc.OnPass("next", "Riding", lc.Worker, "the address is known"),
		lc.OnFail("fail", "Lost", lc.Worker|lc.Timer, "the address does not exist"),
		lc.OnFail("stop", "Lost", lc.Operator, "an operator takes it out")),
	lc.OnWork("Riding", "a coach carries it",
		lc.OnPass("finish", "Delivered", lc.Worker, "the addressee has it"),
		lc.OnFail("fail", "Lost", lc.Worker|lc.Timer, "the coach broke down")),
	lc.OnEnd("Delivered", lc.OK, "the addressee has it",
		lc.On("delete", "Burnt", lc.Operator|lc.Timer, "kept long enough")),
	lc.OnEnd("Lost", lc.Failed, "it went wrong somewhere",
		lc.OnReenter("retry", lc.Operator|lc.Owner, "try again where it went wrong", "Posted", "Sorting", "Riding"),
		lc.On("delete", "Burnt", lc.Operator|lc.Timer, "it is not needed")),
	lc.OnEnd("Burnt", lc.None, "only the record is left"),
)

// bag is a batch of letters.
var bag = lc.Must("test.bag",
	lc.OnQueue("Packed", "a sender brings it", lc.OnPass("begin", "Open", lc.Worker,
		"a clerk opens it")).Bounded("after its attempts it waits for a person"),
	lc.OnWork("Open", "its letters travel",
		lc.OnPass("report", "Emptied", lc.Engine, "all letters have ended"),
		lc.OnFail("fail", "Torn", lc.Worker|lc.Timer, "it holds nothing")),
	lc.OnEnd("Emptied", lc.OK, "all letters have ended"),
	lc.OnEnd("Torn", lc.Failed, "it held nothing"),
)

func letters(steps map[lc.State]engine.Step) engine.Work {
	all := map[lc.State]engine.Step{}
	for _, s := range []lc.State{"Posted", "Sorting", "Riding"} {
		all[s] = func(context.Context, *engine.Run) error { return nil }
	}
	for s, step := range steps {
		all[s] = step
	}
	return engine.Work{Life: letter, Prefix: "let", Steps: all}
}

// harness is an engine on a store in memory, inside a synctest bubble.
type harness struct {
	*engine.Engine
	t     *testing.T
	store job.Store
	stop  func()
}

func start(t *testing.T, store job.Store, o engine.Options, works ...engine.Work) *harness {
	t.Helper()
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewPCG(1, 2))
	}
	e, err := engine.New(store, works, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	synctest.Wait()
	return &harness{Engine: e, t: t, store: store, stop: func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}}
}

func (w *harness) post(o engine.Order) job.Job {
	w.t.Helper()
	if o.Kind == "" {
		o.Kind = "test.letter"
	}
	j, err := w.Submit(w.t.Context(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

func (w *harness) end(id job.ID) job.Job {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 24*time.Hour)
	defer cancel()
	j, err := w.Await(ctx, id, func(j *job.Job) bool { return j.Ended })
	if err != nil {
		w.t.Fatalf("%v (it is %s: %s)", err, j.State, j.Message)
	}
	return j
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
