package ingest

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// broken is a store that refuses to create the jobs of a batch from the second commit on.
type broken struct {
	job.Store
	spawns atomic.Int64
}

func (s *broken) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	for i := range changes {
		if len(changes[i].Spawn) > 0 && s.spawns.Add(1) > 1 {
			return []job.Result{{Err: job.Errorf(job.Invalid, "commit", changes[i].Job, "a record is too large")}}, nil
		}
	}
	return s.Store.Commit(ctx, changes...)
}

// TestPlanErrorWhileJobsAreCreated: some jobs of a batch exist when the next cannot be made. The batch fails, none of
// its jobs is left to work, and the notice goes out.
func TestPlanErrorWhileJobsAreCreated(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "a"})
	w, _ := startPlan(t, &broken{Store: mem.New()}, options(t, t.TempDir()))
	b := w.end(w.submit(Submission{Notification: "ann@example.org"},
		manifest("mrt-single-file-batch-manifest", slices.Repeat([]string{s.row("a.txt", "", "")}, 700)...)).ID)
	if b.State != record.Failed || !strings.Contains(b.Message, "a record is too large") {
		t.Errorf("it is %s: %s", b.State, b.Message)
	}
	page, err := w.store.List(t.Context(), job.Query{Kinds: []job.Kind{record.JobKind}, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	open := 0
	for _, j := range page.Jobs {
		if !j.Ended {
			open++
		}
	}
	if open > 0 {
		t.Errorf("%d of %d jobs are left to work", open, len(page.Jobs))
	}
	mails := strings.Join(w.awaitMails(2), "\n")
	if !strings.Contains(mails, "FAIL") || !strings.Contains(mails, string(b.ID)) {
		t.Errorf("no notice: %s", mails)
	}
}
