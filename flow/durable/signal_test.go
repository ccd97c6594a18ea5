package durable_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// approvals is a flow with two waits for one name, in a row or side by side.
func approvals(b *callLog, side bool) func() flow.Item {
	return func() flow.Item {
		one, two := flow.Wait("one", "approved", 0), flow.Wait("two", "approved", 0)
		one.Result, two.Result = flow.One("first"), flow.One("second")
		if side {
			return flow.Linear("deploy", flow.Unordered("both", one, two), b.task("c", needs("first", "second")))
		}
		return flow.Linear("deploy", one, two, b.task("c", needs("first", "second")))
	}
}

// TestSignalIsTakenOnce: one signal lets one wait go on, and a part that is run again waits for another one.
func TestSignalIsTakenOnce(t *testing.T) {
	for _, side := range []bool{false, true} {
		both(t, func(t *testing.T, store job.Store) {
			b := &callLog{}
			w := start(t, store, one(approvals(b, side)), engine.Options{})
			id := w.submit(order)
			w.waits(id, durable.BlockSignal)
			w.signal(id, "approved", 1)
			w.until(id, func(j *job.Job) bool {
				d, err := durable.DataOf(j)
				return err == nil && d.Counts[flow.Success] == 1 && !j.Claimed()
			})
			if v := w.view(id); len(v.Signals) != 0 || len(v.Awaits) != 1 {
				t.Errorf("signals %+v, awaits %v", v.Signals, v.Awaits)
			}
			w.signal(id, "approved", 2)
			eq(t, "state", w.end(id).State, flow.Success)
		})
	}
	both(t, func(t *testing.T, store job.Store) {
		b := &callLog{}
		answers := 0
		w := start(t, store, one(func() flow.Item {
			wait := flow.Wait("w", "answer", 0)
			wait.Result = flow.One("answer")
			check := b.task("check", needs("answer"))
			check.Execute = func(_ context.Context, c *flow.Call) (any, error) {
				if answers++; c.Get("answer") != "yes" {
					return nil, errTask
				}
				return nil, nil
			}
			return flow.Linear("deploy", wait, check).With(flow.Times(3))
		}), engine.Options{})
		id := w.submit(order)
		w.waits(id, durable.BlockSignal)
		w.signal(id, "answer", "no")
		w.until(id, func(j *job.Job) bool {
			return !j.Claimed() && j.Cause == durable.BlockSignal && w.attempts(id) == 2
		})
		w.signal(id, "answer", "yes")
		eq(t, "state", w.end(id).State, flow.Success)
		eq(t, "answers", answers, 2)
	})
}

// attempts counts how often the wait of a flow was begun.
func (w *harness) attempts(id job.ID) int {
	for _, a := range w.view(id).Atoms {
		if a.Name == "w" {
			return a.Attempts
		}
	}
	return 0
}

// TestSignalsQueue: signals of one name are taken in the order in which they came, also those that came before any step
// waited; no more are kept than the limit states.
func TestSignalsQueue(t *testing.T) {
	both(t, func(t *testing.T, store job.Store) {
		b, began, may := &callLog{}, make(chan string, 1), make(chan struct{})
		o := one(func() flow.Item {
			items := []flow.Item{b.task("a", b.held(began, may))}
			for i := range 5 {
				items = append(items, flow.Wait(fmt.Sprintf("w%d", i), "n", 0))
			}
			return flow.Linear("deploy", items...)
		})
		o.Limits.Signals = 5
		w := start(t, store, o, engine.Options{})
		id := w.submit(order)
		<-began
		for i := range 5 {
			w.signal(id, "n", i)
		}
		kindOf(t, w.flows.Signal(t.Context(), w.Engine, id, durable.Signal{Name: "n"}), job.Refused)
		close(may)
		eq(t, "state", w.end(id).State, flow.Success)
		for i, a := range w.view(id).Atoms[1:] {
			eq(t, a.Name, a.Result.Any(), i)
		}
	})
}

// TestSignalIsTakenWithTheResult: at whichever commit the engine crashes, a signal is gone if and only if the result of
// its wait is stored.
func TestSignalIsTakenWithTheResult(t *testing.T) {
	for at, whole := 1, false; !whole && at < 50; at++ {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				store, l := mem.New(), &ledger{done: map[string]bool{}}
				p := &plot{make: func(l *ledger) flow.Item { return approvals(&l.callLog, false)() }}
				dying := &line{Store: store, ledger: l, at: at, after: after}
				w := start(t, dying, one(func() flow.Item { return p.make(l) }),
					engine.Options{Lease: 3 * time.Second, Grace: time.Second, Sweep: time.Second})
				time.Sleep(time.Millisecond)
				j, err := w.flows.Submit(t.Context(), w.Engine, order)
				if err != nil {
					t.Fatal(err)
				}
				sent := w.flows.Signal(context.Background(), w.Engine, j.ID, durable.Signal{Name: "approved", Value: 1})
				rest(w, j.ID)
				whole = dying.down() == nil
				dying.kill()
				w.stop()
				w = start(t, store, one(func() flow.Item { return p.make(l) }), engine.Options{Sweep: time.Second})
				time.Sleep(time.Minute)
				v := w.view(j.ID)
				taken := 0
				for _, a := range v.Atoms {
					if a.State == flow.Success {
						taken++
					}
				}
				if taken > 1 || sent == nil && taken+len(v.Signals) != 1 || v.Job.Ended {
					t.Errorf("commit %d (%t): %d waits went on, %d signals are left, %s", at, after, taken, len(v.Signals), v.Job.State)
				}
				w.stop()
			})
		}
	}
}

// hoarder is a store that does not store that signals were taken.
type hoarder struct{ job.Store }

func (s hoarder) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	for i := range changes {
		changes[i].Tasks = slices.DeleteFunc(slices.Clone(changes[i].Tasks), func(t job.Task) bool {
			return t.State == "TAKEN"
		})
	}
	return s.Store.Commit(ctx, changes...)
}

// TestTakenSignalStaysTaken when the flow is loaded again, which a signal of another name brings about. The control is
// a store that does not store what was taken.
func TestTakenSignalStaysTaken(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var store job.Store = mem.New()
			if forgets {
				store = hoarder{store}
			}
			b := &callLog{}
			w := start(t, store, one(approvals(b, false)), engine.Options{})
			id := w.submit(order)
			for _, name := range []string{"approved", "other"} {
				w.early(id, name, 1)
				time.Sleep(time.Minute)
			}
			if j := w.verify(id); j.Ended != forgets {
				t.Errorf("forgets %t: it is %s", forgets, j.State)
			}
			w.stop()
		})
	}
}

// TestSignalIsDeclared: a name that no task of the flow declares and a value of another type are refused, by the stored
// outline when the factory is elsewhere. A name that only the flow as it is made now declares is accepted, and early
// every name is.
func TestSignalIsDeclared(t *testing.T) {
	both(t, func(t *testing.T, store job.Store) {
		approved, b := flow.Signal[bool]("approved"), &callLog{}
		made := func(more ...flow.Item) durable.Options {
			return one(func() flow.Item {
				return flow.Linear("deploy", append([]flow.Item{approved.Wait("approval", 0), b.task("c")}, more...)...)
			})
		}
		w := start(t, store, made(), engine.Options{})
		id := w.submit(order)
		w.waits(id, durable.BlockSignal)
		send := func(s durable.Signal, want string) {
			t.Helper()
			err := w.flows.Signal(t.Context(), w.Engine, id, s)
			if want == "" && err != nil || want != "" &&
				(job.KindOf(err) != job.Invalid || !strings.Contains(err.Error(), want)) {
				t.Errorf("%+v: got %v, want %q", s, err, want)
			}
		}
		for range 2 { // the second time it is known what the flow takes
			send(durable.Signal{Name: "aproved", Value: true}, "did you mean approved? (signals of the flow: approved); with early it is kept for a task to come")
			send(durable.Signal{Name: "approved", Value: "yes"}, "it takes a boolean, not a string")
			send(durable.Signal{Name: "later", Value: "yes", Early: true}, "")
			send(durable.Signal{Name: "approved", Value: "yes", Early: true}, "it takes a boolean, not a string")
		}
		w.stop()
		w = start(t, store, durable.Options{}, engine.Options{}) // the factory is elsewhere
		send(durable.Signal{Name: "aproved", Value: true}, "did you mean approved?")
		w.stop()
		w = start(t, store, made(flow.Wait("more", "extra", 0)), engine.Options{})
		send(durable.Signal{Name: "extra", Value: 1}, "")
		send(durable.Signal{Name: "approved", Value: true}, "")
		eq(t, "signals", len(w.view(id).Signals) > 0, true)
	})
}
