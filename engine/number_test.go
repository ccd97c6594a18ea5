package engine_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestOrderBringsItsNumber checks that a job keeps its number from another system, that one without a number gets the
// next, and that a repeated order returns the existing job.
func TestOrderBringsItsNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(nil))
		defer w.stop()
		order := engine.Order{Kind: "test.letter", Number: 41, Key: "k"}
		first, next := w.post(order), w.post(engine.Order{})
		if first.Number != 41 || next.Number != 42 {
			t.Errorf("got numbers %d and %d, want 41 and 42", first.Number, next.Number)
		}
		if again := w.post(order); again.ID != first.ID || again.Number != 41 {
			t.Errorf("ordered again: got %s with number %d", again.ID, again.Number)
		}
		if found, err := w.store.Numbered(t.Context(), "test.letter", 41); err != nil || found.ID != first.ID {
			t.Errorf("found %s, %v", found.ID, err)
		}
		for _, id := range []job.ID{first.ID, next.ID} {
			if j := w.end(id); j.Outcome != lc.OK {
				t.Errorf("%s: got %s", id, j.State)
			}
			w.verify(id)
		}
	})
}

// TestOrderWhoseNumberIsTaken checks that such an order creates none of the jobs of its call, and that the reserved
// slots are free again.
func TestOrderWhoseNumberIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{Slots: 2},
			letters(map[lc.State]engine.Step{"Posted": takes(time.Minute)}))
		defer w.stop()
		w.end(w.post(engine.Order{Number: 7}).ID)
		for number, want := range map[int64]job.ErrorKind{7: job.Conflict, 3: job.Conflict, -1: job.Invalid} {
			for range 3 {
				_, err := w.SubmitAll(t.Context(), engine.Order{Kind: "test.letter"},
					engine.Order{Kind: "test.letter", Number: number})
				if job.KindOf(err) != want {
					t.Errorf("number %d: got %v, want kind %s", number, err, want)
				}
			}
		}
		if page, err := w.store.List(t.Context(), job.Query{}); err != nil || len(page.Jobs) != 1 {
			t.Errorf("there are %d jobs, %v", len(page.Jobs), err)
		}
		began := time.Now()
		jobs, err := w.SubmitAll(t.Context(), engine.Order{Kind: "test.letter", Number: 9},
			engine.Order{Kind: "test.letter"})
		if err != nil || jobs[0].Number != 9 || jobs[1].Number != 10 {
			t.Fatalf("got %+v, %v", jobs, err)
		}
		for _, j := range jobs {
			w.end(j.ID)
		}
		if took := time.Since(began); took > time.Minute+time.Second {
			t.Errorf("two jobs on two slots took %s, want a minute", took)
		}
	})
}

// TestSpawnBringsNumbers checks that children may have numbers, and that a batch with a number that is in use fails
// with the reason.
func TestSpawnBringsNumbers(t *testing.T) {
	for _, c := range []struct {
		name  string
		first int64
		state lc.State
	}{{"free", 20, "Emptied"}, {"taken", 4, "Torn"}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, mem.New(), engine.Options{}, letters(nil), engine.Work{
					Life: bag, Prefix: "bag", Steps: map[lc.State]engine.Step{
						"Packed": func(context.Context, *engine.Run) error { return nil },
						"Open": func(ctx context.Context, r *engine.Run) error {
							if err := r.Spawn(ctx, 3, func(i int) (engine.Order, error) {
								return engine.Order{Kind: "test.letter", Number: c.first + int64(i)}, nil
							}); err != nil {
								return err
							}
							return r.WaitChildren()
						},
					},
				})
				defer w.stop()
				w.post(engine.Order{Number: 5})
				j := w.end(w.post(engine.Order{Kind: "test.bag"}).ID)
				if j.State != c.state || c.state == "Torn" && !strings.Contains(j.Message, "number 4") {
					t.Errorf("got %s: %s", j.State, j.Message)
				}
				page, err := w.store.List(t.Context(), job.Query{Parent: j.ID, Oldest: true})
				if err != nil || (len(page.Jobs) == 3) != (c.state == "Emptied") {
					t.Fatalf("%d children, %v", len(page.Jobs), err)
				}
				for i := range page.Jobs {
					if n := page.Jobs[i].Number; n != c.first+int64(i) {
						t.Errorf("child %d has number %d", i, n)
					}
				}
				w.verify(j.ID)
			})
		})
	}
}
