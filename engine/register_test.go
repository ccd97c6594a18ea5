package engine_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// changed is the lifecycle of letters with one more transition, and so another definition.
func changed() *lc.Table {
	stages := letter.Stages()
	stages[0].Transitions = append(stages[0].Transitions, lc.OnFail("burn", "Lost", lc.Operator, "it is dangerous"))
	return lc.Must("test.letter", stages...)
}

// TestRegisterWhileRunning adds a kind to a running engine, replaces its steps, and refuses another definition while a
// job is open.
func TestRegisterWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, engine.Work{Life: bag, Prefix: "bag", Outside: true})
		defer w.stop()
		if _, err := w.Submit(t.Context(), engine.Order{Kind: "test.letter"}); job.KindOf(err) != job.Invalid {
			t.Errorf("before: got %v", err)
		}
		work := letters(nil)
		work.Slots = 2
		if err := w.Register(t.Context(), work); err != nil {
			t.Fatal(err)
		}
		if j := w.end(w.post(engine.Order{}).ID); j.State != "Delivered" {
			t.Errorf("got %+v", j)
		}
		work.Steps["Riding"] = func(context.Context, *engine.Run) error {
			return engine.Wait(job.Blocker{Code: "snow", Sentence: "shut", Until: later})
		}
		if err := w.Register(t.Context(), work); err != nil {
			t.Fatal(err)
		}
		id := w.post(engine.Order{}).ID
		synctest.Wait()
		if j := w.get(id); j.State != "Riding" || j.Cause != "snow" {
			t.Fatalf("got %+v", j)
		}
		other := letters(nil)
		other.Life, other.Slots = changed(), 2
		if err := w.Register(t.Context(), other); job.KindOf(err) != job.Refused ||
			!strings.Contains(err.Error(), string(id)) {
			t.Errorf("another definition: got %v", err)
		}
		adopting := other
		adopting.Adopts = []string{letter.Hash()}
		if err := w.Register(t.Context(), adopting); err != nil {
			t.Errorf("the control, with the old definition adopted: %v", err)
		}
		if j := w.end(id); j.State != "Delivered" {
			t.Errorf("got %+v", j)
		}
		if err := w.Register(t.Context(), other); err != nil {
			t.Errorf("with no open job: %v", err)
		}
		other.Slots = 0
		if err := w.Register(t.Context(), other); job.KindOf(err) != job.Invalid {
			t.Errorf("without slots: got %v", err)
		}
	})
}
