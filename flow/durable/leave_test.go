package durable_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/flow/flowtest"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// TestStopDoesNotWaitForEver: a task that takes longer than the engine's grace is interrupted, and done again by the
// next worker with the same key.
func TestStopDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, b, began, may := mem.New(), &callLog{}, make(chan string, 2), make(chan struct{})
		o := one(func() flow.Item { return flow.Linear("deploy", b.task("a"), b.task("b", b.held(began, may))) })
		w := start(t, store, o, engine.Options{Grace: time.Second})
		id := w.submit(order)
		<-began
		w.stop()
		if j := w.verify(id); j.State != flow.Running || j.Claimed() || j.Attempts != 0 {
			t.Errorf("got %+v", j)
		}
		close(may)
		w = start(t, store, o, engine.Options{})
		eq(t, "state", w.end(id).State, flow.Success)
		eq(t, "did", b.text(), "+a +b +b")
		eq(t, "keys", len(b.keys), 2)
		eq(t, "events", w.events(id), "create run yield finish")
	})
}

// TestMissingAtRun: a flow that requires more than when it was ordered ends in FAILURE without anything done.
func TestMissingAtRun(t *testing.T) {
	b, calls := &callLog{}, 0
	factory := func(json.RawMessage) (flow.Item, error) {
		if calls++; calls == 1 {
			return flow.Linear("deploy", b.task("a")), nil
		}
		return flow.Linear("deploy", b.task("a", needs("x"))), nil
	}
	w := start(t, mem.New(), durable.Options{Factories: map[string]durable.Factory{"f": factory}}, engine.Options{})
	j := w.end(w.submit(order))
	eq(t, "state", j.State, flow.FailureState)
	eq(t, "cause", j.Cause, durable.CauseMissing)
	contains(t, j.Message, "a requires x")
	eq(t, "did", b.text(), "")
}

// TestSettings: each flow has its own, with workers of its own.
func TestSettings(t *testing.T) {
	b := &callLog{}
	o := one(func() flow.Item { return flow.Linear("deploy", b.task("a"), b.task("b", b.failing(always))) })
	attached := &flowtest.Capture{}
	o.Attach = func(_ job.ID, item flow.Item) []flow.Listener { return []flow.Listener{attached.Listen} }
	w := start(t, mem.New(), o, engine.Options{})
	asIs := order
	asIs.Settings = durable.Settings{NeverResolve: true, Workers: 3}
	id := w.submit(asIs)
	eq(t, "state", w.end(id).State, flow.FailureState)
	eq(t, "did", b.text(), "+a +b")
	eq(t, "remains", w.view(id).Remains, []string{"a", "b"})
	if _, err := attached.Await(t.Context(), flowtest.Reached("deploy", flow.FailureState)); err != nil {
		t.Error(err)
	}
	if _, err := durable.Open(t.Context(), w.store, "flw_none"); job.KindOf(err) != job.NotFound {
		t.Errorf("got %v", err)
	}
}
