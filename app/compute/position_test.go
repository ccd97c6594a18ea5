package compute_test

import (
	"context"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// earlyStore ends pages after two jobs, as a store ends those of large jobs.
type earlyStore struct{ job.Store }

func (s earlyStore) List(ctx context.Context, q job.Query) (job.Page, error) {
	q.Limit = min(q.PageSize(), 2)
	return s.Store.List(ctx, q)
}

// TestWaitingOfLargeJobs: the jobs of a queue are counted, although a page of them ends early.
func TestWaitingOfLargeJobs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := earlyStore{mem.New()}
		w := newHarnessOn(t, store, quick(t), nil)
		var want []job.ID
		for range 5 {
			want = append(want, w.until(w.upload("ada", hello).ID, compute.Queued).ID)
		}
		for n, have := range map[int]int{1: 1, 3: 3, 1000: 5} {
			all, err := compute.Waiting(t.Context(), store, "example", n)
			if err != nil || len(all) != have {
				t.Fatalf("got %d of %d, %v", len(all), have, err)
			}
			for i := range all {
				if all[i].ID != want[i] || all[i].Spec != nil {
					t.Errorf("number %d is %s, want %s", i+1, all[i].ID, want[i])
				}
			}
		}
	})
}
