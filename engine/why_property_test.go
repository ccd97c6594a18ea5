package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

var errand = lc.Must("test.errand",
	lc.OnQueue("Asked", "somebody asks, a runner takes it",
		lc.OnPass("begin", "Running", lc.Worker, "a runner is free"),
		lc.On("hold", "Held", lc.Operator, "an operator stops it"),
		lc.OnFail("fail", "Failed", lc.Worker|lc.Timer, "it is damaged")),
	lc.OnWait("Held", "an operator stopped it and lets it go on",
		lc.On("release", "Asked", lc.Operator, "it may go on")),
	lc.OnWork("Running", "the runner runs",
		lc.OnPass("finish", "Done", lc.Worker, "the runner is back"),
		lc.OnFail("fail", "Failed", lc.Worker|lc.Timer, "the runner fell")),
	lc.OnEnd("Done", lc.OK, "it is done"),
	lc.OnEnd("Failed", lc.Failed, "it failed", lc.OnReenter("retry", lc.Operator, "once more", "Asked", "Running")),
)

// frozen is a clock that does not advance.
type frozen time.Time

func (f frozen) Now() time.Time  { return time.Time(f) }
func (f frozen) Wall() time.Time { return time.Time(f) }

// TestWhyIsEmptyExactlyWhenTheJobMoves builds random simulations, explains every job, lets one tick pass and compares.
func TestWhyIsEmptyExactlyWhenTheJobMoves(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		shut := map[string]bool{}
		for _, g := range []string{"a", "b", "c"} {
			shut[g] = rapid.Bool().Draw(t, "shut")
		}
		step := func(context.Context, *engine.Run) error { return nil }
		w := engine.Work{
			Life: errand, Prefix: "err", Steps: map[lc.State]engine.Step{"Asked": step, "Running": step},
			Gates: map[lc.State]engine.Gate{"Running": func(_ context.Context, j *job.Job) *job.Blocker {
				if shut[j.Group] {
					return &job.Blocker{Code: "shut", Sentence: "the gate is shut"}
				}
				return nil
			}},
			Policies: map[lc.State]engine.Policy{"Running": {Serial: true}},
		}
		if rapid.Bool().Draw(t, "limited") {
			w.Limits = []job.Limit{{
				Name: "few", Kind: "test.errand", Guard: []lc.State{"Asked"}, Occupy: []lc.State{"Running"},
				PerOwner: rapid.Bool().Draw(t, "per owner"), Max: rapid.IntRange(0, 4).Draw(t, "max"),
			}}
		}
		store := mem.New()
		e, err := engine.New(store, []engine.Work{w},
			engine.Options{Clock: frozen(now), Slots: rapid.IntRange(1, 12).Draw(t, "slots")})
		if err != nil {
			t.Fatal(err)
		}
		open := rapid.IntRange(0, 9).Draw(t, "open") > 0
		ids := populate(ctx, t, e, store, now) // it is closed: nothing is claimed meanwhile
		e.SetOpen(open)
		explainer := explain.New(e)
		before := map[job.ID]int64{}
		why := map[job.ID]api.Explanation{}
		for _, id := range ids {
			if why[id], err = explainer.Why(ctx, id, time.Time{}); err != nil {
				t.Fatal(err)
			}
			j, _ := store.Get(ctx, id)
			before[id] = j.Seq
		}
		if err := e.Tick(ctx); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			moved := movedSince(ctx, t, store, id, before[id])
			if x := why[id]; moved != (len(x.Blockers) == 0) {
				t.Fatalf("%s in %s: moved %v, blockers %+v, not %v", id, x.Position.State, moved, x.Blockers, x.Not)
			}
		}
	})
}

func populate(ctx context.Context, t *rapid.T, e *engine.Engine, store job.Store, now time.Time) []job.ID {
	var ids []job.ID
	for i := range rapid.IntRange(1, 12).Draw(t, "jobs") {
		o := engine.Order{
			Kind: "test.errand", Priority: new(rapid.IntRange(0, 3).Draw(t, "priority")),
			Group: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "group"), Owner: fmt.Sprint("o",
				rapid.IntRange(0, 2).Draw(t, "owner")),
		}
		if rapid.IntRange(0, 4).Draw(t, "later") == 0 {
			o.Due = now.Add(time.Hour)
		}
		if rapid.IntRange(0, 4).Draw(t, "deadline") == 0 {
			o.Deadline = now.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "hours")) * time.Hour)
		}
		j, err := e.Submit(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, j.ID)
		switch rapid.IntRange(0, 5).Draw(t, "fate") {
		case 0:
			_, err = e.Do(ctx, operator.Act{Job: j.ID, Event: "hold", By: lc.Operator, Actor: "ann"})
		case 1, 2: // on to Running, unclaimed
			err = e.Advance(ctx, &j, "begin", now)
		case 3: // claimed by another worker, perhaps long ago
			_, err = store.Claim(ctx, job.Claim{
				Worker: fmt.Sprint("other", i), From: e.SharedStates(), N: 1, Now: now,
				Lease: time.Duration(rapid.IntRange(-1, 1).Draw(t, "lease")) * time.Minute,
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "holds") {
		s := job.Scope{Group: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "scope")}
		s.State = rapid.SampledFrom([]lc.State{"", "Asked", "Running"}).Draw(t, "scope state")
		s.Job = rapid.SampledFrom(append(ids, "")).Draw(t, "scope job")
		if _, err := e.Operator().Hold(ctx, s, "ann", "because",
			now.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "ends"))*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

func movedSince(ctx context.Context, t *rapid.T, store job.Store, id job.ID, seq int64) bool {
	history, err := store.History(ctx, id, seq, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range history {
		if h.Event != lc.Waiting {
			return true
		}
	}
	return false
}
