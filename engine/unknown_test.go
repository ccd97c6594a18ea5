package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestUnknownFateOfACommit lets the n-th commit of a job fail, for each n, with and without having been applied (rule
// R5). The job succeeds, every transition is in the history once, and the step's message is delivered once.
func TestUnknownFateOfACommit(t *testing.T) {
	steps := map[lc.State]engine.Step{
		"Sorting": func(ctx context.Context, r *engine.Run) error { // saves, waits, fails once, passes
			if j := r.Job(); len(j.Data) > 0 {
				if j.Attempts > 0 {
					return nil
				}
				return errBroken
			}
			if err := r.SetData("sorted"); err != nil {
				return err
			}
			if err := r.Save(ctx); err != nil {
				return err
			}
			return engine.Wait(job.Blocker{Code: "snow", Sentence: "snow", Until: r.Now().Add(time.Minute)})
		},
	}
	riding := mailing(takes(time.Second)).Steps["Riding"]
	for _, f := range []fate{refused, unheard} {
		for n := 1; ; n++ {
			injected := false
			t.Run(fmt.Sprintf("fate %d of commit %d", f, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := &postbox{}
					work := letters(steps)
					work.Steps["Riding"] = riding
					m := startKillable(t, mem.New(), p.options(), work)
					defer m.stop()
					m.line.decide(func(op string, nth int) fate {
						if op == "Commit" && nth == n {
							injected = true
							return f
						}
						return answered
					})
					j := m.end(m.post(engine.Order{}).ID)
					synctest.Wait()
					if j.Outcome != lc.OK || string(j.Data) != `"sorted"` || len(p.keys()) != 1 {
						t.Errorf("got %s, data %s, delivered %v", j.Outcome, j.Data, p.keys())
					}
					for _, e := range []lc.Event{"begin", "next", "finish"} {
						if got := m.times(j.ID, e); got != 1 {
							t.Errorf("%s is %d times in %v", e, got, m.events(j.ID))
						}
					}
					if got := m.times(j.ID, lc.Lost); got != 0 {
						t.Errorf("the engine took itself for lost %d times: %v", got, m.events(j.ID))
					}
					m.verify(j.ID)
				})
			})
			if !injected {
				if n < 6 {
					t.Errorf("the life had %d commits only", n-1)
				}
				break
			}
		}
	}
}

// TestSaveMayBeRepeated checks that what was set is kept if the store did not answer, and not stored twice if the store
// had applied it.
func TestSaveMayBeRepeated(t *testing.T) {
	for _, f := range []fate{refused, unheard, answered} {
		synctest.Test(t, func(t *testing.T) {
			failed := 0
			m := startKillable(t, mem.New(), engine.Options{},
				letters(map[lc.State]engine.Step{"Sorting": func(ctx context.Context, r *engine.Run) error {
					if err := r.SetData("sorted"); err != nil {
						return err
					}
					r.PutTask(job.Task{Name: "address", State: "Read"})
					if err := r.Send("mail", r.Key(), "sorted"); err != nil {
						return err
					}
					if err := r.Save(ctx); err != nil {
						failed++
						return r.Save(ctx)
					}
					return nil
				}}))
			defer m.stop()
			m.line.decide(func(op string, nth int) fate {
				if op == "Commit" && nth == 2 {
					return f
				}
				return answered
			})
			j := m.end(m.post(engine.Order{}).ID)
			tasks, err := m.store.Tasks(t.Context(), j.ID)
			if err != nil || string(j.Data) != `"sorted"` || len(m.messages(j.ID)) != 1 || len(tasks) != 1 {
				t.Errorf("fate %d: data %s, %d messages, %d tasks, %v", f, j.Data, len(m.messages(j.ID)), len(tasks),
					err)
			}
			if (failed == 1) != (f != answered) || m.times(j.ID, lc.Backoff) != 0 {
				t.Errorf("fate %d: %d saves failed, %v", f, failed, m.events(j.ID))
			}
		})
	}
}

// TestStoreThatIsDownForAWhile checks that the engine continues when the store is back, and that a commit succeeds
// after an outage that is shorter than the lease.
func TestStoreThatIsDownForAWhile(t *testing.T) {
	for _, c := range []struct {
		name   string
		down   time.Duration
		events []lc.Event
	}{
		{"a second", time.Second, []lc.Event{"create", "begin", "next", "finish"}},
		{"a minute", time.Minute, []lc.Event{"create", "begin", lc.Lost, "next", "finish"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := mem.New()
				m := startKillable(t, store, engine.Options{},
					letters(map[lc.State]engine.Step{"Sorting": deaf(10 * time.Second)}))
				defer m.stop()
				id := m.post(engine.Order{}).ID
				time.Sleep(9 * time.Second)
				m.line.cut()
				time.Sleep(time.Second + c.down)
				m.line.decide(nil)
				if j := m.end(id); j.Outcome != lc.OK {
					t.Errorf("got %s", j.Outcome)
				}
				if diff := cmp.Diff(c.events, m.events(id)); diff != "" {
					t.Errorf("history (-want +got):\n%s", diff)
				}
				m.verify(id)
			})
		})
	}
}

// TestEveryCallMayFail lets each call of the engine fail in turn, and of each kind of call the first three.
func TestEveryCallMayFail(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range []fate{refused, unheard} {
		for n := 1; n <= 60; n++ {
			failOnce(t, f, func(total, _ int, _ string) bool { return total == n }, seen)
		}
		for _, op := range []string{"Claim", "Renew", "Commit", "Overdue"} {
			for n := 1; n <= 3; n++ {
				failOnce(t, f, func(_, nth int, o string) bool { return o == op && nth == n }, seen)
			}
		}
	}
	for _, op := range []string{"Claim", "Renew", "Commit", "Overdue"} {
		if !seen[op] {
			t.Errorf("no %s failed", op)
		}
	}
}

// failOnce lets one call fail of an engine that works on a batch.
func failOnce(t *testing.T, f fate, which func(total, nth int, op string) bool, seen map[string]bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		m := startKillable(t, store, engine.Options{Sweep: 2 * time.Second}, bagOf(3, "test.letter"),
			letters(map[lc.State]engine.Step{
				"Sorting": takes(6 * time.Second),
			}))
		defer m.stop()
		failed, nths := "", map[string]int{}
		m.line.decide(func(op string, _ int) fate {
			nths[op]++
			if failed == "" && op != "Create" && which(m.line.total, nths[op], op) {
				failed, seen[op] = op, true
				return f
			}
			return answered
		})
		id := m.post(engine.Order{Kind: "test.bag"}).ID
		for range 100 {
			if j, err := store.Get(t.Context(), id); err == nil && j.Ended {
				break
			}
			time.Sleep(time.Second)
		}
		m.line.decide(nil)
		j := m.get(id)
		if j.State != "Emptied" || j.Children.OK != 3 || m.times(id, "report") != 1 {
			t.Errorf("fate %d of %s: %s with %+v, %v", f, failed, j.State, j.Children, m.events(id))
		}
		children(t, m.harness, id, 3)
		m.verify(id)
	})
}

// children verifies the jobs of a batch, of which there must be n.
func children(t *testing.T, w *harness, parent job.ID, n int) {
	t.Helper()
	page, err := w.store.List(t.Context(), job.Query{Parent: parent, Limit: 1000})
	if err != nil || len(page.Jobs) != n {
		t.Errorf("%d children, %v", len(page.Jobs), err)
	}
	for _, j := range page.Jobs {
		w.verify(j.ID)
	}
}
