package ingest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// slippery lets a job slip away just before it is made to fail.
type slippery struct {
	job.Store
	once sync.Once
	slip func(id job.ID)
}

func (s *slippery) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	if c := &changes[0]; c.Event == record.Fail && c.Actor == "ingest" && s.slip != nil {
		s.once.Do(func() { s.slip(c.Job) })
	}
	return s.Store.Commit(ctx, changes...)
}

// TestAbandonedJobsEnd: of a batch that is abandoned no job is left, also if one is put aside in the moment when it is
// to fail: the batch would wait for it. The control is a job that stays where it was.
func TestAbandonedJobsEnd(t *testing.T) {
	for name, want := range map[string]lifecycle.State{"put aside": record.Deleted, "control": record.Failed} {
		t.Run(name, func(t *testing.T) {
			s := &slippery{Store: mem.New()}
			w := startOn(t, s, options(t, t.TempDir()))
			if _, err := w.e.Operator().Hold(t.Context(), job.Scope{Kind: record.JobKind}, "ann",
				"it waits in its queue",
				time.Time{}); err != nil {
				t.Fatal(err)
			}
			batch := w.submit(Submission{Profile: "test", Filename: "f.txt"}, "text")
			id := w.children(batch.ID, 1)[0].ID
			if want == record.Deleted {
				s.slip = func(id job.ID) {
					if err := w.do(id, record.Hold); err != nil {
						t.Error(err)
					}
				}
			}
			if err := w.abandon(t.Context(), id, "the payload is gone"); err != nil {
				t.Fatal(err)
			}
			if j, err := s.Get(t.Context(), id); err != nil || j.State != want {
				t.Errorf("it is %s, want %s (%v)", j.State, want, err)
			}
			w.end(batch.ID)
		})
	}
}
