package ingest

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// countedLists counts the reads of the jobs of a batch.
type countedLists struct {
	job.Store
	n atomic.Int64
}

func (c *countedLists) List(ctx context.Context, q job.Query) (job.Page, error) {
	if q.Parent != "" {
		c.n.Add(1)
	}
	return c.Store.List(ctx, q)
}

// TestDeletionOfOneReadsNotAll: a person who deletes the failed jobs of a large batch one by one does not read all of
// them for each. The control is a job that was retried: only the report shows whether the depositor was notified of its
// result.
func TestDeletionOfOneReadsNotAll(t *testing.T) {
	s := newSite(t, nil)
	s.put("bad.checkm", s.manifest("missing.txt"))
	store := &countedLists{Store: mem.New()}
	w := startOn(t, store, options(t, t.TempDir()))
	batch := w.submit(Submission{Profile: "test"},
		manifest("mrt-batch-manifest", s.row("bad.checkm", "1", "A"), s.row("bad.checkm", "2", "B")))
	w.end(batch.ID)
	jobs := w.children(batch.ID, 2)
	if err := w.do(jobs[0].ID, record.Retry); err != nil {
		t.Fatal(err)
	}
	w.end(jobs[0].ID)
	for i, want := range []bool{true, false} {
		before := store.n.Load()
		_, err := w.e.Do(t.Context(),
			operator.Act{Job: jobs[i].ID, Event: record.Delete, By: lifecycle.Operator, Actor: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		if got := store.n.Load() > before; got != want {
			t.Errorf("deletion of job %d: read all %t, want %t", i, got, want)
		}
	}
}
