package durable_test

import (
	"testing"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
)

// TestRemovedTaskRemains: a flow that goes on without a task that was done, and fails, is in FAILURE and names the task
// until a person has reverted it.
func TestRemovedTaskRemains(t *testing.T) {
	both(t, func(t *testing.T, store job.Store) {
		b := &callLog{}
		w := start(t, store, one(func() flow.Item {
			return flow.Linear("deploy", b.task("a"), b.task("b"), flow.Wait("approval", "approved", 0), b.task("c"))
		}), engine.Options{})
		id := w.submit(order)
		w.waits(id, durable.BlockSignal)
		w.stop()
		o := one(func() flow.Item {
			return flow.Linear("deploy", b.task("b"), flow.Wait("approval", "approved", 0),
				b.task("c", b.failing(always)))
		})
		o.Upgrade = flow.AcceptChanges
		w = start(t, store, o, engine.Options{})
		w.signal(id, "approved", true)
		j := w.end(id)
		eq(t, "state", j.State, flow.FailureState)
		contains(t, j.Message, "a is SUCCESS and was removed from the flow")
		eq(t, "atoms", w.states(id), "b REVERTED, approval REVERTED, c REVERTED, a SUCCESS")
		eq(t, "remains", w.view(id).Remains, []string{"a"})
		if _, err := w.flows.MarkReverted(t.Context(), w.Engine, "a",
			operator.Act{Job: id, By: lc.Operator, Actor: "ann", Note: "deleted"}); err != nil {
			t.Fatal(err)
		}
		w.do(id, flow.Run)
		eq(t, "state", w.until(id, func(j *job.Job) bool { return j.Ended && j.Retries == 1 }).State, flow.Reverted)
		eq(t, "did", b.text(), "+a +b +c -c -b")
		w.verify(id)
	})
}

// TestReshapedFlow: tasks that change their positions, or provide another name, after they have run end the flow as
// changed.
func TestReshapedFlow(t *testing.T) {
	b := &callLog{}
	wait := func() *flow.Task { return flow.Wait("approval", "approved", 0) }
	for _, c := range []struct {
		name, want string
		now        func() flow.Item
	}{
		{"swapped", "b does not come after a any more", func() flow.Item {
			return flow.Linear("deploy", b.task("b"), b.task("a"), wait())
		}},
		{"unordered", "b does not come after a any more", func() flow.Item {
			return flow.Linear("deploy", flow.Unordered("both", b.task("b"), b.task("a")), wait())
		}},
		{"another name", `a does not provide "a" any more`, func() flow.Item {
			return flow.Linear("deploy", b.task("a", func(t *flow.Task) { t.Result = flow.One("z") }), b.task("b"),
				wait())
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			both(t, func(t *testing.T, store job.Store) {
				old := func() flow.Item { return flow.Linear("deploy", b.task("a"), b.task("b"), wait()) }
				if c.name == "unordered" {
					old = func() flow.Item {
						return flow.Linear("deploy", flow.Linear("both", b.task("a"), b.task("b")), wait())
					}
				}
				w := start(t, store, one(old), engine.Options{})
				id := w.submit(order)
				w.waits(id, durable.BlockSignal)
				w.stop()
				w = start(t, store, one(c.now), engine.Options{})
				w.signal(id, "approved", true)
				j := w.end(id)
				eq(t, "state", j.State, flow.FailureState)
				eq(t, "cause", j.Cause, durable.CauseChanged)
				contains(t, j.Message, c.want)
				contains(t, j.Message, "Options.Upgrade")
				w.stop() // the code is right again
				w = start(t, store, one(old), engine.Options{})
				w.do(id, flow.Run)
				eq(t, "state", w.until(id, func(j *job.Job) bool { return j.Ended && j.Retries == 1 }).State,
					flow.Success)
			})
		})
	}
}
