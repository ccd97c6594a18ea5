package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// a step for a wait state (accepted by validate): its worker dies.
func TestMendedLostInAWaitState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		held := letters(map[lc.State]engine.Step{"Held": blocked, "Posted": func(context.Context, *engine.Run) error { return engine.Go("hold") }})
		m := startMortal(t, store, engine.Options{Name: "first"}, held)
		id := m.post(engine.Order{}).ID
		m.until(id, func(j *job.Job) bool { return j.State == "Held" && j.Claimed() })
		other := m.post(engine.Order{}).ID
		m.until(other, func(j *job.Job) bool { return j.State == "Held" && j.Claimed() })
		m.kill()
		s := start(t, store, engine.Options{Name: "second"}, letters(map[lc.State]engine.Step{"Held": func(context.Context, *engine.Run) error { return errBroken }}))
		defer s.stop()
		time.Sleep(time.Hour)
		if j := s.get(id); j.Worker == m.Name() {
			t.Errorf("an hour later the dead worker %s still has it in %s", j.Worker, j.State)
		}
	})
}

// restart under the same name.
func TestMendedRestartWithAClaimInAWaitState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		m := startMortal(t, store, engine.Options{Name: "first"}, letters(map[lc.State]engine.Step{"Held": blocked, "Posted": func(context.Context, *engine.Run) error { return engine.Go("hold") }}))
		id := m.post(engine.Order{}).ID
		m.until(id, func(j *job.Job) bool { return j.State == "Held" && j.Claimed() })
		m.kill()
		s := start(t, store, engine.Options{Name: "first"}, letters(nil))
		s.stop()
	})
}

// one record that the sweep cannot move (here: a state that this version's table does not have) keeps it from all others.
func TestMendedOneBadRecordStopsTheSweep(t *testing.T) {
	stranger := lc.Must("test.note",
		lc.OnQueue("Drafted", "a batch brings it, a clerk takes it",
			lc.OnPass("send", "Sent", lc.Worker, "it is on its way"), lc.OnFail("fail", "Torn", lc.Worker, "it cannot be read")),
		lc.OnEnd("Sent", lc.OK, "it is on its way"), lc.OnEnd("Torn", lc.Failed, "it cannot be read"))
	left := 0
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			store := mem.New()
			old := engine.Work{Life: stranger, Prefix: "not", Steps: map[lc.State]engine.Step{"Drafted": blocked}}
			m := startMortal(t, store, engine.Options{Name: "first"}, old, letters(map[lc.State]engine.Step{"Posted": blocked}))
			bad := m.post(engine.Order{Kind: "test.note"}).ID
			good := m.post(engine.Order{}).ID
			m.until(bad, func(j *job.Job) bool { return j.Claimed() })
			m.until(good, func(j *job.Job) bool { return j.Claimed() })
			m.kill()
			s := start(t, store, engine.Options{Name: "second"}, notes(), letters(nil))
			defer s.stop()
			time.Sleep(17 * time.Second)
			if j := s.get(good); !j.Ended {
				left++
			}
		})
	}
	if left > 0 {
		t.Errorf("in %d of 10 worlds the good job was not found by a sweep after its claim", left)
	}
}

// D
func TestMendedAgainIntoAPersonsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := outside(t, mem.New())
		w.post(engine.Order{})
		r := w.report("ann", w.acquire("ann", 1)[0], engine.Report{Event: "hold", Again: true})
		if r.Err != nil || r.Job.Claimed() {
			t.Errorf("ann holds a job in %s, which nobody works on (%v)", r.Job.State, r.Err)
		}
	})
}

func TestMendedAgainIntoASerialState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := letters(nil)
		work.Policy.Serial = true
		w := outside(t, mem.New(), work)
		w.post(engine.Order{})
		r := w.report("ann", w.acquire("ann", 1)[0], engine.Report{Again: true})
		if r.Err != nil || r.Job.Claimed() {
			t.Errorf("ann went straight on into %s, which is serial", r.Job.State)
		}
	})
}

// E
func TestMendedOutsideWorkersAndTimersMoveOtherDefinitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		old := letters(nil)
		old.Life = oldLetter
		first := outside(t, store, old)
		first.post(engine.Order{})
		late := first.post(engine.Order{Deadline: time.Now().Add(time.Minute)})
		w := start(t, store, engine.Options{Name: "new"}, letters(nil))
		time.Sleep(2 * time.Minute)
		w.stop()
		if j := w.get(late.ID); j.State != "Posted" {
			t.Errorf("the timer moved a job of another definition to %s", j.State)
		}
		time.Sleep(2 * time.Minute)
		for _, j := range w.acquire("ann", 9) {
			if r := w.report("ann", j, engine.Report{}); r.Err == nil {
				t.Errorf("an outside worker moved a job of another definition to %s", r.Job.State)
			}
		}
	})
}

// F
func TestMendedWhyClaimSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{"Posted": blocked}))
		defer w.stop()
		if _, err := w.Hold(t.Context(), job.Scope{}, "ann", "flood", time.Time{}); err != nil {
			t.Fatal(err)
		}
		j := w.post(engine.Order{})
		time.Sleep(time.Hour)
		claimed := time.Now()
		if _, err := w.Release(t.Context(), job.Scope{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if b := w.blocker(j.ID, engine.BlockClaim); !b.Since.Equal(claimed) {
			t.Errorf("claimed %s ago, why says %s", time.Since(claimed), time.Since(b.Since))
		}
	})
}

// G
func TestMendedWhyWaitAfterAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{"Posted": func(_ context.Context, r *engine.Run) error {
			if r.Job().Attempts == 0 {
				return errBroken
			}
			return engine.Wait(engine.Blocker{Code: "snow", Sentence: "the pass is shut", Until: r.Now().Add(time.Hour)})
		}}))
		defer w.stop()
		j := w.post(engine.Order{})
		time.Sleep(time.Minute)
		w.blocker(j.ID, "snow")
	})
}

// H
func TestMendedSaveThatFailedForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startMortal(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{"Sorting": func(ctx context.Context, r *engine.Run) error {
			if err := r.SetData("sorted"); err != nil {
				return err
			}
			if err := r.Send("mail", r.Key(), "sorted"); err != nil {
				return err
			}
			if err := r.Save(ctx); err != nil {
				return r.Save(ctx) // once more
			}
			return nil
		}}))
		defer m.stop()
		m.line.decide(func(op string, nth int) fate {
			if op == "Commit" && nth == 2 {
				return refused
			}
			return answered
		})
		j := m.end(m.post(engine.Order{}).ID)
		if string(j.Data) != `"sorted"` || len(m.messages(j.ID)) != 1 {
			t.Errorf("data %s, %d messages", j.Data, len(m.messages(j.ID)))
		}
	})
}

// I
func TestMendedRetryAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{"Sorting": func(ctx context.Context, r *engine.Run) error {
			if tries++; tries == 1 {
				return blocked(ctx, r)
			}
			return takes(time.Second)(ctx, r)
		}}))
		defer w.stop()
		j := w.end(w.post(engine.Order{Deadline: time.Now().Add(time.Minute)}).ID)
		time.Sleep(time.Minute)
		if _, err := w.Do(t.Context(), engine.Act{Job: j.ID, Event: "retry", By: lc.Operator}); err != nil {
			t.Fatal(err)
		}
		if j = w.end(j.ID); j.Outcome != lc.OK {
			t.Errorf("a retry was accepted and could not succeed: %s", j.Message)
		}
	})
}

// J
func TestMendedSubmissionOvertakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		w := start(t, mem.New(), engine.Options{Slots: 1, Sweep: time.Hour}, letters(map[lc.State]engine.Step{"Posted": func(ctx context.Context, r *engine.Run) error {
			order = append(order, r.Job().Group)
			return takes(time.Minute)(ctx, r)
		}}))
		defer w.stop()
		if _, err := w.Hold(t.Context(), job.Scope{}, "ann", "flood", time.Time{}); err != nil {
			t.Fatal(err)
		}
		w.post(engine.Order{Owner: "ann", Group: "old"})
		if _, err := w.store.Hold(t.Context(), &job.HoldChange{Release: true}); err != nil { // a slot is free and the dispatcher has not looked yet
			t.Fatal(err)
		}
		w.post(engine.Order{Owner: "ben", Group: "new"})
		settle(t, w.store)
		if order[0] != "old" {
			t.Errorf("got %v", order)
		}
	})
}

// K
func TestMendedReportWithoutACause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := outside(t, mem.New())
		w.post(engine.Order{})
		if r := w.report("ann", w.acquire("ann", 1)[0], engine.Report{Fail: "axle"}); r.Job.Cause == "" {
			t.Error("it failed without a cause")
		}
	})
}

// L
func TestMendedChildWhoseKeyExists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bagOf(0, "test.letter")
		b.Steps["Open"] = func(ctx context.Context, r *engine.Run) error {
			if err := r.Spawn(ctx, 2, func(i int) (engine.Order, error) {
				return engine.Order{Kind: "test.letter", Key: []string{"a", "b"}[i]}, nil
			}); err != nil {
				return err
			}
			return r.WaitChildren()
		}
		w := start(t, mem.New(), engine.Options{}, b, letters(nil))
		defer w.stop()
		w.end(w.post(engine.Order{Kind: "test.letter", Key: "a"}).ID)
		j := w.post(engine.Order{Kind: "test.bag"})
		time.Sleep(10 * time.Hour)
		if j = w.get(j.ID); !j.Ended {
			t.Errorf("the batch waits for ever: %s, %+v", j.Message, j.Children)
		}
	})
}

// M
func TestMendedPoisonOfATableWithATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		sender := outside(t, store, runs(blocked, engine.Policy{}))
		id := sender.post(engine.Order{Kind: "test.race"}).ID
		massacre(t, store, id, "Running", 8, func() engine.Work { return runs(blocked, engine.Policy{}) })
		if j := sender.get(id); j.Outcome != lc.Failed || j.Cause != engine.CausePoison {
			t.Errorf("got %s, outcome %s, cause %s, %v", j.State, j.Outcome, j.Cause, sender.events(id))
		}
	})
}
