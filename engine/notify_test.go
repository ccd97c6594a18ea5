package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

var theFerry = job.Task{Name: "ferry", Kind: "test", State: "Here"}

// awaits is a step that ends when the ferry is here. It calls a function between its check and its wait.
func awaits(look func(n int, r *engine.Run), listens bool) engine.Step {
	n := 0
	return func(ctx context.Context, r *engine.Run) error {
		if r.Job().State == "Camp" {
			if err := r.Move(ctx, "go"); err != nil {
				return err
			}
		}
		if listens {
			r.Changed()
		}
		tasks, err := r.Tasks(ctx)
		if err != nil {
			return err
		}
		if len(tasks) > 0 {
			return r.Move(ctx, "arrive")
		}
		n++
		look(n, r)
		return engine.Wait(job.Blocker{Code: "ferry", Sentence: "the ferry is away", Until: r.Now().Add(time.Hour)})
	}
}

// TestTellEndsAWait checks that a job that waits for the code is due at once. The control waits for something else.
func TestTellEndsAWait(t *testing.T) {
	for code, want := range map[string]time.Duration{"ferry": 0, "bridge": 50 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, mem.New(), engine.Options{Sweep: 2 * time.Hour},
				treks(awaits(func(int, *engine.Run) {}, true)))
			defer w.stop()
			id := w.post(aTrek).ID
			time.Sleep(10 * time.Minute)
			began := time.Now()
			if err := w.Notify(t.Context(), id, code, theFerry); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Hour)
			if j := w.get(id); j.State != "Home" || j.Entered.Sub(began) != want {
				t.Errorf("%s: %s after %s, want %s", code, j.State, j.Entered.Sub(began), want)
			}
			if err := w.Notify(t.Context(), id, code, theFerry); job.KindOf(err) != job.Refused {
				t.Errorf("notified after its end: %v", err)
			}
			w.verify(id)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, treks(paused))
		defer w.stop()
		if err := w.Notify(t.Context(), "tre_none", "ferry", theFerry); job.KindOf(err) != job.NotFound {
			t.Errorf("got %v", err)
		}
	})
}

// TestNoWordIsLostBeforeAWait checks that a notification between the step's check and its wait makes it check again.
// The control does not listen.
func TestNoWordIsLostBeforeAWait(t *testing.T) {
	for listens, want := range map[bool]time.Duration{true: 0, false: time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var w *harness
			w = start(t, mem.New(), engine.Options{Sweep: 2 * time.Hour}, treks(awaits(func(n int, r *engine.Run) {
				if n == 1 {
					if err := w.Notify(t.Context(), r.Job().ID, "ferry", theFerry); err != nil {
						t.Error(err)
					}
				}
			}, listens)))
			defer w.stop()
			began, id := time.Now(), w.post(aTrek).ID
			time.Sleep(3 * time.Hour)
			if j := w.get(id); j.State != "Home" || j.Entered.Sub(began) != want || j.Attempts != 0 {
				t.Errorf("listens %t: %s after %s, want %s", listens, j.State, j.Entered.Sub(began), want)
			}
			w.verify(id)
		})
	}
}

// TestNotifyDuringCommits notifies hundreds of times while the step commits without a pause. The claim stays, every
// task is recorded, and the step is notified of each change that it has not seen, but not of its own commits.
func TestNotifyDuringCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const words = 300
		notified, own := 0, 0
		w := start(t, mem.New(), engine.Options{}, treks(func(ctx context.Context, r *engine.Run) error {
			changed := r.Changed()
			if err := r.Move(ctx, "go"); err != nil {
				return err
			}
			for i := range 50 {
				r.PutTask(job.Task{Name: fmt.Sprint("own", i), Kind: "test", State: "Done"})
				if err := r.Save(ctx); err != nil {
					return err
				}
			}
			select {
			case <-changed:
				own++
			default:
			}
			for notified < words {
				r.PutTask(job.Task{Name: "step", Kind: "test", State: "On"})
				if err := r.Save(ctx); err != nil {
					return err
				}
				<-changed
				if err := r.Fresh(ctx); err != nil {
					return err
				}
				tasks, err := r.Tasks(ctx)
				if err != nil {
					return err
				}
				notified = len(tasks) - 51
			}
			return r.Move(ctx, "arrive")
		}))
		defer w.stop()
		id := w.post(aTrek).ID
		w.until(id, func(j *job.Job) bool { return j.State == "Walking" })
		synctest.Wait()
		for i := range words {
			if err := w.Notify(t.Context(), id, "word", job.Task{Name: fmt.Sprint("word", i), Kind: "test",
				State: "Said"}); err != nil {
				t.Fatal(err)
			}
		}
		j := w.end(id)
		synctest.Wait()
		if j.State != "Home" || j.Epoch != 1 || notified != words || own != 0 || w.times(id, lc.Lost) != 0 {
			t.Errorf("got %s, epoch %d, notified %d, own changes were news %d times", j.State, j.Epoch, notified, own)
		}
		w.verify(id)
	})
}
