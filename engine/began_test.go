package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// worked returns the entries of a history after the first, each with the time since the beginning of its work.
func (w *harness) worked(id job.ID) (all []string) {
	w.t.Helper()
	history, err := w.store.History(w.t.Context(), id, 1, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range history {
		took := "-"
		if !e.Began.IsZero() {
			took = e.At.Sub(e.Began).String()
		}
		all = append(all, fmt.Sprint(e.Event, " ", took))
	}
	return all
}

// TestBegan: the entries that a step makes have the beginning of their work: the claim or the move before.
func TestBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work, tries := relayWork(0, 0, 0), 0
		work.Steps["Ready"] = func(context.Context, *engine.Run) error {
			time.Sleep(time.Minute)
			return nil
		}
		work.Steps["Running"] = func(context.Context, *engine.Run) error {
			time.Sleep(2 * time.Minute)
			if tries++; tries == 1 {
				return engine.RetryAfter(10*time.Minute, errBroken)
			}
			return nil
		}
		walk := treks(func(ctx context.Context, r *engine.Run) error {
			for i, e := range []lc.Event{"go", "load", "rest", "go", "arrive"} {
				time.Sleep(time.Duration(i+1) * time.Second)
				if err := r.Move(ctx, e); err != nil {
					return err
				}
			}
			return nil
		})
		w := start(t, mem.New(), engine.Options{}, work, walk)
		defer w.stop()
		run := w.post(engine.Order{Kind: "test.relay", Due: w.Clock().Now().Add(time.Hour)})
		moved := w.post(aTrek)
		for id, want := range map[job.ID][]string{
			run.ID:   {"begin 1m0s", "backoff 2m0s", "finish 2m0s"},
			moved.ID: {"go 1s", "load 2s", "rest 3s", "go 4s", "arrive 5s"},
		} {
			w.end(id)
			if diff := cmp.Diff(want, w.worked(id)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			w.verify(id)
		}
	})
}

// TestBeganRemotely: so have the entries of reports, unless another server granted the claim. What a person does has
// none.
func TestBeganRemotely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		w := outside(t, store)
		w.post(engine.Order{})
		time.Sleep(time.Hour)
		j := w.acquire("post", 1)[0]
		time.Sleep(time.Minute)
		j = w.report("post", j, remote.Report{Again: true}).Job
		time.Sleep(2 * time.Minute)
		j = w.report("post", j, remote.Report{Keep: true, Data: []byte("1")}).Job
		other := outside(t, store)
		other.report("post", j, remote.Report{Yield: true})
		j = w.acquire("post", 1)[0]
		time.Sleep(3 * time.Minute)
		w.report("post", j, remote.Report{})
		want := []string{"begin 1m0s", "yield -", "next 3m0s"}
		if diff := cmp.Diff(want, w.worked(j.ID)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		w.verify(j.ID)
	})
}
