package engine_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// remover removes the kind test.letter when the first letter is created, before the store has it.
type remover struct {
	job.Store
	engine *engine.Engine
	result chan error // of Unregister; nil: it has been called
}

func (r *remover) Create(ctx context.Context, jobs ...job.Created) ([]job.Job, error) {
	r.remove(jobs)
	return r.Store.Create(ctx, jobs...)
}

func (r *remover) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	for i := range changes {
		r.remove(changes[i].Spawn)
	}
	return r.Store.Commit(ctx, changes...)
}

// remove calls Unregister. Without the lock that creations hold, it waits for the result: Unregister then counts before
// the letter is stored, and the test fails.
func (r *remover) remove(jobs []job.Created) {
	if len(jobs) == 0 || jobs[0].Job.Kind != "test.letter" || cap(r.result) > 0 {
		return
	}
	r.result = make(chan error, 1)
	if r.engine.CanRegister() {
		r.result <- r.engine.Unregister(context.Background(), "test.letter")
		return
	}
	go func() { r.result <- r.engine.Unregister(context.Background(), "test.letter") }()
}

// TestUnregisterDuringACreation removes a kind while a job of it is created in each of the ways that there are:
// Unregister counts the job, and the kind stays.
func TestUnregisterDuringACreation(t *testing.T) {
	spawn := &remote.Report{Spawn: &remote.Spawn{Expected: 1, From: 1, Jobs: []remote.Child{{Kind: "test.letter"}}}}
	reporting := bagOf(1, "test.letter")
	reporting.Steps["Open"] = func(ctx context.Context, r *engine.Run) error { return r.Report(ctx, spawn) }
	for _, c := range []struct {
		name   string
		bags   engine.Work
		create func(w *harness)
	}{
		{"Submit", bagOf(0, "test.letter"), func(w *harness) { w.post(engine.Order{}) }},
		{"Run.Spawn", bagOf(1, "test.letter"), func(w *harness) { w.post(engine.Order{Kind: "test.bag"}) }},
		{"Run.Report", reporting, func(w *harness) { w.post(engine.Order{Kind: "test.bag"}) }},
		{"Workers.Report", outward(bagOf(0, "test.letter")), func(w *harness) {
			w.post(engine.Order{Kind: "test.bag"})
			packed := []job.KindState{{Kind: "test.bag", State: "Packed"}}
			bags, err := w.Remote().Claim(w.t.Context(), remote.Claim{Worker: "ada", From: packed, N: 1})
			if err != nil || len(bags) != 1 {
				w.t.Fatalf("got %d bags, %v", len(bags), err)
			}
			if got := w.report("ada", bags[0], remote.Report{Spawn: spawn.Spawn, Keep: true}); got.Err != nil {
				w.t.Error(got.Err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &remover{Store: mem.New()}
				work := letters(map[lc.State]engine.Step{"Posted": blocked})
				work.Slots, work.Outside = 1, true
				w := start(t, store, engine.Options{}, c.bags, work)
				defer w.stop()
				store.engine = w.Engine
				c.create(w)
				synctest.Wait()
				if err := <-store.result; job.KindOf(err) != job.Refused ||
					!strings.Contains(err.Error(), "jobs of the kind test.letter: 1;") {
					t.Errorf("got %v, want Refused", err)
				}
				if w.Life("test.letter") == nil {
					t.Error("the kind is removed, and has a job")
				}
			})
		})
	}
}

// TestUnregister removes a kind whose jobs are all deleted, and nothing else.
func TestUnregister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := letters(nil)
		work.Slots = 1
		w := start(t, mem.New(), engine.Options{}, work, bagOf(0, "test.letter"))
		defer w.stop()
		if err := w.Unregister(t.Context(), "test.bag"); job.KindOf(err) != job.Invalid {
			t.Errorf("a kind in the common slots: got %v", err)
		}
		j := w.end(w.post(engine.Order{}).ID)
		if err := w.Unregister(t.Context(), "test.letter"); job.KindOf(err) != job.Refused {
			t.Errorf("with a job that has ended: got %v", err)
		}
		act := operator.Act{Job: j.ID, Event: "delete", By: lc.Operator, Actor: "ada"}
		if _, err := w.Do(t.Context(), act); err != nil {
			t.Fatal(err)
		}
		if err := w.Unregister(t.Context(), "test.letter"); err != nil {
			t.Errorf("with a deleted job: %v", err)
		}
		if _, err := w.Submit(t.Context(), engine.Order{Kind: "test.letter"}); job.KindOf(err) != job.Invalid {
			t.Errorf("a job of a removed kind: got %v", err)
		}
		if err := w.Unregister(t.Context(), "test.letter"); job.KindOf(err) != job.NotFound {
			t.Errorf("a removed kind: got %v", err)
		}
		if err := w.Register(t.Context(), work); err != nil {
			t.Errorf("added again: %v", err)
		}
		if j := w.end(w.post(engine.Order{}).ID); j.State != "Delivered" {
			t.Errorf("got %+v", j)
		}
	})
}
