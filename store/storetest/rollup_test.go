package storetest

import (
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// The control of the last two jobs: each checks whether another is open before its own end is committed, and reports
// if not. In the schedule in which both check first, no worker reports (write skew).
func TestRollUpByListIsMissed(t *testing.T) {
	w := newHarness(t, func(*testing.T) (job.Store, func() job.Store) { return mem.New(), nil })
	batch := w.moved(w.create(w.made(Batch, expecting(2)))[0], lifecycle.Worker, "begin")
	jobs := w.create(w.made(Step, parent(batch.ID)), w.made(Step, parent(batch.ID)))
	open := make([]int, len(jobs))
	for i := range jobs { // both check
		open[i] = len(w.list(job.Query{Parent: batch.ID, Ended: new(bool)}))
	}
	for i := range jobs { // both end, and go by what they saw
		w.moved(jobs[i], lifecycle.Owner, "cancel")
		if open[i] == 1 {
			w.moved(w.get(batch.ID), lifecycle.Engine, "report")
		}
	}
	if got := w.get(batch.ID); got.State != gathering || !got.Children.Settled() {
		t.Errorf("the batch is %s with %+v; the control should leave it unreported", got.State, got.Children)
	}
}
