package engine_test

import (
	"context"
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

var tired = job.Blocker{Code: "tired", Sentence: "their feet hurt"}

// rests is a step that rests once and then finishes.
func rests(b job.Blocker) engine.Step {
	return func(ctx context.Context, r *engine.Run) error {
		switch r.Job().State {
		case "Camp":
			if err := mustMove(ctx, r, "go", "detour"); err != nil {
				return err
			}
			return r.Rest(ctx, "rest", b)
		case "Resting":
			return mustMove(ctx, r, "go", "arrive")
		}
		return r.Move(ctx, "arrive")
	}
}

// TestRestUntilAPersonMovesIt checks that `why` has the step's blocker, and that the person's event makes the job
// claimable at once.
func TestRestUntilAPersonMovesIt(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []lc.State
	}{
		{"in a state with a step", []lc.State{"Camp", "Walking", "Pausing", "Resting", "Loading"}},
		{"in a state without", []lc.State{"Camp", "Walking", "Pausing", "Loading"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				work := treks(rests(tired))
				all := work.Steps
				work.Steps = map[lc.State]engine.Step{}
				for _, s := range c.steps {
					work.Steps[s] = all[s]
				}
				w := start(t, mem.New(), engine.Options{}, work)
				defer w.stop()
				id := w.post(aTrek).ID
				entered := time.Now()
				time.Sleep(3 * time.Hour)
				j := w.get(id)
				if j.State != "Resting" || j.Claimed() || j.Epoch != 1 || j.Starts != 0 || j.Cause != "tired" {
					t.Fatalf("got %+v", j)
				}
				why, err := w.why(t.Context(), id, time.Time{})
				want := []job.Blocker{{
					Code: "tired", Sentence: "their feet hurt", Since: entered, Holder: "operator,owner",
					Remedies: []job.Remedy{job.Causing("go", id, false, "moves it to Walking: they are rested"),
						job.Causing("reset", id, false, "moves it to Camp: all over again")},
				}}
				if diff := cmp.Diff(want, why.Blockers); err != nil || diff != "" {
					t.Errorf("why (-want +got), %v:\n%s", err, diff)
				}
				began := time.Now()
				if _, err := w.Do(t.Context(), operator.Act{Job: id, Event: "go",
					By: lc.Owner, Actor: "ann"}); err != nil {
					t.Fatal(err)
				}
				if j = w.end(id); j.State != "Home" || time.Since(began) > 0 || j.Epoch != 3 {
					t.Errorf("got %s after %s, epoch %d", j.State, time.Since(began), j.Epoch)
				}
				w.verify(id)
			})
		})
	}
}

// TestRestUntilATime checks that the job is claimed at its time, or when it is notified of what it rests for.
func TestRestUntilATime(t *testing.T) {
	for _, c := range []struct {
		name string
		code string
		want time.Duration
	}{{"notified", "tired", 10 * time.Minute}, {"control: notified of something else", "search", time.Hour}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := tired
				b.Until = time.Now().Add(time.Hour)
				w := start(t, mem.New(), engine.Options{Sweep: 24 * time.Hour}, treks(rests(b)))
				defer w.stop()
				began, id := time.Now(), w.post(aTrek).ID
				time.Sleep(10 * time.Minute)
				why, err := w.why(t.Context(), id, time.Time{})
				if err != nil || len(why.Blockers) != 1 || why.Blockers[0].Code != "tired" ||
					!why.Blockers[0].Until.Equal(b.Until) {
					t.Errorf("got %+v, %v", why.Blockers, err)
				}
				if err := w.Notify(t.Context(), id, c.code, job.Task{Name: "tea", Kind: "test",
					State: "Drunk"}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Hour)
				if j := w.get(id); j.State != "Home" || !j.Entered.Equal(began.Add(c.want)) {
					t.Errorf("got %s after %s", j.State, j.Entered.Sub(began))
				}
				if tasks, err := w.store.Tasks(t.Context(), id); err != nil || len(tasks) != 1 {
					t.Errorf("%v, %v", tasks, err)
				}
				w.verify(id)
			})
		})
	}
}

// TestRestIsLeftByAReset checks that another event of a person ends the rest too, and that the job starts again.
func TestRestIsLeftByAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, treks(rests(tired)))
		defer w.stop()
		id := w.post(aTrek).ID
		w.until(id, func(j *job.Job) bool { return j.State == "Resting" && !j.Claimed() })
		if j, err := w.Do(t.Context(), operator.Act{Job: id, Event: "reset", By: lc.Owner, Actor: "ann"}); err != nil ||
			j.State != "Camp" || !j.Due.IsZero() {
			t.Fatalf("got %+v, %v", j, err)
		}
		synctest.Wait()
		if j := w.get(id); j.State != "Resting" || w.times(id, "rest") != 2 {
			t.Errorf("got %s by %v", j.State, w.events(id))
		}
		w.verify(id)
	})
}
