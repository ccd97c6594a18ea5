package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/flow/flowtest"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestSuccess is K01, with what stands in the records afterwards.
func TestSuccess(t *testing.T) {
	both(t, func(t *testing.T, store job.Store) {
		b, seen := &callLog{}, &flowtest.Capture{}
		o := one(func() flow.Item {
			return flow.Linear("deploy", b.task("a"), flow.Unordered("middle", b.task("b", needs("a")), b.task("c")),
				b.task("d", needs("b")))
		})
		o.Listeners = []flow.Listener{seen.Listen}
		w := start(t, store, o, engine.Options{})
		id := w.submit(order)
		j := w.end(id)
		eq(t, "state", j.State, flow.Success)
		eq(t, "events", w.events(id), "create run finish")
		eq(t, "atoms", w.states(id), "a SUCCESS, b SUCCESS, c SUCCESS, d SUCCESS")
		d, err := durable.DataOf(&j)
		if err != nil || d.Name != "deploy" || d.Counts[flow.Success] != 4 || len(d.Counts) != 1 {
			t.Errorf("data %+v, %v", d, err)
		}
		v := w.view(id)
		eq(t, "result", v.Atoms[3].Result.Any(), "did d")
		if v.Outline == nil || len(v.Remains)+len(v.Awaits) > 0 || v.Spec.Factory != "f" {
			t.Errorf("view %+v", v)
		}
		// notified after it is stored
		if _, err := seen.Await(t.Context(), flowtest.Reached("deploy", flow.Success)); err != nil {
			t.Fatal(err)
		}
		if changes := seen.Changes(); len(changes) != 10 || changes[0] != "deploy RUNNING" ||
			changes[9] != "deploy SUCCESS" {
			t.Errorf("got %v", changes)
		}
		for _, e := range seen.Events() {
			eq(t, "id", e.ID, id)
		}
		w.do(id, flow.Run) // nothing is new: it ends again at once
		w.until(id, func(j *job.Job) bool { return j.Ended && j.Retries == 1 })
		eq(t, "events", w.events(id), "create run finish run finish")
		eq(t, "executions", len(b.keys), 4)
	})
}

// TestRevert is K02.
func TestRevert(t *testing.T) {
	both(t, func(t *testing.T, store job.Store) {
		b := &callLog{}
		w := start(t, store, one(func() flow.Item {
			return flow.Linear("deploy", b.task("a"), b.task("b"), b.task("c", b.failing(always)))
		}), engine.Options{})
		id := w.submit(order)
		j := w.end(id)
		eq(t, "state", j.State, flow.Reverted)
		eq(t, "did", b.text(), "+a +b +c -c -b -a")
		eq(t, "atoms", w.states(id), "a REVERTED, b REVERTED, c REVERTED")
		eq(t, "cause", j.Cause, durable.CauseReverted)
		contains(t, j.Message, errTask.Error())
	})
}

// TestRevertFails ends in FAILURE with what remains; run again, the revert is tried again.
func TestRevertFails(t *testing.T) {
	both(t, func(t *testing.T, store job.Store) {
		b, broken := &callLog{}, true
		w := start(t, store, one(func() flow.Item {
			return flow.Linear("deploy", b.task("a"), b.task("b", func(t *flow.Task) {
				t.Revert = func(_ context.Context, c *flow.Call) (any, error) {
					if b.note("-", c); broken {
						return nil, errTask
					}
					return nil, nil
				}
			}), b.task("c", b.failing(always)))
		}), engine.Options{})
		id := w.submit(order)
		j := w.end(id)
		eq(t, "state", j.State, flow.FailureState)
		eq(t, "atoms", w.states(id), "a SUCCESS, b REVERT_FAILURE, c REVERTED")
		eq(t, "remains", w.view(id).Remains, []string{"a", "b"})
		if j.Cause == "" || j.Message == "" {
			t.Errorf("cause %q, message %q", j.Cause, j.Message)
		}
		w.do(id, flow.Run)
		w.until(id, func(j *job.Job) bool { return j.Ended && j.Retries == 1 })
		eq(t, "tried again", b.times("-b"), 2)
		broken = false
		w.do(id, flow.Run)
		j = w.until(id, func(j *job.Job) bool { return j.Ended && j.Retries == 2 })
		eq(t, "state", j.State, flow.Reverted)
		eq(t, "did", b.text(), "+a +b +c -c -b -b -b -a")
		eq(t, "remains", len(w.view(id).Remains), 0)
		w.verify(id)
	})
}

func TestRetry(t *testing.T) {
	both(t, func(t *testing.T, store job.Store) {
		b := &callLog{}
		w := start(t, store, one(func() flow.Item {
			return flow.Linear("deploy", b.task("a"),
				flow.Linear("inner", b.task("b"), b.task("c",
					b.failing(func(c *flow.Call) bool { return c.Attempt < 3 }))).With(flow.Times(3)))
		}), engine.Options{})
		id := w.submit(order)
		eq(t, "state", w.end(id).State, flow.Success)
		eq(t, "did", b.text(), "+a +b +c -c -b +b +c -c -b +b +c")
		if v := w.view(id); v.Atoms[1].Kind != flow.KindRetry || len(v.Atoms[1].History) != 3 {
			t.Errorf("got %+v", v.Atoms[1])
		}
		for key, n := range b.keys {
			if n != 1 {
				t.Errorf("%s was used %d times", key, n)
			}
		}
	})
}

// TestSuspendWhileATaskRuns: its result is kept, nothing new is begun, nothing is run twice.
func TestSuspendWhileATaskRuns(t *testing.T) {
	for _, workers := range []int{0, 1} {
		both(t, func(t *testing.T, store job.Store) {
			b, began, may := &callLog{}, make(chan string, 1), make(chan struct{})
			w := start(t, store, one(func() flow.Item {
				return flow.Linear("deploy", b.task("a"), b.task("b", b.held(began, may)), b.task("c"))
			}), engine.Options{})
			o := order
			o.Settings.Workers = workers
			id := w.submit(o)
			<-began
			if j := w.do(id, flow.Suspend); j.State != flow.Suspending || !j.Claimed() {
				t.Errorf("got %s, claimed %t", j.State, j.Claimed())
			}
			close(may)
			j := w.until(id, func(j *job.Job) bool { return j.State == flow.Suspended })
			eq(t, "claimed", j.Claimed(), false)
			eq(t, "atoms", w.states(id), "a SUCCESS, b SUCCESS, c PENDING")
			why, err := explain.New(w.Engine).Why(t.Context(), id, time.Time{})
			if err != nil || len(why.Blockers) != 1 || why.Blockers[0].Code != durable.BlockSuspended ||
				why.Blockers[0].Sentence != "it is suspended by ann: because" {
				t.Errorf("why %+v, %v", why.Blockers, err)
			}
			w.do(id, flow.Run)
			eq(t, "state", w.end(id).State, flow.Success)
			eq(t, "did", b.text(), "+a +b +c")
			eq(t, "events", w.events(id), "create run suspend park run finish")
		})
	}
}

// TestSuspendUnclaimed: a flow that waits is suspended by the one who claims it next, and a signal does not wake it
// then.
func TestSuspendUnclaimed(t *testing.T) {
	both(t, func(t *testing.T, store job.Store) {
		b := &callLog{}
		w := start(t, store, one(func() flow.Item {
			return flow.Linear("deploy", b.task("a"), flow.Wait("approval", "approved", 0), b.task("c"))
		}), engine.Options{})
		id := w.submit(order)
		w.waits(id, durable.BlockSignal)
		w.do(id, flow.Suspend)
		w.until(id, func(j *job.Job) bool { return j.State == flow.Suspended && !j.Claimed() })
		w.signal(id, "approved", "yes")
		if j := w.verify(id); j.State != flow.Suspended || j.Claimed() || j.Due.Before(time.Now().AddDate(1, 0, 0)) {
			t.Errorf("the signal woke it: %s, due %s", j.State, j.Due)
		}
		w.do(id, flow.Run)
		eq(t, "state", w.end(id).State, flow.Success)
		eq(t, "did", b.text(), "+a +c")
	})
}

func TestSignalWhileWaiting(t *testing.T) {
	both(t, func(t *testing.T, store job.Store) {
		b := &callLog{}
		w := start(t, store, one(func() flow.Item {
			wait := flow.Wait("approval", "approved", 0)
			wait.Result = flow.One("who")
			return flow.Linear("deploy", b.task("a"), wait, b.task("c", needs("who")))
		}), engine.Options{})
		id := w.submit(order)
		w.waits(id, durable.BlockSignal)
		why, err := explain.New(w.Engine).Why(t.Context(), id, time.Time{})
		if err != nil || len(why.Blockers) != 1 || why.Blockers[0].Code != durable.BlockSignal ||
			why.Blockers[0].Sentence != "approval waits for the signal approved" {
			t.Errorf("why %+v, %v", why.Blockers, err)
		}
		eq(t, "awaits", w.view(id).Awaits, []string{"approved"})
		w.early(id, "other", 1)
		w.waits(id, durable.BlockSignal)
		w.signal(id, "approved", map[string]any{"by": "carl"})
		eq(t, "state", w.end(id).State, flow.Success)
		v := w.view(id)
		eq(t, "result", v.Atoms[1].Result.Any(), map[string]any{"by": "carl"})
		if len(v.Signals) != 1 || v.Signals[0].Name != "other" || v.Signals[0].Actor != "bob" {
			t.Errorf("signals %+v", v.Signals)
		}
		kindOf(t, w.flows.Signal(t.Context(), w.Engine, id, durable.Signal{Name: "late"}), job.Refused)
		kindOf(t, w.flows.Signal(t.Context(), w.Engine, "flw_none", durable.Signal{Name: "late"}), job.NotFound)
		kindOf(t, w.flows.Signal(t.Context(), w.Engine, id, durable.Signal{}), job.Invalid)
	})
}

// TestSignalWhileRunning: one atom waits and another is at work: the worker receives the signal and keeps its claim.
func TestSignalWhileRunning(t *testing.T) {
	both(t, func(t *testing.T, store job.Store) {
		b, began, may := &callLog{}, make(chan string, 1), make(chan struct{})
		seen := &flowtest.Capture{}
		o := one(func() flow.Item {
			return flow.Unordered("deploy", flow.Wait("approval", "approved", 0), b.task("b", b.held(began, may)))
		})
		o.Listeners = []flow.Listener{seen.Listen}
		w := start(t, store, o, engine.Options{})
		id := w.submit(order)
		<-began
		w.signal(id, "approved", true)
		if _, err := seen.Await(t.Context(), flowtest.Reached("approval", flow.Success)); err != nil {
			t.Fatal(err)
		}
		close(may)
		j := w.end(id)
		eq(t, "state", j.State, flow.Success)
		eq(t, "claims", j.Epoch, 1)
	})
}

func TestSleep(t *testing.T) {
	both(t, func(t *testing.T, store job.Store) {
		b := &callLog{}
		w := start(t, store, one(func() flow.Item {
			return flow.Linear("deploy", b.task("a"), flow.Sleep("nap", 300*time.Millisecond), b.task("c"))
		}), engine.Options{})
		began := time.Now()
		id := w.submit(order)
		w.waits(id, durable.BlockTime)
		eq(t, "state", w.end(id).State, flow.Success)
		if took := time.Since(began); took < 300*time.Millisecond {
			t.Errorf("it slept for %s", took)
		}
		eq(t, "did", b.text(), "+a +c")
	})
}

// TestStopAndRestart is K04: the worker goes, the flow stays RUNNING without an attempt counted, and another one goes
// on.
func TestStopAndRestart(t *testing.T) {
	both(t, func(t *testing.T, store job.Store) {
		b, began, may := &callLog{}, make(chan string, 1), make(chan struct{})
		o := one(func() flow.Item {
			return flow.Linear("deploy", b.task("a"), b.task("b", b.held(began, may)), b.task("c"))
		})
		w := start(t, store, o, engine.Options{})
		id := w.submit(order)
		<-began
		stopped := make(chan struct{})
		go func() { w.stop(); close(stopped) }()
		time.AfterFunc(20*time.Millisecond, func() { close(may) })
		<-stopped
		if j := w.verify(id); j.State != flow.Running || j.Claimed() || j.Attempts != 0 || j.Starts != 0 {
			t.Errorf("got %+v", j)
		}
		eq(t, "did", b.text(), "+a +b")
		eq(t, "atoms", w.states(id), "a SUCCESS, b SUCCESS, c PENDING")
		w = start(t, store, o, engine.Options{})
		eq(t, "state", w.end(id).State, flow.Success)
		eq(t, "did", b.text(), "+a +b +c")
		eq(t, "events", w.events(id), "create run yield finish")
	})
}

// TestReset puts flows back from every state that allows it; keys differ afterwards.
func TestReset(t *testing.T) {
	both(t, func(t *testing.T, store job.Store) {
		b, began, may := &callLog{}, make(chan string, 1), make(chan struct{}, 9)
		bad := map[string]bool{}
		w := start(t, store, one(func() flow.Item {
			return flow.Linear("deploy", b.task("a", func(t *flow.Task) {
				t.Revert = func(context.Context, *flow.Call) (any, error) {
					if bad["revert"] {
						return nil, errTask
					}
					return nil, nil
				}
			}), flow.Wait("approval", "approved", 0), b.task("b", b.held(began, may)),
				b.task("c", b.failing(func(*flow.Call) bool { return bad["c"] })))
		}), engine.Options{})
		id := w.submit(order)
		round := func(want lc.State, before func()) {
			t.Helper()
			w.waits(id, durable.BlockSignal) // a signal of an earlier round does not count
			w.signal(id, "approved", true)
			<-began
			before()
			may <- struct{}{}
			w.until(id, func(j *job.Job) bool { return j.State == want && !j.Claimed() })
			j := w.do(id, flow.Reset)
			eq(t, "state", j.State, flow.Pending)
		}
		round(flow.Success, func() {})
		round(flow.Suspended, func() { w.do(id, flow.Suspend) })
		round(flow.Reverted, func() { bad["c"] = true })
		round(flow.FailureState, func() { bad["revert"] = true })
		w.waits(id, durable.BlockSignal)
		eq(t, "atoms", w.states(id), "a SUCCESS, approval RUNNING, b PENDING, c PENDING")
		w.verify(id)
		for key, n := range b.keys {
			if n != 1 {
				t.Errorf("%s was used %d times", key, n)
			}
		}
		eq(t, "executions of a", b.times("+a"), 5)
		_, err := w.Do(t.Context(), operator.Act{Job: id, Event: flow.Reset, By: lc.Owner, Actor: "ann"})
		kindOf(t, err, job.Refused)
	})
}

// TestOrders is K03: what cannot run is refused before there is a job. K05 to K07: injected values go before results.
func TestOrders(t *testing.T) {
	b, got := &callLog{}, any(nil)
	cycle := map[string]any{}
	cycle["self"] = cycle
	o := durable.Options{Limits: durable.Limits{Inject: 1000}, Factories: map[string]durable.Factory{
		"needs": func(json.RawMessage) (flow.Item, error) {
			return flow.Linear("deploy", b.task("x"), b.task("b", needs("x", "y"), func(t *flow.Task) {
				t.Execute = func(_ context.Context, c *flow.Call) (any, error) { got = c.Get("x"); return nil, nil }
			})), nil
		},
		"twice": func(json.RawMessage) (flow.Item, error) {
			return flow.Linear("deploy", b.task("a"), b.task("a")), nil
		},
		"reserved": func(json.RawMessage) (flow.Item, error) { return flow.Linear("deploy", b.task("signal:a")), nil },
		"panics":   func(json.RawMessage) (flow.Item, error) { panic("no plan") },
		"nothing":  func(json.RawMessage) (flow.Item, error) { return nil, nil },
	}}
	w := start(t, mem.New(), o, engine.Options{})
	for _, c := range []struct {
		name  string
		order durable.Order
		part  string
		is    error
	}{
		{"unknown", durable.Order{Factory: "who"}, "known: needs, nothing, panics, reserved, twice", nil},
		{"missing", durable.Order{Factory: "needs"}, "b requires y", flow.ErrMissing},
		{"twice", durable.Order{Factory: "twice"}, "duplicate", flow.ErrDuplicate},
		{"reserved", durable.Order{Factory: "reserved"}, "reserved", nil},
		{"panic", durable.Order{Factory: "panics"}, "no plan", nil},
		{"nothing", durable.Order{Factory: "nothing"}, "no flow", flow.ErrInvalid},
		{"args", durable.Order{Factory: "needs", Args: json.RawMessage("{")}, "not JSON", nil},
		{"workers", durable.Order{Factory: "needs", Settings: durable.Settings{Workers: -1}}, "not be negative", nil},
		{"chan", durable.Order{Factory: "needs", Inject: flow.Values{"y": make(chan int)}}, "chan int",
			flow.ErrUnstored},
		{"cycle", durable.Order{Factory: "needs", Inject: flow.Values{"y": cycle}}, "cycle", flow.ErrUnstored},
		{"large", durable.Order{Factory: "needs", Inject: flow.Values{"y": make([]int, 1000)}}, "limit of 1000", nil},
	} {
		_, err := w.flows.Submit(t.Context(), w.Engine, c.order)
		kindOf(t, err, job.Invalid)
		if contains(t, err.Error(), c.part); c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.is)
		}
	}
	if page, err := w.store.List(t.Context(), job.Query{}); err != nil || len(page.Jobs) > 0 {
		t.Errorf("%d jobs, %v", len(page.Jobs), err)
	}
	id := w.submit(durable.Order{Factory: "needs", Name: "mine", Key: "k", Inject: flow.Values{"x": 7, "y": "why"}})
	eq(t, "state", w.end(id).State, flow.Success)
	eq(t, "injected", got, 7)
	eq(t, "same key", w.submit(durable.Order{Factory: "needs", Name: "mine", Key: "k",
		Inject: flow.Values{"x": 7, "y": "why"}}), id)
	eq(t, "name", w.view(id).Data.Name, "mine")
	if _, err := durable.New(durable.Options{Factories: map[string]durable.Factory{"": nil},
		Limits: durable.Limits{Total: -1}}); err == nil {
		t.Error("options without sense are accepted")
	}
}
