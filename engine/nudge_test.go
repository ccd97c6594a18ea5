package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestNudge checks that a waiting job becomes due at once, also if an earlier attempt failed. The controls wait for
// something else or back off, and keep their time.
func TestNudge(t *testing.T) {
	for _, c := range []struct {
		name  string
		code  string
		then  func(r *engine.Run) error // of the second attempt, after an error
		waits bool
	}{
		{"what it waits for", "ferry", ferry, false},
		{"control: something else", "bridge", ferry, true},
		{"control: backs off", "ferry", func(*engine.Run) error {
			return engine.RetryAfter(time.Hour, errors.New("high water"))
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				work := letters(map[lc.State]engine.Step{"Riding": func(_ context.Context, r *engine.Run) error {
					switch tries++; tries {
					case 1:
						return engine.RetryAfter(time.Minute, errors.New("high water"))
					case 2:
						return c.then(r)
					}
					return nil
				}})
				w := start(t, mem.New(), engine.Options{}, work)
				defer w.stop()
				j := w.post(engine.Order{})
				time.Sleep(10 * time.Minute)
				if now := w.get(j.ID); tries != 2 || now.Attempts == 0 {
					t.Fatalf("it is %s after %d tries, %d of them failed", now.State, tries, now.Attempts)
				}
				began := time.Now()
				if err := w.Nudge(t.Context(), j.ID, c.code); err != nil {
					t.Fatal(err)
				}
				w.end(j.ID)
				if took := time.Since(began); took > 0 != c.waits {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// TestNudgeDuringAttempt: what an attempt waits for may happen after its check and before its wait is committed. The
// job is then due at once. The controls are nudged for something else, or before the attempt that waits began.
func TestNudgeDuringAttempt(t *testing.T) {
	for _, c := range []struct {
		name  string
		code  string
		first bool // the nudge comes during the first attempt, which fails, and not during the second
		waits bool
	}{
		{"what it waits for", "ferry", false, false},
		{"control: something else", "bridge", false, true},
		{"control: an earlier attempt", "ferry", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w *harness
				tries := 0
				nudge := func(r *engine.Run, now bool) {
					if !now {
						return
					}
					if err := w.Nudge(t.Context(), r.Job().ID, c.code); err != nil {
						t.Error(err)
					}
				}
				work := letters(map[lc.State]engine.Step{"Riding": func(_ context.Context, r *engine.Run) error {
					switch tries++; tries {
					case 1:
						nudge(r, c.first)
						return engine.RetryAfter(time.Minute, errors.New("high water"))
					case 2:
						nudge(r, !c.first)
						return ferry(r)
					}
					return nil
				}})
				w = start(t, mem.New(), engine.Options{}, work)
				defer w.stop()
				j := w.post(engine.Order{})
				began := time.Now()
				w.end(j.ID)
				if took := time.Since(began); took > 30*time.Minute != c.waits {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

func ferry(r *engine.Run) error {
	return engine.Wait(job.Blocker{Code: "ferry", Sentence: "the ferry is on the other side",
		Until: r.Now().Add(time.Hour)})
}
