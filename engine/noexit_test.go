package engine_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
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

// TestNoFailureExitIsBounded checks that a failing step is not tried indefinitely in a state without a failure exit.
// After its attempts the job waits for a person. Why has the reason and the command, and the command ends the wait.
// Each failed attempt is logged. Control: a state that endures is tried again.
func TestNoFailureExitIsBounded(t *testing.T) {
	pass := func(context.Context, *engine.Run) error { return nil }
	for _, c := range []struct {
		name  string
		step  error
		tries int
	}{
		{"temporary", engine.Retry(errBroken), 3},
		{"permanent", engine.Fail("digest", errBroken), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries, broken := 0, true
				var log bytes.Buffer
				w := start(t, mem.New(), engine.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, engine.Work{
					Life: vault, Prefix: "vlt", Policy: engine.Policy{MaxAttempts: 3},
					Steps: map[lc.State]engine.Step{"Cleaning": pass, "Shut": func(context.Context, *engine.Run) error {
						if tries++; broken {
							return c.step
						}
						return nil
					}},
				})
				defer w.stop()
				id := w.post(engine.Order{Kind: "test.vault"}).ID
				time.Sleep(24 * time.Hour)
				synctest.Wait()
				if tries != c.tries {
					t.Errorf("it was tried %d times in a day, want %d", tries, c.tries)
				}
				if n := strings.Count(log.String(), "attempt failed"); n != c.tries {
					t.Errorf("%d failed attempts are logged, want %d:\n%s", n, c.tries, log.String())
				}
				x, err := w.why(t.Context(), id, time.Time{})
				if err != nil || len(x.Blockers) != 1 || x.Blockers[0].Code != cause.Attempts ||
					!strings.Contains(x.Blockers[0].Sentence, errBroken.Error()) ||
					!slices.ContainsFunc(x.Blockers[0].Remedies, func(r job.Remedy) bool {
						return r.Command == "stagepost priority 50 "+string(id)
					}) {
					t.Errorf("why: %+v, %v", x.Blockers, err)
				}
				broken = false
				if _, err := w.Operator().SetPriority(t.Context(), id, 0, 50, "ann", "the disk is back"); err != nil {
					t.Fatal(err)
				}
				if j := w.end(id); j.State != "Clean" {
					t.Errorf("it ended as %s", j.State)
				}
				w.verify(id)
			})
		})
	}
	t.Run("poison", testPoisonWithoutExit)
	t.Run("control: it endures", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			w := start(t, mem.New(), engine.Options{}, engine.Work{
				Life: vault, Prefix: "vlt", Policy: engine.Policy{MaxAttempts: 3},
				Steps: map[lc.State]engine.Step{"Shut": pass, "Cleaning": func(context.Context, *engine.Run) error {
					tries++
					return errBroken
				}},
			})
			defer w.stop()
			id := w.post(engine.Order{Kind: "test.vault"}).ID
			time.Sleep(time.Hour)
			synctest.Wait()
			if j := w.get(id); tries < 10 || j.Ended || j.Cause == cause.Attempts {
				t.Errorf("%d tries, %s, cause %q", tries, j.State, j.Cause)
			}
		})
	})
	t.Run("control: a priority releases no other wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{"Sorting": func(context.Context,
				*engine.Run) error {
				return engine.Wait(job.Blocker{Code: "snow", Until: time.Now().Add(time.Hour),
					Sentence: "the road is shut"})
			}}))
			defer w.stop()
			id := w.post(engine.Order{}).ID
			wait, err := w.Await(t.Context(), id, func(j *job.Job) bool { return j.Cause == "snow" && !j.Claimed() })
			if err != nil {
				t.Fatal(err)
			}
			if j, err := w.Operator().SetPriority(t.Context(), id, 0, 7, "ann", ""); err != nil ||
				!j.Due.Equal(wait.Due) || j.Cause != "snow" {
				t.Errorf("due %s, cause %q, %v", j.Due, j.Cause, err)
			}
		})
	})
}

// testPoisonWithoutExit checks that a job that crashes its workers waits for a person where there is no failure exit.
// It counts as poison, is logged, and a new priority lets it be tried again. Control: while it has starts left, it is
// begun again.
func testPoisonWithoutExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		work := func(shut engine.Step) engine.Work {
			return engine.Work{Life: vault, Prefix: "vlt", Policy: engine.Policy{MaxStarts: 3},
				Steps: map[lc.State]engine.Step{
					"Shut": shut, "Cleaning": func(context.Context, *engine.Run) error { return nil },
				}}
		}
		sender := start(t, &tap{Store: store}, engine.Options{Name: "sender"}, work(blocked))
		sender.stop()
		id := sender.post(engine.Order{Kind: "test.vault"}).ID
		if n := crashWorkers(t, store, id, "Shut", 3, func() engine.Work { return work(blocked) }); n != 3 {
			t.Fatalf("control: %d workers ended, want 3", n)
		}
		var log bytes.Buffer
		meter := &book{}
		begun := 0
		w := start(t, store, engine.Options{Name: "last", Log: slog.New(slog.NewTextHandler(&log, nil)), Meter: meter},
			work(func(context.Context, *engine.Run) error {
				begun++
				return nil
			}))
		defer w.stop()
		held := w.until(id, func(j *job.Job) bool { return j.Ended || !j.Claimed() && j.Cause == cause.Poison })
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if begun > 0 || held.State != "Shut" {
			t.Errorf("it was begun %d times more, in %s", begun, held.State)
		}
		x, err := w.why(t.Context(), id, time.Time{})
		if err != nil || len(x.Blockers) != 1 || x.Blockers[0].Code != cause.Poison ||
			!strings.Contains(x.Blockers[0].Sentence, "3 workers in turn let their lease expire") ||
			!slices.ContainsFunc(x.Blockers[0].Remedies, func(r job.Remedy) bool {
				return r.Command == "stagepost priority 50 "+string(id)
			}) {
			t.Errorf("why: %+v, %v", x.Blockers, err)
		}
		counted := strings.Count(strings.Join(meter.take(), "\n"), `Shut poisoned "poison"`)
		if n := strings.Count(log.String(), "held as poison"); n != 1 || counted != 1 {
			t.Errorf("it is logged %d times and counted %d times", n, counted)
		}
		if _, err := w.Operator().SetPriority(t.Context(), id, 0, 50, "ann", "the library is repaired"); err != nil {
			t.Fatal(err)
		}
		if j := w.end(id); j.State != "Clean" || begun != 1 {
			t.Errorf("it ended as %s, begun %d times", j.State, begun)
		}
		w.verify(id)
	})
}
