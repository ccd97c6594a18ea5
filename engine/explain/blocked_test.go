package explain_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// desk is a lifecycle whose waits a timer ends. Its queue has no failure exit.
var desk = lc.Must("test.desk",
	lc.OnQueue("Laid", "a letter is laid on the desk", lc.OnPass("read", "Read", lc.Worker, "it is read"),
		lc.On("doubt", "Doubted", lc.Worker, "a person must read it"),
		lc.On("timeout", "Lapsed", lc.Timer, "the time is up")).Bounded("its attempts"),
	lc.OnWait("Doubted", "a person reads it", lc.On("again", "Laid", lc.Operator, "it is legible"),
		lc.On("timeout", "Lapsed", lc.Timer, "the time is up")),
	lc.OnEnd("Read", lc.OK, "it is read"),
	lc.OnEnd("Lapsed", lc.None, "it lapsed"),
)

// TestWhyNamesTheTimer checks that a job that rests, or waits behind a hold or a gate, names the time at which a timer
// moves it, and the state. Control: without a timeout, and before an earlier end of the wait.
func TestWhyNamesTheTimer(t *testing.T) {
	rests := func(ctx context.Context, r *engine.Run) error {
		return r.Rest(ctx, "doubt", job.Blocker{Code: "ink", Sentence: "the ink is pale"})
	}
	pending := func(until time.Duration) engine.Step {
		return func(context.Context, *engine.Run) error {
			return engine.Wait(job.Blocker{Code: "ink", Sentence: "the ink is wet", Until: time.Now().Add(until)})
		}
	}
	fails := func(context.Context, *engine.Run) error { return engine.Fail("ink", errBroken) }
	shut := func(context.Context, *job.Job) *job.Blocker {
		return &job.Blocker{Code: "night", Sentence: "it is dark", Holder: "the sun"}
	}
	const then = "; a timer moves it to Lapsed at 2000-01-01T01:00:00Z if it still waits then"
	for _, c := range []struct {
		name     string
		step     engine.Step
		gate     engine.Gate
		hold     bool
		timeout  time.Duration
		deadline time.Duration
		until    time.Duration
		sentence string
	}{
		{"at rest", rests, nil, false, time.Hour, 0, time.Hour, "the ink is pale" + then},
		{"attempts used up", fails, nil, false, time.Hour, 0, time.Hour,
			"attempt 1 of 5 failed, and Laid has no failure exit: the axle broke" + then},
		{"held", fails, nil, true, time.Hour, 0, time.Hour, "everything is on hold: flood" + then},
		{"behind a gate", fails, shut, false, time.Hour, 0, time.Hour, "it is dark" + then},
		{"a deadline", rests, nil, false, 0, time.Hour, time.Hour, "the ink is pale" + then},
		{"a longer wait", pending(2 * time.Hour), nil, false, time.Hour, 0, time.Hour, "the ink is wet" + then},
		{"control: a shorter wait", pending(time.Minute), nil, false, time.Hour, 0, time.Minute, "the ink is wet"},
		{"control: no timer at rest", rests, nil, false, 0, 0, -1, "the ink is pale"},
		{"control: no timer at a gate", fails, shut, false, 0, 0, -1, "it is dark"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				work := engine.Work{Life: desk, Prefix: "dsk", Policy: engine.Policy{Timeout: c.timeout},
					Steps: map[lc.State]engine.Step{"Laid": c.step}}
				if c.gate != nil {
					work.Gates = map[lc.State]engine.Gate{"Laid": c.gate}
				}
				w := start(t, mem.New(), engine.Options{}, work)
				defer w.stop()
				began, order := time.Now(), engine.Order{Kind: "test.desk"}
				if c.hold {
					if _, err := w.Operator().Hold(t.Context(), job.Scope{}, "ann", "flood", time.Time{}); err != nil {
						t.Fatal(err)
					}
				}
				if c.deadline > 0 {
					order.Deadline = began.Add(c.deadline)
				}
				id := w.post(order).ID
				synctest.Wait()
				x := w.why(id)
				if len(x.Blockers) != 1 || x.Blockers[0].Sentence != c.sentence {
					t.Fatalf("got %+v, want one: %s", x.Blockers, c.sentence)
				}
				b := x.Blockers[0]
				fits(t, b, began, max(b.Since.Sub(began), -1), c.until, b.Holder, "", "")
			})
		})
	}
}

// TestWhyGatePanics checks that a gate that panics is reported, as it is where it is called before a step.
func TestWhyGatePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := letters(nil)
		work.Gates = map[lc.State]engine.Gate{"Posted": func(context.Context, *job.Job) *job.Blocker {
			panic(errors.New("no lock"))
		}}
		w := start(t, mem.New(), engine.Options{}, work)
		defer w.stop()
		if _, err := w.Operator().Hold(t.Context(), job.Scope{}, "ann", "flood", time.Time{}); err != nil {
			t.Fatal(err)
		}
		x := w.why(w.post(engine.Order{}).ID)
		if len(x.Blockers) != 2 || x.Blockers[1].Code != cause.Panic ||
			x.Blockers[1].Sentence != "the gate for Posted panicked: no lock" {
			t.Errorf("got %+v", x.Blockers)
		}
	})
}

// TestWhyStateUnknown checks a job in a state that this version of its lifecycle does not have, with and without its
// definition among the adopted ones.
func TestWhyStateUnknown(t *testing.T) {
	old := lc.Must("test.letter",
		lc.OnQueue("Posted", "a sender brings it", lc.OnPass("begin", "Weighed", lc.Worker, "a clerk has time"),
			lc.OnFail("fail", "Lost", lc.Worker|lc.Timer, "it cannot be read")),
		lc.OnWork("Weighed", "a clerk weighs it", lc.OnPass("next", "Delivered", lc.Worker, "it has a weight"),
			lc.OnFail("fail", "Lost", lc.Worker|lc.Timer, "it has no weight")),
		lc.OnEnd("Delivered", lc.OK, "the addressee has it"), lc.OnEnd("Lost", lc.Failed, "it went wrong"))
	for _, adopts := range [][]string{nil, {old.Hash()}} {
		synctest.Test(t, func(t *testing.T) {
			store := mem.New()
			first := start(t, store, engine.Options{Name: "first"}, engine.Work{Life: old, Prefix: "let",
				Policy: engine.Policy{Timeout: time.Hour},
				Steps:  map[lc.State]engine.Step{"Posted": takes(0), "Weighed": blocked}})
			id := first.post(engine.Order{}).ID
			synctest.Wait()
			first.stop()
			work := letters(nil)
			work.Adopts = adopts
			w := start(t, store, engine.Options{Name: "second"}, work)
			defer w.stop()
			w.UseWorkers(func(context.Context, job.KindState, []string) explain.Takes { return explain.Takes{} })
			b := w.blocker(id, "definition")
			fits(t, b, b.Since, 0, -1, "the operator of the new version", "has no state Weighed",
				"let a version with the old definition finish it")
		})
	}
}

// TestWhyLacksLabels checks that a job whose labels the only engine lacks names them, not workers outside. Control: the
// engine has them.
func TestWhyLacksLabels(t *testing.T) {
	for _, labels := range [][]string{nil, {"gpu"}, {"gpu", "tape"}} {
		synctest.Test(t, func(t *testing.T) {
			work := letters(map[lc.State]engine.Step{"Sorting": blocked})
			work.Requires = map[lc.State][]string{"Posted": {"gpu"}}
			w := start(t, mem.New(), engine.Options{Labels: labels}, work)
			defer w.stop()
			id := w.post(engine.Order{Requires: []string{"tape"}}).ID
			synctest.Wait()
			want := map[int]string{0: "gpu, tape", 1: "tape"}[len(labels)]
			if want == "" {
				w.blocker(id, explain.BlockClaim)
				return
			}
			b := w.blocker(id, explain.BlockOutside)
			fits(t, b, b.Since, 0, -1, "workers with labels "+want,
				"Posted requires the labels "+want+", which this engine does not have",
				"stagepost serve --labels gpu,tape")
		})
	}
}
