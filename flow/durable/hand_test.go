package durable_test

import (
	"context"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
)

// TestRevertByHand: a revert that fails each time is done by a person, who states that; then the flow is rolled back to
// its end. The control is the same flow without the mark.
func TestRevertByHand(t *testing.T) {
	both(t, func(t *testing.T, store job.Store) {
		b := &callLog{}
		w := start(t, store, one(func() flow.Item {
			return flow.Linear("deploy", b.task("a"), b.task("b", func(t *flow.Task) {
				t.Revert = func(_ context.Context, c *flow.Call) (any, error) { b.note("-", c); return nil, errTask }
			}), b.task("c", b.failing(always)))
		}), engine.Options{})
		id := w.submit(order)
		w.end(id)
		mark := func(task, note string) error {
			_, err := w.flows.MarkReverted(t.Context(), w.Engine, task,
				operator.Act{Job: id, By: lc.Operator, Actor: "ann", Note: note})
			return err
		}
		w.do(id, flow.Run)
		w.until(id, func(j *job.Job) bool { return j.Ended && j.Retries == 1 })
		eq(t, "control", w.states(id), "a SUCCESS, b REVERT_FAILURE, c REVERTED")

		kindOf(t, mark("b", ""), job.Invalid)
		kindOf(t, mark("none", "why"), job.NotFound)
		kindOf(t, mark("c", "why"), job.Refused)
		if err := mark("b", "removed it in the console"); err != nil {
			t.Fatal(err)
		}
		eq(t, "marked", w.states(id), "a SUCCESS, b REVERTED, c REVERTED")
		v := w.view(id)
		eq(t, "remains", v.Remains, []string{"a"})
		for i := range v.Atoms[1:] { // what was reverted, and when
			a := &v.Atoms[i+1]
			if a.ExecuteBegan.IsZero() || a.ExecuteEnded.Before(a.ExecuteBegan) || a.Began.Before(a.ExecuteEnded) ||
				a.Ended.Before(a.Began) {
				t.Errorf("%s was executed from %s to %s and reverted from %s to %s", a.Name, a.ExecuteBegan, a.ExecuteEnded, a.Began, a.Ended)
			}
		}
		eq(t, "time of a revert manually", v.Atoms[1].Ended.Sub(v.Atoms[1].Began), time.Duration(0))
		eq(t, "counts", v.Data.Counts, map[lc.State]int{"REVERTED": 2, "SUCCESS": 1})
		eq(t, "said", v.Atoms[1].Reverted.Any(), map[string]any{"by_hand": "ann", "note": "removed it in the console"})
		kindOf(t, mark("b", "again"), job.Refused)
		w.do(id, flow.Run)
		j := w.until(id, func(j *job.Job) bool { return j.Ended && j.Retries == 2 })
		eq(t, "state", j.State, flow.Reverted)
		eq(t, "did", b.text(), "+a +b +c -c -b -b -a")
		kindOf(t, mark("a", "why"), job.Refused)
		w.verify(id)
	})
	both(t, func(t *testing.T, store job.Store) { // what was kept on purpose is not marked
		b := &callLog{}
		w := start(t, store, one(func() flow.Item {
			return flow.Linear("deploy", b.task("a"), flow.Wait("w", "go", 0))
		}), engine.Options{})
		id := w.submit(order)
		w.waits(id, durable.BlockSignal)
		w.do(id, flow.Halt)
		w.end(id)
		_, err := w.flows.MarkReverted(t.Context(), w.Engine, "a", operator.Act{Job: id, Actor: "ann", Note: "why"})
		kindOf(t, err, job.Refused)
	})
}
