package engine_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestRetryTask: a kind without a rule for it refuses the retry of one task, and nothing is entered; with one, the
// control, the task is as the rule gives it.
func TestRetryTask(t *testing.T) {
	for _, rule := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			work := letters(nil)
			if rule {
				work.Again = func(_ *job.Job, of *job.Task, _ lifecycle.Actor) (job.Task, error) {
					next := *of
					next.State = "Created"
					return next, nil
				}
			}
			w := start(t, mem.New(), engine.Options{}, work)
			defer w.stop()
			due := w.Clock().Now().Add(1 << 40)
			id := w.post(engine.Order{Due: due}).ID
			if err := w.Notify(t.Context(), id, "", job.Task{Name: "seal", Kind: "part", State: "Failed"}); err != nil {
				t.Fatal(err)
			}
			_, err := w.Operator().RetryTask(t.Context(), operator.Act{Job: id, Actor: "ann"}, "seal")
			if got := job.KindOf(err); rule && err != nil || !rule && got != job.Refused {
				t.Errorf("rule %v: got %v", rule, err)
			}
			tasks, err := w.store.Tasks(t.Context(), id)
			if err != nil || len(tasks) != 1 || (tasks[0].State == "Created") != rule {
				t.Errorf("rule %v: got %+v, %v", rule, tasks, err)
			}
			synctest.Wait()
			if j := w.get(id); !j.Due.Equal(due) || j.Claimed() || j.Ended {
				t.Errorf("rule %v: it is due at %s, %s; want %s", rule, j.Due, j.State, due)
			}
			entries, err := w.store.Audit(t.Context(), 0, 10)
			if err != nil || (len(entries) == 1) != rule {
				t.Errorf("rule %v: the audit log has %+v, %v", rule, entries, err)
			}
		})
	}
}

// between is a store on which something happens after the tasks of a job were read for the first time.
type between struct {
	job.Store
	do func()
}

func (b *between) Tasks(ctx context.Context, id job.ID) ([]job.Task, error) {
	tasks, err := b.Store.Tasks(ctx, id)
	if do := b.do; do != nil {
		b.do = nil
		do()
	}
	return tasks, err
}

// TestRetryTaskThatChanges: a task that changes after it was read for a retry is not set back to what it was. In the
// control another task changes, and the task is tried again. In both the retry is entered once.
func TestRetryTaskThatChanges(t *testing.T) {
	for name, want := range map[string]lifecycle.State{"seal": "Finished", "fold": "Created"} {
		synctest.Test(t, func(t *testing.T) {
			work := letters(nil)
			work.Again = func(j *job.Job, of *job.Task, _ lifecycle.Actor) (job.Task, error) {
				next := *of
				if next.State != "Failed" {
					return next, job.Errorf(job.Refused, "retry-task", j.ID, "it is %s", of.State)
				}
				next.State = "Created"
				return next, nil
			}
			store := &between{Store: mem.New()}
			w := start(t, store, engine.Options{}, work)
			defer w.stop()
			id := w.post(engine.Order{Due: w.Clock().Now().Add(1 << 40)}).ID
			change := func(of string, state lifecycle.State) {
				if err := w.Notify(t.Context(), id, "", job.Task{Name: of, Kind: "part", State: state}); err != nil {
					t.Fatal(err)
				}
			}
			change("seal", "Failed")
			store.do = func() { change(name, "Finished") }
			j, err := w.Operator().RetryTask(t.Context(), operator.Act{Job: id, Actor: "ann"}, "seal")
			if refused := job.KindOf(err) == job.Refused; refused != (want == "Finished") || !refused && err != nil ||
				err == nil && j.Version != w.get(id).Version {
				t.Errorf("%s changes: got %+v, %v", name, j, err)
			}
			tasks, err := w.store.Tasks(t.Context(), id)
			at := slices.IndexFunc(tasks, func(one job.Task) bool { return one.Name == "seal" })
			if err != nil || at < 0 || tasks[at].State != want {
				t.Errorf("%s changes: got %+v, %v; want %s", name, tasks, err, want)
			}
			entries, err := w.store.Audit(t.Context(), 0, 10)
			if err != nil || len(entries) != 1 {
				t.Errorf("%s changes: the audit log has %+v, %v", name, entries, err)
			}
		})
	}
}
