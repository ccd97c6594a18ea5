package engine_test

import (
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
