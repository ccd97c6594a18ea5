package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// mute is a store that sends no hints.
type mute struct{ job.Store }

func (mute) Watch(context.Context, func([]job.Hint)) {}

// paused is a step that works until a person asks it to pause, and then rests.
func paused(ctx context.Context, r *engine.Run) error {
	changed := r.Changed()
	for r.Job().State != "Pausing" {
		if r.Job().State != "Walking" {
			if err := r.Move(ctx, "go"); err != nil {
				return err
			}
			continue
		}
		select {
		case <-changed:
			if err := r.Fresh(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return r.Rest(ctx, "rest", tired)
}

// TestPersonAsksTheWorker checks that the claim stays and that the step is notified at once, or by the renewals if
// hints are lost.
func TestPersonAsksTheWorker(t *testing.T) {
	for _, c := range []struct {
		name  string
		store job.Store
		most  time.Duration
	}{{"told", mem.New(), 0}, {"hints are lost", mute{mem.New()}, 5 * time.Second}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, c.store, engine.Options{}, treks(paused))
				defer w.stop()
				id := w.post(aTrek).ID
				time.Sleep(time.Minute + time.Second)
				began := time.Now()
				j, err := w.Do(t.Context(), operator.Act{Job: id, Event: "pause", By: lc.Owner, Actor: "ann"})
				if err != nil || j.State != "Pausing" || !j.Claimed() || j.Epoch != 1 || j.Starts != 1 {
					t.Fatalf("got %+v, %v", j, err)
				}
				time.Sleep(c.most)
				synctest.Wait()
				if j = w.get(id); j.State != "Resting" || j.Entered.Sub(began) > c.most || j.Epoch != 1 {
					t.Errorf("got %s after %s, epoch %d", j.State, j.Entered.Sub(began), j.Epoch)
				}
				if diff := cmp.Diff([]lc.Event{"create", "go", "pause", "rest"}, w.events(id)); diff != "" {
					t.Errorf("history (-want +got):\n%s", diff)
				}
				w.verify(id)
			})
		})
	}
}

// TestAskingWithoutAWorker checks that a waiting job is claimed in its new state at once.
func TestAskingWithoutAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, treks(func(ctx context.Context, r *engine.Run) error {
			switch r.Job().State {
			case "Camp":
				return engine.Go("go")
			case "Walking":
				return engine.Wait(job.Blocker{Code: "ferry", Sentence: "the ferry is away",
					Until: r.Now().Add(time.Hour)})
			}
			return r.Move(ctx, "arrive")
		}))
		defer w.stop()
		id := w.post(aTrek).ID
		w.until(id, func(j *job.Job) bool { return j.State == "Walking" && !j.Claimed() })
		began := time.Now()
		if j, err := w.Do(t.Context(), operator.Act{Job: id, Event: "pause", By: lc.Owner, Actor: "ann"}); err != nil ||
			j.Claimed() || !j.Due.IsZero() {
			t.Fatalf("got %+v, %v", j, err)
		}
		if j := w.end(id); j.State != "Home" || time.Since(began) > 0 {
			t.Errorf("got %s after %s", j.State, time.Since(began))
		}
		w.verify(id)
	})
}

// TestAskingMeetsAnOutcome checks that an outcome for the state that the job has left is not committed. The step runs
// again in the new state.
func TestAskingMeetsAnOutcome(t *testing.T) {
	for name, last := range map[string]func(ctx context.Context, r *engine.Run) error{
		"success": func(context.Context, *engine.Run) error { return engine.Go("arrive") },
		"wait": func(_ context.Context, r *engine.Run) error {
			return engine.Wait(job.Blocker{Code: "ferry", Sentence: "the ferry is away", Until: r.Now().Add(time.Hour)})
		},
		"save": func(ctx context.Context, r *engine.Run) error {
			r.PutTask(job.Task{Name: "boots", Kind: "test", State: "On"})
			if err := r.Save(ctx); job.KindOf(err) != job.Conflict {
				return fmt.Errorf("saved: %w", err)
			}
			return errors.Join(r.Fresh(ctx), r.Save(ctx), r.Rest(ctx, "rest", tired))
		},
		"move": func(ctx context.Context, r *engine.Run) error {
			if err := r.Move(ctx, "arrive"); job.KindOf(err) != job.Conflict {
				return fmt.Errorf("moved: %w", err)
			}
			return errors.Join(r.Fresh(ctx), r.Rest(ctx, "rest", tired))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w *harness
				w = start(t, mem.New(), engine.Options{}, treks(func(ctx context.Context, r *engine.Run) error {
					if r.Job().State == "Pausing" {
						return r.Rest(ctx, "rest", tired)
					}
					if err := r.Move(ctx, "go"); err != nil {
						return err
					}
					if _, err := w.Do(ctx, operator.Act{Job: r.Job().ID, Event: "pause",
						By: lc.Owner, Actor: "ann"}); err != nil {
						return err
					}
					return last(ctx, r)
				}))
				defer w.stop()
				id := w.post(aTrek).ID
				time.Sleep(time.Minute)
				if j := w.get(id); j.State != "Resting" || j.Attempts != 0 || j.Epoch != 1 {
					t.Errorf("got %s (%s), epoch %d, %d attempts", j.State, j.Message, j.Epoch, j.Attempts)
				}
				if diff := cmp.Diff([]lc.Event{"create", "go", "pause", "rest"}, w.events(id)); diff != "" {
					t.Errorf("history (-want +got):\n%s", diff)
				}
				w.verify(id)
			})
		})
	}
}

// TestAskingChangesTheTime checks that the timeout of the new state applies to the running step at once, with and
// without a hint.
func TestAskingChangesTheTime(t *testing.T) {
	for name, c := range map[string]struct {
		store   job.Store
		walking time.Duration
		pausing time.Duration
		state   lc.State
		after   time.Duration
	}{
		"more": {mem.New(), time.Minute, time.Hour, "Home", 10 * time.Minute},
		"less": {mem.New(), time.Hour, time.Minute, "Fallen", time.Minute + 30*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				work := treks(func(ctx context.Context, r *engine.Run) error {
					if err := r.Move(ctx, "go"); err != nil {
						return err
					}
					if err := takes(10*time.Minute)(ctx, r); err != nil {
						return err
					}
					return errors.Join(r.Fresh(ctx), r.Move(ctx, "arrive"))
				})
				work.Policies = map[lc.State]engine.Policy{"Walking": {Timeout: c.walking},
					"Pausing": {Timeout: c.pausing}}
				w := start(t, c.store, engine.Options{}, work)
				defer w.stop()
				began, id := time.Now(), w.post(aTrek).ID
				time.Sleep(30 * time.Second)
				if _, err := w.Do(t.Context(), operator.Act{Job: id, Event: "pause",
					By: lc.Owner, Actor: "ann"}); err != nil {
					t.Fatal(err)
				}
				j := w.end(id)
				if took := j.Entered.Sub(began); j.State != c.state || took < c.after || took > c.after+time.Second {
					t.Errorf("got %s after %s, want %s after %s", j.State, took, c.state, c.after)
				}
				w.verify(id)
			})
		})
	}
}

// TestStoppingComesBeforeTheEndOfGrace checks that a step that waits for Stopping ends by itself, and that another is
// cancelled at the end of the grace period.
func TestStoppingComesBeforeTheEndOfGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alive := false
		w := start(t, mem.New(), engine.Options{Grace: time.Hour},
			treks(func(ctx context.Context, r *engine.Run) error {
				if err := r.Move(ctx, "go"); err != nil {
					return err
				}
				<-r.Stopping()
				alive = ctx.Err() == nil
				return mustMove(ctx, r, "detour", "rest", "go", "arrive")
			}))
		id := w.post(aTrek).ID
		w.until(id, func(j *job.Job) bool { return j.State == "Walking" })
		began := time.Now()
		w.stop()
		if j := w.get(id); j.State != "Home" || !alive || time.Since(began) > 0 {
			t.Errorf("got %s after %s, alive %t", j.State, time.Since(began), alive)
		}
	})
}

// TestAccompany checks that what the application adds is in the commit of the person's event, and that its error stops
// the event.
func TestAccompany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := errors.New("not today")
		work := treks(rests(tired))
		work.Accompany = func(_ context.Context, j *job.Job, _ *operator.Act, c *job.Change) error {
			if c.Note == "refuse" {
				return job.Errorf(job.Refused, string(c.Event), j.ID, "%w", refuse)
			}
			if j.State != "Resting" || c.To.State != "Camp" {
				return errors.New("it was not asked with the change")
			}
			c.Tasks = append(c.Tasks, job.Task{Name: "boots", Kind: "test", State: "Off"})
			c.Set.Data = []byte(`"anew"`)
			return nil
		}
		w := start(t, mem.New(), engine.Options{}, work)
		defer w.stop()
		id := w.post(aTrek).ID
		before := w.until(id, func(j *job.Job) bool { return j.State == "Resting" && !j.Claimed() })
		act := operator.Act{Job: id, Event: "reset", By: lc.Owner, Actor: "ann", Note: "refuse"}
		if _, err := w.Do(t.Context(), act); !errors.Is(err, refuse) || w.get(id).Version != before.Version {
			t.Errorf("got %v", err)
		}
		act.Note = "again"
		j, err := w.Do(t.Context(), act)
		tasks, err2 := w.store.Tasks(t.Context(), id)
		if err != nil || err2 != nil || j.Version != before.Version+1 || string(j.Data) != `"anew"` ||
			len(tasks) != 1 || tasks[0].Changed.IsZero() {
			t.Errorf("version %d after %d, data %s, %v, %v %v", j.Version, before.Version, j.Data, tasks, err, err2)
		}
	})
}
