package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// ahead is a store whose time is later than that of its caller, as of a database that answers after a while.
type ahead struct{ job.Store }

func (s ahead) Overdue(ctx context.Context, now time.Time, kinds []job.Kind, n int) ([]job.Job, error) {
	return s.Store.Overdue(ctx, now.Add(2*time.Second), kinds, n)
}

// TestLeaseEndsByTheTimeOfTheStore: a lease that is over by the time of the store alone does not count as the timeout
// of the state. Control: a timeout that ends before the lease takes the job out of its state.
func TestLeaseEndsByTheTimeOfTheStore(t *testing.T) {
	for timeout, want := range map[time.Duration]lc.Outcome{time.Hour: lc.OK, 8 * time.Second: lc.Failed} {
		t.Run(timeout.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := mem.New()
				limited := func(steps map[lc.State]engine.Step) engine.Work {
					work := letters(steps)
					work.Policies = map[lc.State]engine.Policy{"Sorting": {Timeout: timeout}}
					return work
				}
				m := startKillable(t, store, engine.Options{Name: "first"},
					limited(map[lc.State]engine.Step{"Sorting": blocked}))
				id := m.post(engine.Order{}).ID
				m.until(id, func(j *job.Job) bool { return j.State == "Sorting" && j.Claimed() })
				m.kill()
				second := start(t, ahead{store}, engine.Options{Name: "second"}, limited(nil))
				defer second.stop()
				j := second.end(id)
				lost := second.times(id, lc.Lost)
				ok, late := want == lc.OK, j.Cause == cause.Timeout
				if j.Outcome != want || (lost == 1) != ok || late == ok {
					t.Errorf("%s, cause %q (%s), %d lost claims", j.State, j.Cause, j.Message, lost)
				}
			})
		})
	}
}
