package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// guided is a step that walks through all states, including the one that waits; a new guide loads first. At the named
// state it waits if it may.
func guided(stays lc.State, stay func()) engine.Step {
	return func(ctx context.Context, r *engine.Run) error {
		loaded := r.Job().Starts < 2
		for {
			if r.Job().State == stays && r.Job().Starts == 1 {
				stay()
			}
			next := map[lc.State]lc.Event{"Camp": "go", "Walking": "detour", "Pausing": "rest", "Loading": "rest",
				"Resting": "go"}[r.Job().State]
			walked := r.Job().LastOK == "Resting"
			switch s := r.Job().State; {
			case s == "Walking" && !loaded:
				next, loaded = "load", true
			case s == "Walking" && walked:
				return r.Move(ctx, "arrive")
			}
			if err := r.Move(ctx, next); err != nil {
				return err
			}
		}
	}
}

// TestGuideDiesInEachState checks that the sweep ends the claim in the waiting state too. Another engine, or a new one
// of the same name, continues in the same state.
func TestGuideDiesInEachState(t *testing.T) {
	for _, s := range []lc.State{"Camp", "Walking", "Pausing", "Resting"} {
		for _, second := range []string{"first", "second"} {
			t.Run(fmt.Sprint(s, " then ", second), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := mem.New()
					m := startKillable(t, store, engine.Options{Name: "first"}, treks(guided(s, func() {
						time.Sleep(12 * time.Second)
					})))
					id := m.post(aTrek).ID
					time.Sleep(time.Second)
					if j := m.get(id); j.State != s || !j.Claimed() {
						t.Fatalf("it is %s, claimed %t", j.State, j.Claimed())
					}
					m.kill()
					began := time.Now()
					w := start(t, store, engine.Options{Name: second}, treks(guided("", nil)))
					defer w.stop()
					j := w.end(id)
					if took := time.Since(began); j.State != "Home" || took > 17*time.Second ||
						(took > 0) != (second == "second") {
						t.Errorf("got %s after %s", j.State, took)
					}
					if lost := w.times(id, lc.Lost); (lost == 0) != (s == "Resting") || j.Epoch < 2 {
						t.Errorf("%d lost, epoch %d: %v", lost, j.Epoch, w.events(id))
					}
					w.verify(id)
				})
			})
		}
	}
}

// TestStepOfAWaitingState checks that a step's outcome applies there, although the state has no loops.
func TestStepOfAWaitingState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		w := start(t, mem.New(), engine.Options{}, treks(func(ctx context.Context, r *engine.Run) error {
			switch r.Job().State {
			case "Walking":
				if r.Job().LastOK == "Resting" {
					return engine.Go("arrive")
				}
				return engine.Go("detour")
			case "Pausing":
				return engine.Go("rest")
			case "Resting":
				switch n++; n {
				case 1:
					return engine.Wait(job.Blocker{Code: "rain", Sentence: "it rains", Until: r.Now().Add(time.Hour)})
				case 2:
					return errBroken
				}
			}
			return nil
		}))
		defer w.stop()
		began := time.Now()
		j := w.end(w.post(aTrek).ID)
		synctest.Wait()
		if took := time.Since(began); j.State != "Home" || n != 3 || took < time.Hour ||
			took > time.Hour+2*time.Second {
			t.Errorf("got %s after %s and %d tries", j.State, took, n)
		}
		w.verify(j.ID)
	})
}

// TestWalkCrashesInEveryWindow kills an engine before and after every call to its store during a walk. The next one
// finishes the job with a valid history.
func TestWalkCrashesInEveryWindow(t *testing.T) {
	windows := 0
	for call := 1; call < 100; call++ {
		whole := false
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				store := mem.New()
				o := engine.Options{Name: "guide", Grace: time.Second, Sweep: time.Minute}
				m := startKillable(t, store, o, treks(guided("", nil)))
				m.line.decide(window{call, after}.fate(m.line))
				order := engine.Order{Kind: "test.trek", Key: "one"}
				if j, err := m.Submit(t.Context(), order); err == nil {
					synctest.Wait()
					now, err := store.Get(t.Context(), j.ID)
					whole = err == nil && now.Ended && m.line.count("") < call
				}
				m.kill()
				w := start(t, store, o, treks(guided("", nil)))
				defer w.stop()
				j := w.end(w.post(order).ID)
				if j.State != "Home" || j.Claimed() {
					t.Errorf("window %d %t: %+v", call, after, j)
				}
				w.verify(j.ID)
				windows++
			})
		}
		if whole {
			break
		}
	}
	if windows < 16 {
		t.Errorf("%d windows", windows)
	}
	t.Logf("%d windows", windows)
}

// TestTwoReadersOfARun calls Log and Progress from other goroutines while the step moves its job.
func TestTwoReadersOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, treks(func(ctx context.Context, r *engine.Run) error {
			done, ended := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				for {
					select {
					case <-done:
						return
					default:
						r.Progress(1, 2, "miles")
						r.Log().Info("on")
					}
				}
			}()
			err := mustMove(ctx, r, "go", "detour", "rest", "go")
			close(done)
			<-ended
			return errors.Join(err, r.Move(ctx, "arrive"))
		}))
		defer w.stop()
		if j := w.end(w.post(aTrek).ID); j.State != "Home" || j.Epoch != 1 {
			t.Errorf("got %s, epoch %d", j.State, j.Epoch)
		}
	})
}
