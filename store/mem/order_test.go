package mem

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// TestOrderShrinks creates and purges jobs by turns: the order has no more rows than twice the jobs, and cursors and
// names find the others.
func TestOrderShrinks(t *testing.T) {
	s, ctx := New(), t.Context()
	gone := lifecycle.Position{State: "Gone"}
	var left []job.ID
	list := func(q job.Query) job.Page {
		t.Helper()
		page, err := s.List(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		return page
	}
	for i := range 1000 {
		id := job.ID(fmt.Sprintf("tst_%04d", i))
		j, e := job.New(job.Job{ID: id, Kind: "t", Position: gone, Ended: true, Gone: true}, lifecycle.Owner, "ann",
			time.Now())
		if _, err := s.Create(ctx, job.Created{Job: j, Event: e}); err != nil {
			t.Fatal(err)
		}
		if left = append(left, id); i%50 == 0 || i < 3 {
			continue
		}
		older, younger := list(job.Query{Limit: 1}), list(job.Query{Limit: len(left) - 2, Oldest: true})
		r, err := s.Commit(ctx, job.Change{Job: id, Version: 1, Purge: true, At: time.Now()})
		if err != nil || r[0].Err != nil {
			t.Fatal(err, r)
		}
		left = left[:len(left)-1]
		for name, page := range map[string]job.Page{"older": older, "younger": younger} {
			q := job.Query{After: page.Next, Oldest: name == "younger", Limit: 1000}
			var want []job.ID
			if name == "older" { // than the job that was purged
				want = slices.Clone(left)
				slices.Reverse(want)
			} else {
				want = left[len(left)-1:]
			}
			var got []job.ID
			for _, j := range list(q).Jobs {
				got = append(got, j.ID)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("after %d jobs, %s than the cursor: %v, want %v", i, name, got, want)
			}
		}
	}
	if n := len(s.order); n > 2*len(left)+fewEmptied || cap(s.order) > 8*len(left)+fewEmptied {
		t.Errorf("the order has %d rows of %d for %d jobs", n, cap(s.order), len(left))
	}
	for _, id := range left {
		found, err := s.Named(ctx, string(id), "", 9)
		if err != nil || len(found) != 1 || found[0].ID != id {
			t.Errorf("named %s: %d jobs, %v", id, len(found), err)
		}
	}
}
