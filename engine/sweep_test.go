package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// drafts is an earlier lifecycle of notes: the same kind, with a first state that this version does not have.
var drafts = lc.Must("test.note",
	lc.OnQueue("Drafted", "a batch brings it, a clerk takes it",
		lc.OnPass("send", "Sent", lc.Worker, "it is on its way"), lc.OnFail("fail", "Torn", lc.Worker,
			"it cannot be read")),
	lc.OnEnd("Sent", lc.OK, "it is on its way"),
	lc.OnEnd("Torn", lc.Failed, "it cannot be read"),
)

// TestSweepPassesByABadRecord checks that a record that this version cannot move (its lease expired in a state that the
// table does not have) blocks neither the sweep of other jobs nor the start of the engine.
func TestSweepPassesByABadRecord(t *testing.T) {
	for _, name := range []string{"first", "second"} { // the same engine again, or another one
		synctest.Test(t, func(t *testing.T) {
			store := mem.New()
			old := engine.Work{Life: drafts, Prefix: "not", Steps: map[lc.State]engine.Step{"Drafted": blocked}}
			m := startKillable(t, store, engine.Options{Name: "first"}, old, letters(nil))
			if _, err := m.Operator().Hold(t.Context(), job.Scope{Kind: "test.letter"}, "ann", "flood",
				time.Time{}); err != nil {
				t.Fatal(err)
			}
			bad := m.post(engine.Order{Kind: "test.note"}).ID
			good := m.post(engine.Order{Deadline: time.Now().Add(30 * time.Second)}).ID
			m.until(bad, func(j *job.Job) bool { return j.Claimed() })
			m.kill()
			s := start(t, store, engine.Options{Name: name}, notes(), letters(nil))
			defer s.stop()
			time.Sleep(31 * time.Second)
			if j := s.get(good); j.State != "Lost" || j.Cause != cause.Timeout {
				t.Errorf("the good job is %s a second after its deadline", j.State)
			}
		})
	}
}

// TestSweepLeavesAloneUnknownKinds checks that an engine without a kind that it once had does not loop over the claims
// of that kind.
func TestSweepLeavesAloneUnknownKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		first := startKillable(t, store, engine.Options{Name: "clerk"},
			letters(map[lc.State]engine.Step{"Posted": blocked}))
		id := first.post(engine.Order{}).ID
		first.until(id, func(j *job.Job) bool { return j.Claimed() })
		first.kill()
		again := startKillable(t, store, engine.Options{Name: "clerk"}, notes())
		defer again.stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := again.line.count("Overdue"); n > 62 || n == 0 {
			t.Errorf("%d searches in 60 sweeps", n)
		}
		if j := again.get(id); j.Worker != first.Status().Worker {
			t.Errorf("it touched a job of a kind that it does not know: %+v", j)
		}
	})
}

// TestLostInAStateWithoutLoops checks that the claim of a crashed worker ends in a waiting state with a step, too.
func TestLostInAStateWithoutLoops(t *testing.T) {
	for _, name := range []string{"first", "second"} {
		synctest.Test(t, func(t *testing.T) {
			store := mem.New()
			hold := func(context.Context, *engine.Run) error { return engine.Go("hold") }
			m := startKillable(t, store, engine.Options{Name: "first"},
				letters(map[lc.State]engine.Step{"Posted": hold, "Held": blocked}))
			id := m.post(engine.Order{}).ID
			mine := m.until(id, func(j *job.Job) bool { return j.State == "Held" && j.Claimed() })
			m.kill()
			s := start(t, store, engine.Options{Name: name}, letters(nil))
			defer s.stop()
			time.Sleep(17 * time.Second)
			if j := s.get(id); j.Claimed() || j.State != "Held" {
				t.Errorf("got %s, claimed by %q", j.State, j.Worker)
			}
			late, err := store.Commit(t.Context(), job.Change{Job: id, Epoch: mine.Epoch, At: time.Now()})
			if err != nil || job.KindOf(late[0].Err) != job.Stale {
				t.Errorf("a late word of the dead worker: %v, %v", late, err)
			}
			s.verify(id)
		})
	}
}

// TestOneBadRecordDoesNotStopTheSweep checks that a record that the sweep cannot move does not keep it from the others.
// The table lacks the state of this record.
func TestOneBadRecordDoesNotStopTheSweep(t *testing.T) {
	stranger := lc.Must("test.note",
		lc.OnQueue("Drafted", "a batch brings it, a clerk takes it",
			lc.OnPass("send", "Sent", lc.Worker, "it is on its way"), lc.OnFail("fail", "Torn", lc.Worker,
				"it cannot be read")),
		lc.OnEnd("Sent", lc.OK, "it is on its way"), lc.OnEnd("Torn", lc.Failed, "it cannot be read"))
	left := 0
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			store := mem.New()
			old := engine.Work{Life: stranger, Prefix: "not", Steps: map[lc.State]engine.Step{"Drafted": blocked}}
			m := startKillable(t, store, engine.Options{Name: "first"}, old,
				letters(map[lc.State]engine.Step{"Posted": blocked}))
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
		t.Errorf("in %d of 10 simulations the good job was not found by a sweep after its claim", left)
	}
}
