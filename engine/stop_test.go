package engine_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestStopGivesGrace checks that a step that ends in time succeeds, and that another job returns to its queue without a
// counted attempt. Neither enters its next state here.
func TestStopGivesGrace(t *testing.T) {
	for _, c := range []struct {
		name  string
		work  time.Duration
		state lc.State
		event lc.Event
		took  time.Duration
	}{
		{"in time", 5 * time.Second, "Riding", "next", 4 * time.Second},
		{"too slow", time.Hour, "Sorting", lc.Yield, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := mem.New()
				w := start(t, store, engine.Options{Name: "first"},
					letters(map[lc.State]engine.Step{"Sorting": takes(c.work)}))
				j := w.post(engine.Order{})
				time.Sleep(time.Second)
				began := time.Now()
				w.stop()
				if took := time.Since(began); took != c.took {
					t.Errorf("the stop took %s, want %s", took, c.took)
				}
				j = w.get(j.ID)
				if events := w.events(j.ID); j.State != c.state || j.Claimed() || j.Attempts != 0 || j.Starts != 0 ||
					events[len(events)-1] != c.event {
					t.Errorf("got %s by %v, claimed %v, %d attempts, %d starts", j.State, events, j.Claimed(),
						j.Attempts, j.Starts)
				}
				second := start(t, store, engine.Options{Name: "second"}, letters(nil))
				defer second.stop()
				if j = second.end(j.ID); j.Outcome != lc.OK || !j.Entered.Equal(time.Now()) {
					t.Errorf("got %s", j.Outcome)
				}
				second.verify(j.ID)
			})
		})
	}
}

// TestStopTakesNothingNew checks that no job is claimed from the queue or from a new submission.
func TestStopTakesNothingNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startKillable(t, mem.New(), engine.Options{Slots: 2},
			letters(map[lc.State]engine.Step{"Posted": takes(5 * time.Second)}))
		a := m.post(engine.Order{})
		time.Sleep(time.Second)
		stopped := make(chan struct{})
		go func() { m.stop(); close(stopped) }()
		synctest.Wait()
		claims := m.line.count("Claim")
		b := m.post(engine.Order{}) // the engine has a free slot, and running work for four more seconds
		<-stopped
		if got := m.line.count("Claim"); got != claims {
			t.Errorf("%d claims after the stop", got-claims)
		}
		if j := m.get(b.ID); j.State != "Posted" || j.Epoch != 0 {
			t.Errorf("the new one is %s, epoch %d", j.State, j.Epoch)
		}
		if j := m.get(a.ID); j.State != "Sorting" || j.Claimed() {
			t.Errorf("the old one is %s, claimed %v", j.State, j.Claimed())
		}
		calls := m.line.count("")
		time.Sleep(24 * time.Hour)
		if got := m.line.count(""); got != calls {
			t.Errorf("%d calls after the end of Run", got-calls)
		}
	})
}

// TestStopKeepsClaimsAlive checks that leases are renewed during a long grace period.
func TestStopKeepsClaimsAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		runs := 0
		w := start(t, store, engine.Options{Name: "first", Grace: time.Hour}, letters(map[lc.State]engine.Step{
			"Riding": func(ctx context.Context, r *engine.Run) error { runs++; return takes(10*time.Minute)(ctx, r) },
		}))
		j := w.post(engine.Order{})
		time.Sleep(time.Second)
		second := start(t, store, engine.Options{Name: "second"}, letters(nil))
		defer second.stop()
		w.stop()
		if j = second.get(j.ID); j.Outcome != lc.OK || runs != 1 || second.times(j.ID, lc.Lost) != 0 {
			t.Errorf("got %s after %d runs: %v", j.Outcome, runs, second.events(j.ID))
		}
	})
}

// TestRunAgain checks that an engine that was stopped can run again.
func TestRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.New(mem.New(), []engine.Work{letters(nil)}, engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- e.Run(ctx) }()
			synctest.Wait()
			if j, err := e.Complete(t.Context(), engine.Order{Kind: "test.letter"}); err != nil || j.Outcome != lc.OK {
				t.Errorf("got %s, %v", j.Outcome, err)
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestRunStoppedAtOnce checks that a context that ends before the start is no error.
func TestRunStoppedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.New(mem.New(), []engine.Work{letters(nil)}, engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := e.Run(ctx); err != nil {
			t.Error(err)
		}
	})
}

// TestRunFailsIfTheStoreIsDown checks that Run does not begin without having read its own claims.
func TestRunFailsIfTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := &tap{Store: mem.New()}
		line.cut()
		e, err := engine.New(line, []engine.Work{letters(nil)}, engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Run(t.Context()); err == nil {
			t.Error("it ran")
		}
	})
}

// startEnding starts an engine that may end with an error: end stops it, and returns the error of Run.
func startEnding(t *testing.T, store job.Store, o engine.Options, works ...engine.Work) (w *harness, end func() error) {
	t.Helper()
	e, err := engine.New(store, works, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	synctest.Wait()
	return &harness{Engine: e, t: t, store: store}, func() error { cancel(); return <-done }
}

// TestStopLeavesAStepThatRunsOn checks that a step that ignores its context does not keep Run from returning: its job
// returns to its queue, another engine finishes it, and what the step commits afterwards is Stale. The engine runs
// again when the step has ended. Control: a step that returns within the second bound.
func TestStopLeavesAStepThatRunsOn(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration // the step returns; zero: after the second engine has done its job
		took  time.Duration
	}{{"it runs on", 0, 20 * time.Second}, {"control: it returns late", 15 * time.Second, 15 * time.Second}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				free, saved := make(chan struct{}), make(chan error, 1)
				stubborn := func(ctx context.Context, r *engine.Run) error {
					<-free
					r.SetPriority(3)
					saved <- r.Save(context.WithoutCancel(ctx))
					return nil
				}
				store := mem.New()
				w, end := startEnding(t, store, engine.Options{Name: "first"},
					letters(map[lc.State]engine.Step{"Sorting": stubborn}))
				id := w.post(engine.Order{}).ID
				synctest.Wait()
				began := time.Now()
				if c.after > 0 {
					time.AfterFunc(c.after, func() { close(free) })
				}
				err := end()
				if took := time.Since(began); took != c.took {
					t.Errorf("the stop took %s, want %s", took, c.took)
				}
				if c.after > 0 {
					if err != nil || <-saved != nil {
						t.Errorf("control: got %v", err)
					}
					return
				}
				if job.KindOf(err) != job.Internal || !strings.Contains(err.Error(), string(id)+" (Sorting)") {
					t.Errorf("got %v", err)
				}
				if j := w.get(id); j.Claimed() || w.times(id, lc.Yield) != 1 || j.Starts != 0 {
					t.Errorf("got %+v", j)
				}
				if err := w.Run(t.Context()); job.KindOf(err) != job.Refused {
					t.Errorf("it runs again beside the step: %v", err)
				}
				second := start(t, store, engine.Options{Name: "second"}, letters(nil))
				defer second.stop()
				ended := second.end(id)
				close(free)
				if err := <-saved; ended.Outcome != lc.OK || job.KindOf(err) != job.Stale {
					t.Errorf("it ended %s, and the commit of the step gave %v", ended.Outcome, err)
				}
				synctest.Wait()
				if j := w.get(id); j.Version != ended.Version {
					t.Errorf("the step changed the record: %+v", j)
				}
				second.verify(id)
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if err := w.Run(ctx); err != nil {
					t.Errorf("it does not run again: %v", err)
				}
			})
		})
	}
}

// TestRunTwiceIsRefused checks that a second Run beside the first is refused and does not disturb it.
func TestRunTwiceIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(nil))
		defer w.stop()
		if err := w.Run(t.Context()); job.KindOf(err) != job.Refused {
			t.Errorf("got %v", err)
		}
		if j := w.end(w.post(engine.Order{}).ID); j.Outcome != lc.OK {
			t.Errorf("got %s", j.Outcome)
		}
	})
}

// TestStopLeavesADeliveryThatRunsOn checks that a delivery that ignores its context does not keep Run from returning:
// its message is delivered again after its lease. Control: a delivery that returns within the bound.
func TestStopLeavesADeliveryThatRunsOn(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration // the delivery returns; zero: after the second engine has delivered its message
		took  time.Duration
	}{{"it runs on", 0, 10 * time.Second}, {"control: it returns late", 5 * time.Second, 5 * time.Second}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				free, store := make(chan struct{}), mem.New()
				stubborn := func(context.Context, job.Message) error { <-free; return nil }
				w, end := startEnding(t, store, engine.Options{Name: "first",
					Deliver: map[string]engine.Deliver{"mail": stubborn}}, mailing(takes(0)))
				id := w.post(engine.Order{}).ID
				w.end(id)
				synctest.Wait()
				began := time.Now()
				if c.after > 0 {
					time.AfterFunc(c.after, func() { close(free) })
				}
				err := end()
				if took := time.Since(began); took != c.took {
					t.Errorf("the stop took %s, want %s", took, c.took)
				}
				m := w.messages(id)[0]
				if c.after > 0 {
					if err != nil || m.Settled != job.Delivered {
						t.Errorf("control: got %v, %+v", err, m)
					}
					return
				}
				if job.KindOf(err) != job.Internal || !strings.Contains(err.Error(), m.Key+" (mail)") ||
					m.Settled != "" {
					t.Errorf("got %v, %+v", err, m)
				}
				var p postbox
				o := p.options()
				o.Name = "second"
				second := start(t, store, o, mailing(takes(0)))
				defer second.stop()
				time.Sleep(5 * time.Minute)
				if m = second.messages(id)[0]; m.Settled != job.Delivered || len(p.keys()) != 1 {
					t.Errorf("it was delivered %d times: %+v", len(p.keys()), m)
				}
				close(free)
				synctest.Wait()
				if now := second.messages(id)[0]; now.Attempts != m.Attempts {
					t.Errorf("the late delivery changed the message: %+v", now)
				}
			})
		})
	}
}
