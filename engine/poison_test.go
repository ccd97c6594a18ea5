package engine_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// vault has a state without a failure exit: what is in it is cleaned, however long that takes.
var vault = lc.Must("test.vault",
	lc.OnQueue("Shut", "a visitor brings it, a clerk takes it", lc.OnPass("begin", "Cleaning", lc.Worker, "a clerk begins")).Bounded("after its attempts it waits for a person"),
	lc.OnWork("Cleaning", "a clerk cleans it", lc.OnPass("finish", "Clean", lc.Worker,
		"nothing is left")).Enduring("what is dirty must be cleaned"),
	lc.OnEnd("Clean", lc.OK, "nothing is left"),
)

// crashWorkers gives a job to one engine after another, each of which crashes while it works on the job, until the job
// has ended or n have crashed.
func crashWorkers(
	t *testing.T, store job.Store, id job.ID, state lc.State, n int, work func() engine.Work,
) (crashes int) {
	t.Helper()
	for crashes < n {
		m := startKillable(t, store, named("victim", crashes), work())
		j := m.until(id, func(j *job.Job) bool {
			return j.Ended || (j.State == state && j.Worker == m.Status().Worker)
		})
		if j.Ended {
			m.stop()
			break
		}
		m.kill()
		crashes++
	}
	return crashes
}

func TestPoisonFailsTheJobThatKillsItsWorkers(t *testing.T) {
	for _, c := range []struct {
		name      string
		maxStarts int
		deaths    int
		state     lc.State
	}{
		{"default", 0, 5, "Lost"},
		{"three", 3, 3, "Lost"},
		{"control: patience without end", 1000, 8, "Sorting"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := mem.New()
				work := func() engine.Work {
					w := letters(map[lc.State]engine.Step{"Sorting": blocked})
					w.Policy.MaxStarts = c.maxStarts
					return w
				}
				sender := start(t, &tap{Store: store}, engine.Options{Name: "sender"}, letters(nil))
				sender.stop()
				id := sender.post(engine.Order{}).ID
				deaths := crashWorkers(t, store, id, "Sorting", 8, work)
				j := sender.get(id)
				if deaths != c.deaths || j.State != c.state {
					t.Fatalf("got %s after %d deaths, want %s after %d", j.State, deaths, c.state, c.deaths)
				}
				if j.State == "Lost" && (j.Cause != cause.Poison || j.Outcome != lc.Failed || j.Origin != "Sorting") {
					t.Errorf("got cause %q, %+v", j.Cause, j.Position)
				}
				if j.State == "Lost" && !strings.Contains(j.Message,
					"workers in turn let their lease expire while Sorting") {
					t.Errorf("got message %q", j.Message)
				}
				sender.verify(id)
			})
		})
	}
}

// TestPoisonNeedsSilence checks that a job whose workers crash is no poison if it reports in between.
func TestPoisonNeedsSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		silent := func() engine.Work {
			w := letters(map[lc.State]engine.Step{"Sorting": blocked})
			w.Policy.MaxStarts = 3
			return w
		}
		sender := start(t, &tap{Store: store}, engine.Options{Name: "sender"}, letters(nil))
		sender.stop()
		id := sender.post(engine.Order{}).ID
		for range 3 {
			if n := crashWorkers(t, store, id, "Sorting", 2, silent); n != 2 {
				t.Fatalf("%d crashed, then it was %s", n, sender.get(id).State)
			}
			talking := start(t, store, engine.Options{Name: "talker"}, letters(map[lc.State]engine.Step{
				"Sorting": func(_ context.Context, r *engine.Run) error {
					return engine.Wait(job.Blocker{Code: "snow", Sentence: "snow", Until: r.Now().Add(time.Hour)})
				},
			}))
			talking.until(id, func(j *job.Job) bool { return j.Starts == 0 })
			talking.stop()
			time.Sleep(time.Hour)
		}
		last := start(t, store, engine.Options{Name: "last"}, letters(nil))
		defer last.stop()
		if j := last.end(id); j.Outcome != lc.OK {
			t.Errorf("got %s (%s)", j.Outcome, j.Message)
		}
		if got := last.times(id, lc.Lost); got != 6 {
			t.Errorf("the history has %d lost workers, want 6", got)
		}
		last.verify(id)
	})
}

func TestPoisonSparesStatesThatEndure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		work := func(step engine.Step) engine.Work {
			return engine.Work{Life: vault, Prefix: "vlt", Policy: engine.Policy{MaxStarts: 2, MaxAttempts: 2},
				Steps: map[lc.State]engine.Step{
					"Shut": func(context.Context, *engine.Run) error { return nil }, "Cleaning": step,
				}}
		}
		tries := 0
		sender := start(t, &tap{Store: store}, engine.Options{Name: "sender"}, work(blocked))
		sender.stop()
		id := sender.post(engine.Order{Kind: "test.vault"}).ID
		if n := crashWorkers(t, store, id, "Cleaning", 6, func() engine.Work { return work(blocked) }); n != 6 {
			t.Fatalf("it ended after %d deaths: %+v", n, sender.get(id).Position)
		}
		last := start(t, store, engine.Options{Name: "last"}, work(func(context.Context, *engine.Run) error {
			switch tries++; {
			case tries < 4:
				return engine.Retry(errBroken)
			case tries < 7:
				return engine.Fail("dirt", errBroken)
			}
			return nil
		}))
		defer last.stop()
		if j := last.end(id); j.Outcome != lc.OK || tries != 7 {
			t.Errorf("got %s after %d tries", j.Outcome, tries)
		}
		last.verify(id)
	})
}

// TestStartsAreCountedBeforeTheWork checks that the record counts the start while the step runs.
func TestStartsAreCountedBeforeTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		var during, known int
		w := start(t, store, engine.Options{}, letters(map[lc.State]engine.Step{
			"Posted": func(ctx context.Context, r *engine.Run) error {
				j, err := store.Get(ctx, r.Job().ID)
				during, known = j.Starts, r.Job().Starts
				return err
			},
		}))
		defer w.stop()
		j := w.end(w.post(engine.Order{}).ID)
		if during != 1 || known != 1 || j.Starts != 0 {
			t.Errorf("stored %d, given %d, at the end %d starts; want 1, 1, 0", during, known, j.Starts)
		}
	})
}

// M
func TestPoisonOfATableWithATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		sender := outside(t, store, runs(blocked, engine.Policy{}))
		id := sender.post(engine.Order{Kind: "test.race"}).ID
		crashWorkers(t, store, id, "Running", 8, func() engine.Work { return runs(blocked, engine.Policy{}) })
		if j := sender.get(id); j.Outcome != lc.Failed || j.Cause != cause.Poison {
			t.Errorf("got %s, outcome %s, cause %s, %v", j.State, j.Outcome, j.Cause, sender.events(id))
		}
	})
}
