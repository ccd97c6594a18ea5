package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// oldLetter is letter in an earlier version, in which operators could not stop it: the same states, another definition.
var oldLetter = func() *lc.Table {
	stages := letter.Stages()
	for i := range stages {
		var transitions []lc.Transition
		for _, a := range stages[i].Transitions {
			if a.Event != "stop" {
				transitions = append(transitions, a)
			}
		}
		stages[i].Transitions = transitions
	}
	return lc.Must("test.letter", stages...)
}()

// TestJobOfAnotherDefinitionWaits checks that such a job is neither worked on nor moved by a person until Adopts lists
// its definition (rule R13).
func TestJobOfAnotherDefinitionWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		worked := 0
		steps := map[lc.State]engine.Step{"Posted": deaf(0), "Sorting": deaf(0)}
		old := letters(steps)
		old.Life = oldLetter
		first := start(t, store, engine.Options{Name: "old"}, old)
		first.stop()
		j := first.post(engine.Order{})
		if letter.Hash() == oldLetter.Hash() {
			t.Fatal("the definitions are the same")
		}

		second := start(t, store, engine.Options{Name: "new"},
			letters(map[lc.State]engine.Step{"Posted": counted(&worked)}))
		time.Sleep(time.Hour + 30*time.Second) // between two checks
		synctest.Wait()
		x, err := second.why(t.Context(), j.ID, time.Time{})
		if err != nil || !blocks(x, "definition") {
			t.Errorf("why: %+v, %v", x.Blockers, err)
		}
		_, err = second.Do(t.Context(), operator.Act{Job: j.ID, Event: "hold", By: lc.Operator, Actor: "ann"})
		if job.KindOf(err) != job.Refused || !strings.Contains(err.Error(), oldLetter.Hash()) {
			t.Errorf("do: %v", err)
		}
		if got := second.get(j.ID); worked != 0 || got.State != "Posted" || got.Claimed() || got.Starts != 0 ||
			got.Attempts != 0 {
			t.Errorf("worked on %d times, it is %+v", worked, got)
		}
		if n := len(second.events(j.ID)); n > 2 {
			t.Errorf("an hour of waiting left %d entries in its history", n)
		}
		second.stop()

		adopting := letters(map[lc.State]engine.Step{"Posted": counted(&worked)})
		adopting.Adopts = []string{oldLetter.Hash()}
		third := start(t, store, engine.Options{Name: "third"}, adopting)
		defer third.stop()
		if got := third.end(j.ID); got.Outcome != lc.OK || worked != 1 || got.Definition != oldLetter.Hash() {
			t.Errorf("got %s under %s after %d runs", got.Outcome, got.Definition, worked)
		}
		third.verify(j.ID)
	})
}

// TestVersionThatKnowsTheDefinitionFinishesIt is the control: an engine with the old table, started after the new one,
// finishes the job.
func TestVersionThatKnowsTheDefinitionFinishesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		old := letters(nil)
		old.Life = oldLetter
		first := start(t, store, engine.Options{Name: "old"}, old)
		first.stop()
		j := first.post(engine.Order{})
		second := start(t, store, engine.Options{Name: "new"}, letters(nil))
		time.Sleep(time.Hour)
		second.stop()
		again := start(t, store, engine.Options{Name: "old again"}, old)
		defer again.stop()
		began := time.Now()
		if got := again.end(j.ID); got.Outcome != lc.OK {
			t.Errorf("got %s", got.Outcome)
		}
		if took := time.Since(began); took > 2*time.Minute {
			t.Errorf("it came to the old version after %s", took)
		}
	})
}

// E
func TestOutsideWorkersAndTimersKeepToTheDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		old := letters(nil)
		old.Life = oldLetter
		first := outside(t, store, outward(old))
		first.post(engine.Order{})
		late := first.post(engine.Order{Deadline: time.Now().Add(time.Minute)})
		w := start(t, store, engine.Options{Name: "new"}, remoteLetters())
		time.Sleep(2 * time.Minute)
		w.stop()
		if j := w.get(late.ID); j.State != "Posted" {
			t.Errorf("the timer moved a job of another definition to %s", j.State)
		}
		time.Sleep(2 * time.Minute)
		for _, j := range w.acquire("ann", 9) {
			if r := w.report("ann", j, remote.Report{}); r.Err == nil {
				t.Errorf("an outside worker moved a job of another definition to %s", r.Job.State)
			}
		}
	})
}
