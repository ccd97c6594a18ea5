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
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// slow makes a task and its revert take a second each, unless they are interrupted.
func slow(t *flow.Task) {
	execute, revert := t.Execute, t.Revert
	second := func(ctx context.Context) error {
		select {
		case <-time.After(time.Second):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	t.Execute = func(ctx context.Context, c *flow.Call) (any, error) {
		v, err := execute(ctx, c)
		if late := second(ctx); err == nil {
			err = late
		}
		return v, err
	}
	t.Revert = func(ctx context.Context, c *flow.Call) (any, error) {
		v, err := revert(ctx, c)
		if late := second(ctx); err == nil {
			err = late
		}
		return v, err
	}
}

// endings are the requests, with the moments at which they come.
func endings() (all []*plot) {
	for _, event := range []lc.Event{flow.Cancel, flow.Halt} {
		for _, now := range []bool{false, true} {
			for moment, wait := range map[string]time.Duration{"running": 1500 * time.Millisecond,
				"waiting": 5 * time.Second, "suspended": 1500 * time.Millisecond,
				"reverting": 3500 * time.Millisecond} {
				all = append(all, &plot{
					name: fmt.Sprintf("%s, now %t, %s", event, now, moment),
					make: func(l *ledger) flow.Item {
						last := flow.Wait("w", "never", 0)
						if moment == "reverting" {
							last = l.watched("w", l.failing(always))
						}
						return flow.Linear("deploy", l.watched("a", slow), l.watched("b", slow), last)
					},
					act: func(_ *testing.T, w *harness, id job.ID) {
						time.Sleep(wait)
						if moment == "suspended" {
							_, _ = w.Do(context.Background(),
								operator.Act{Job: id, Event: flow.Suspend, By: lc.Owner, Actor: "ann"})
							rest(w, id)
						}
						_, _ = w.Do(context.Background(),
							operator.Act{Job: id, Event: event, By: lc.Owner, Actor: "ann", Now: now})
					},
				})
			}
		}
	}
	return all
}

// TestEndingAtEveryCommit kills the engine of a flow that is being ended before and after each commit: the request
// survives, everything is rolled back or kept as it was asked, and no atom is left in the middle.
func TestEndingAtEveryCommit(t *testing.T) {
	for _, p := range endings() {
		t.Run(p.name, func(t *testing.T) {
			windows := 0
			for at, whole := 1, false; !whole && at < 100; at++ {
				for _, after := range []bool{false, true} {
					synctest.Test(t, func(t *testing.T) { whole = p.endAt(t, at, after) })
					windows++
				}
			}
			if windows < 12 {
				t.Errorf("only %d windows were tried", windows)
			}
		})
	}
}

func (p *plot) endAt(t *testing.T, at int, after bool) (whole bool) {
	store, l := mem.New(), &ledger{done: map[string]bool{}}
	id, ended := p.live(t, &line{Store: store, ledger: l, at: at, after: after}, l, "")
	if whole = ended; !ended {
		if id, ended = p.live(t, &line{Store: store, ledger: l}, l, id); !ended {
			t.Fatalf("commit %d (%t): the flow does not end", at, after)
		}
	}
	w := &harness{t: t, store: store}
	w.flows, _ = durable.New(durable.Options{})
	j := w.verify(id)
	name := fmt.Sprintf("commit %d (%t)", at, after)
	keep := strings.HasPrefix(p.name, "stop")
	if !keep && j.State != flow.Reverted || keep && j.State != flow.FailureState && j.State != flow.Reverted {
		t.Errorf("%s: got %s with %s by %s (%s)", name, j.State, w.states(id), w.events(id), j.Message)
	}
	if j.Cause != durable.CauseCancelled && j.Cause != durable.CauseStopped &&
		!(j.Cause == durable.CauseReverted && strings.Contains(p.name, "reverting")) {
		t.Errorf("%s: cause %s: %s", name, j.Cause, j.Message)
	}
	for _, a := range w.view(id).Atoms {
		if a.State == flow.Running || a.State == flow.Reverting || a.Waits || !keep && a.State == flow.Success {
			t.Errorf("%s: %s is left %s", name, a.Name, a.State)
		}
	}
	if len(l.faults) > 0 {
		t.Errorf("%s: %s", name, strings.Join(l.faults, "; "))
	}
	return whole
}

// TestCancelFromEveryState: every state that is no end takes the request; stopped flows go on when they are run again.
func TestCancelFromEveryState(t *testing.T) {
	for _, s := range flow.Life.Stages() {
		for _, e := range []lc.Event{flow.Cancel, flow.Halt} {
			if a, ok := flow.Life.Transition(s.State, e); s.Kind != lc.End &&
				(!ok || a.By&lc.Owner == 0 || a.By&lc.Operator == 0) {
				t.Errorf("%s from %s: %+v", e, s.State, a)
			}
		}
	}
	both(t, func(t *testing.T, store job.Store) {
		b := &callLog{}
		w := start(t, store, one(func() flow.Item {
			return flow.Linear("deploy", b.task("a"), flow.Wait("w", "go", 0), b.task("c"))
		}), engine.Options{})
		late := order
		late.Due = time.Now().Add(time.Hour)
		id := w.submit(late)
		j := w.do(id, flow.Cancel)
		eq(t, "not begun", fmt.Sprint(j.State, " ", j.Cause, ": ", j.Message), "REVERTED cancelled: the flow was cancelled by ann: because")

		id = w.submit(order)
		w.waits(id, durable.BlockSignal)
		w.do(id, flow.Halt)
		j = w.end(id)
		eq(t, "stopped", fmt.Sprint(j.State, " ", j.Cause), "FAILURE stopped")
		eq(t, "atoms", w.states(id), "a SUCCESS, w FAILURE, c PENDING")
		eq(t, "remains", w.view(id).Remains, []string{"a", "w"})
		w.do(id, flow.Run)
		w.waits(id, durable.BlockSignal)
		w.signal(id, "go", 1)
		eq(t, "run again", w.end(id).State, flow.Success)
		eq(t, "did", b.text(), "+a +c")

		id = w.submit(order)
		w.waits(id, durable.BlockSignal)
		w.do(id, flow.Halt)
		w.end(id)
		w.do(id, flow.Cancel) // what was kept is rolled back after all
		w.until(id, func(j *job.Job) bool { return j.State == flow.Reverted })
		eq(t, "did", b.text(), "+a +c +a -a")
		eq(t, "atoms", w.states(id), "a REVERTED, w REVERTED, c PENDING")
	})
}

// TestCancelInterrupts: with Now a running task is interrupted and reverted; the control lets it end by itself.
func TestCancelInterrupts(t *testing.T) {
	for _, now := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b, began := &callLog{}, make(chan string, 1)
			may := make(chan struct{})
			w := start(t, mem.New(), one(func() flow.Item {
				return flow.Linear("deploy", b.task("a"), b.task("b", b.held(began, may)), b.task("c"))
			}), engine.Options{})
			id := w.submit(order)
			<-began
			if _, err := w.Do(t.Context(), operator.Act{Job: id, Event: flow.Cancel, By: lc.Owner, Actor: "ann",
				Now: now}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			j, err := w.store.Get(t.Context(), id)
			if err != nil || j.Ended != now {
				t.Errorf("now %t: it has ended: %t, %v", now, j.Ended, err)
			}
			close(may)
			eq(t, "state", w.end(id).State, flow.Reverted)
			eq(t, "did", b.text(), "+a +b -b -a")
			w.stop()
		})
	}
}

// TestStopSettlesReverts: a flow that is stopped although an earlier run left reverts unfinished, and although it
// cannot be loaded any more, names them; nothing is left in the middle.
func TestStopSettlesReverts(t *testing.T) {
	for _, loads := range []bool{true, false} {
		for _, e := range []lc.Event{flow.Halt, flow.Cancel} {
			synctest.Test(t, func(t *testing.T) {
				store, l := mem.New(), &ledger{done: map[string]bool{}}
				var now *line
				make := func(l *ledger, hangs bool) flow.Item {
					return flow.Linear("deploy", l.watched("a"), l.watched("b", func(t *flow.Task) {
						t.Revert = func(_ context.Context, c *flow.Call) (any, error) {
							if l.note("-", c); hangs {
								now.kill()
							}
							return nil, nil
						}
					}), l.watched("c", l.failing(always)))
				}
				now = &line{Store: store, ledger: l}
				first := &plot{make: func(l *ledger) flow.Item { return make(l, true) }}
				id, ended := first.live(t, now, l, "")
				if ended {
					t.Fatal("it has ended")
				}
				o := one(func() flow.Item { return make(l, false) })
				if !loads {
					o = one(func() flow.Item { return flow.Linear("other", l.watched("x")) })
				}
				idle, err := engine.New(store, []engine.Work{mustNew(t, o).Work()}, engine.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := idle.Do(t.Context(), operator.Act{Job: id, Event: e, By: lc.Owner,
					Actor: "ann"}); err != nil {
					t.Fatal(err)
				}
				w := start(t, store, o, engine.Options{})
				j := w.end(id)
				want := "FAILURE a SUCCESS, b REVERT_FAILURE, c REVERTED"
				if loads && e == flow.Cancel {
					want = "REVERTED a REVERTED, b REVERTED, c REVERTED"
				}
				if got := atoms(w.view(id)); string(j.State)+" "+got != want {
					t.Errorf("%s, loads %t: %s %s (%s: %s), want %s", e, loads, j.State, got, j.Cause, j.Message, want)
				}
				if !loads {
					contains(t, j.Message, "not rolled back: a, b")
				}
				w.stop()
			})
		}
	}
}

func atoms(v *durable.View) string {
	var all []string
	for _, a := range v.Atoms {
		all = append(all, a.Name+" "+string(a.State))
	}
	return strings.Join(slices.Sorted(slices.Values(all)), ", ")
}

func mustNew(t *testing.T, o durable.Options) *durable.Flows {
	t.Helper()
	f, err := durable.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestRequestBeforeTheLastCommit: a request that is stored right before the commit that would end the flow, and that
// the worker has not read, is not lost. The control is one that comes after it: it is refused.
func TestRequestBeforeTheLastCommit(t *testing.T) {
	for _, e := range []lc.Event{flow.Cancel, flow.Halt} {
		synctest.Test(t, func(t *testing.T) {
			b, store := &callLog{}, &beside{Store: mem.New()}
			o := one(func() flow.Item { return flow.Linear("deploy", b.task("a"), b.task("b")) })
			w := start(t, store, o, engine.Options{})
			asked := false
			store.commit = func(changes []job.Change) {
				if changes[0].Event == "finish" && !asked {
					asked = true
					w.do(changes[0].Job, e)
				}
			}
			id := w.submit(order)
			j := w.end(id)
			want := flow.Reverted
			if e == flow.Halt { // all of it is done
				want = flow.Success
			}
			eq(t, "state", fmt.Sprint(j.State, asked), fmt.Sprint(want, true))
			if _, err := w.Do(t.Context(), operator.Act{Job: id, Event: flow.Halt, By: lc.Owner,
				Actor: "ann"}); job.KindOf(err) != job.Refused {
				t.Errorf("after the end: %v", err)
			}
			w.stop()
		})
	}
}

// TestDeadline: a deadline rolls back unless the order states otherwise; the control has time enough.
func TestDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		deadline time.Duration
		keep     bool
		hangs    bool
		want     string
	}{
		"rolled back":               {time.Minute, false, false, "REVERTED timeout +a -a"},
		"kept":                      {time.Minute, true, false, "FAILURE timeout +a"},
		"a running task":            {time.Minute, false, true, "REVERTED timeout +a +b -b -a"},
		"a running task, kept":      {time.Minute, true, true, "FAILURE timeout +a +b"},
		"control: time enough":      {time.Hour, false, false, "SUCCESS  +a +b"},
		"control: no deadline":      {0, false, false, "SUCCESS  +a +b"},
		"passed before it is taken": {-time.Second, false, false, "REVERTED timeout "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &callLog{}
				w := start(t, mem.New(), one(func() flow.Item {
					last := b.task("b")
					if c.hangs {
						last.Execute = func(ctx context.Context, c *flow.Call) (any, error) {
							b.note("+", c)
							<-ctx.Done()
							return nil, ctx.Err()
						}
					}
					items := []flow.Item{b.task("a"), flow.Wait("w", "go", 0), last}
					if c.hangs {
						items = []flow.Item{b.task("a"), last}
					}
					return flow.Linear("deploy", items...)
				}), engine.Options{})
				o := order
				o.Settings = durable.Settings{KeepAtDeadline: c.keep}
				if c.deadline != 0 {
					o.Deadline = time.Now().Add(c.deadline)
				}
				id := w.submit(o)
				if strings.HasPrefix(name, "control") {
					time.Sleep(10 * time.Minute)
					w.signal(id, "go", 1)
				}
				j := w.untilWithin(id, time.Hour, func(j *job.Job) bool { return j.Ended })
				if got := fmt.Sprintf("%s %s %s", j.State, j.Cause, b.text()); got != c.want {
					t.Errorf("got %q (%s), want %q", got, j.Message, c.want)
				}
				w.stop()
			})
		})
	}
}
