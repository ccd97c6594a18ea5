package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestLostWorkersJobComesBack checks that another engine gets the job of a killed one within the lease and one sweep.
func TestLostWorkersJobComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		m := startKillable(t, store, engine.Options{Name: "first"},
			letters(map[lc.State]engine.Step{"Sorting": blocked}))
		id := m.post(engine.Order{}).ID
		m.until(id, func(j *job.Job) bool { return j.State == "Sorting" && j.Claimed() })
		time.Sleep(7 * time.Second) // a renewal has been made
		second := start(t, store, engine.Options{Name: "second"}, letters(nil))
		defer second.stop()
		time.Sleep(20 * time.Second)
		if j := second.get(id); j.Worker != m.Status().Worker {
			t.Fatalf("a live worker was robbed: %+v", j)
		}
		m.kill()
		died := time.Now()
		if j := second.end(id); j.Outcome != lc.OK {
			t.Errorf("got %s", j.Outcome)
		}
		if took := time.Since(died); took > 16*time.Second || took < 5*time.Second {
			t.Errorf("it came back after %s; want a lease of 15 s, less what had passed of it, and a sweep of 1 s",
				took)
		}
		if got := second.times(id, lc.Lost); got != 1 {
			t.Errorf("the history has %d lost workers", got)
		}
		second.verify(id)
	})
}

// TestRestartTakesItsOwnClaimsBack checks that an engine that restarts under its name does not wait for the leases of
// its earlier process.
func TestRestartTakesItsOwnClaimsBack(t *testing.T) {
	for _, c := range []struct {
		name string
		want time.Duration
	}{{"clerk", 0}, {"control", 10 * time.Second}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := mem.New()
				m := startKillable(t, store, engine.Options{Name: "clerk"},
					letters(map[lc.State]engine.Step{"Sorting": blocked}))
				id := m.post(engine.Order{}).ID
				m.until(id, func(j *job.Job) bool { return j.State == "Sorting" && j.Claimed() })
				m.kill()
				began := time.Now()
				again := start(t, store, engine.Options{Name: c.name}, letters(nil))
				defer again.stop()
				again.end(id)
				if took := time.Since(began); (took == 0) != (c.want == 0) {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}

// TestLiveWorkerIsNotRobbed checks ten minutes of work under a lease of 15 s, while another engine waits for a job. In
// the control the renewals do not arrive.
func TestLiveWorkerIsNotRobbed(t *testing.T) {
	for _, c := range []struct {
		name   string
		renew  fate
		starts int32
	}{{"renewed", answered, 1}, {"control: not renewed", refused, 2}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := mem.New()
				var starts atomic.Int32
				slow := func(ctx context.Context, _ *engine.Run) error {
					if starts.Add(1) > 1 {
						return nil
					}
					select {
					case <-time.After(10 * time.Minute):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				first := startKillable(t, store, engine.Options{Name: "first"},
					letters(map[lc.State]engine.Step{"Sorting": slow}))
				defer first.stop()
				first.line.decide(func(op string, _ int) fate {
					if op == "Renew" {
						return c.renew
					}
					return answered
				})
				id := first.post(engine.Order{}).ID
				first.until(id, func(j *job.Job) bool { return j.State == "Sorting" && j.Claimed() })
				second := start(t, store, engine.Options{Name: "second"},
					letters(map[lc.State]engine.Step{"Sorting": slow}))
				defer second.stop()
				if j := second.end(id); j.Outcome != lc.OK {
					t.Errorf("got %s", j.Outcome)
				}
				if starts.Load() != c.starts {
					t.Errorf("got %d starts, want %d", starts.Load(), c.starts)
				}
				second.verify(id)
			})
		})
	}
}

// TestPausedWorkerIsFenced checks that a worker that was paused for longer than its lease gets Stale for each
// operation, and that its context has ended.
func TestPausedWorkerIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		var save, fresh error
		var cut atomic.Bool
		gone := make(chan struct{})
		first := startKillable(t, store, engine.Options{Name: "first"}, letters(map[lc.State]engine.Step{
			"Sorting": func(ctx context.Context, r *engine.Run) error {
				<-time.After(time.Minute) // deaf
				cut.Store(ctx.Err() != nil)
				_ = r.SetData("from the paused one")
				if err := r.Send("mail", string(r.Job().ID)+"/paused", "x"); err != nil {
					return err
				}
				fresh = r.Fresh(context.WithoutCancel(ctx))
				save = r.Save(context.WithoutCancel(ctx))
				close(gone)
				return nil
			},
		}))
		defer first.stop()
		id := first.post(engine.Order{}).ID
		first.until(id, func(j *job.Job) bool { return j.State == "Sorting" && j.Claimed() })
		first.line.decide(func(op string, _ int) fate { // it sleeps: nothing leaves it until it wakes
			if op == "Renew" || op == "Claim" {
				return refused
			}
			return answered
		})
		second := start(t, store, engine.Options{Name: "second"}, letters(map[lc.State]engine.Step{
			"Sorting": func(_ context.Context, r *engine.Run) error { return r.SetData("from the second") },
		}))
		defer second.stop()
		second.end(id)
		<-gone
		synctest.Wait()
		if !cut.Load() {
			t.Error("its context had not ended")
		}
		if job.KindOf(save) != job.Stale || job.KindOf(fresh) != job.Stale {
			t.Errorf("Save: %v, Fresh: %v; want kind stale", save, fresh)
		}
		if j := second.get(id); string(j.Data) != `"from the second"` || j.Outcome != lc.OK {
			t.Errorf("got data %s, %s", j.Data, j.Outcome)
		}
		messages, err := job.MessagesOf(t.Context(), store, id)
		if err != nil || len(messages) != 0 {
			t.Errorf("the paused worker's message went out: %+v, %v", messages, err)
		}
		second.verify(id)
	})
}

// TestRenewalDuringAChainKeepsTheClaim checks a renewal that the store executes just after the job went to its next
// state under a new epoch. The answer that the old epoch is over must not end the new step.
func TestRenewalDuringAChainKeepsTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		line := &slowAnswer{Store: store, renewed: make(chan struct{})}
		w := start(t, line, engine.Options{}, letters(map[lc.State]engine.Step{
			"Sorting": func(context.Context, *engine.Run) error { <-time.After(4 * time.Second); return nil },
			"Riding": func(ctx context.Context, _ *engine.Run) error {
				select {
				case <-time.After(time.Second):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			},
		}))
		defer w.stop()
		began := time.Now()
		j := w.end(w.post(engine.Order{}).ID)
		if !line.met.Load() {
			t.Fatal("no renewal fell between a commit and its answer")
		}
		if took := time.Since(began); took > 10*time.Second || w.times(j.ID, lc.Lost) != 0 {
			t.Errorf("took %s, history %v", took, w.events(j.ID))
		}
	})
}

// slowAnswer delays the answer to the commit that brings a job to Riding until a renewal has been answered.
type slowAnswer struct {
	job.Store
	renewed chan struct{}
	held    atomic.Bool
	met     atomic.Bool
}

func (s *slowAnswer) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	results, err := s.Store.Commit(ctx, changes...)
	if changes[0].To.State == "Riding" {
		s.held.Store(true)
		<-s.renewed
		synctest.Wait() // the renewal's answer has been processed
		s.met.Store(true)
	}
	return results, err
}

func (s *slowAnswer) Renew(ctx context.Context, r job.Renewal) ([]job.Lease, error) {
	lost, err := s.Store.Renew(ctx, r)
	if s.held.CompareAndSwap(true, false) {
		close(s.renewed)
	}
	return lost, err
}

// TestRenewalFindsALostClaimWithoutHints checks that a worker whose job was taken away on a store without hints is
// notified by its next renewal.
func TestRenewalFindsALostClaimWithoutHints(t *testing.T) {
	for _, c := range []struct {
		name  string
		store func(job.Store) job.Store
		after time.Duration
	}{
		{"no hints", func(s job.Store) job.Store { return silent{s} }, 5 * time.Second},
		{"control: hints", func(s job.Store) job.Store { return s }, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := mem.New()
				ended := make(chan time.Time, 1)
				w := start(t, c.store(store), engine.Options{Name: "worker"}, letters(map[lc.State]engine.Step{
					"Posted": func(ctx context.Context, _ *engine.Run) error {
						<-ctx.Done()
						ended <- time.Now()
						return ctx.Err()
					},
				}))
				defer w.stop()
				began := time.Now()
				j := w.post(engine.Order{})
				time.Sleep(2 * time.Second)
				other := outside(t, &tap{Store: store})
				if _, err := other.Do(t.Context(), operator.Act{Job: j.ID, Event: "hold",
					By: lc.Operator, Actor: "ann"}); err != nil {
					t.Fatal(err)
				}
				if after := (<-ended).Sub(began); after != c.after {
					t.Errorf("its context ended after %s, want %s", after, c.after)
				}
				if j = w.get(j.ID); j.State != "Held" {
					t.Errorf("got %s", j.State)
				}
			})
		})
	}
}

// TestWorkerLostInAWaitState checks that a wait state with a step loses the claim of a worker that crashed.
func TestWorkerLostInAWaitState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		held := letters(map[lc.State]engine.Step{"Held": blocked, "Posted": func(context.Context, *engine.Run) error {
			return engine.Go("hold")
		}})
		m := startKillable(t, store, engine.Options{Name: "first"}, held)
		id := m.post(engine.Order{}).ID
		m.until(id, func(j *job.Job) bool { return j.State == "Held" && j.Claimed() })
		other := m.post(engine.Order{}).ID
		m.until(other, func(j *job.Job) bool { return j.State == "Held" && j.Claimed() })
		m.kill()
		work := letters(map[lc.State]engine.Step{"Held": func(context.Context, *engine.Run) error {
			return errBroken
		}})
		s := start(t, store, engine.Options{Name: "second"}, work)
		defer s.stop()
		time.Sleep(time.Hour)
		if j := s.get(id); j.Worker == m.Status().Worker {
			t.Errorf("an hour later the dead worker %s still has it in %s", j.Worker, j.State)
		}
	})
}

// TestRestartWithAClaimInAWaitState checks the same for an engine that restarts under its name.
func TestRestartWithAClaimInAWaitState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		work := letters(map[lc.State]engine.Step{"Held": blocked, "Posted": func(context.Context, *engine.Run) error {
			return engine.Go("hold")
		}})
		m := startKillable(t, store, engine.Options{Name: "first"}, work)
		id := m.post(engine.Order{}).ID
		m.until(id, func(j *job.Job) bool { return j.State == "Held" && j.Claimed() })
		m.kill()
		s := start(t, store, engine.Options{Name: "first"}, letters(nil))
		s.stop()
	})
}
