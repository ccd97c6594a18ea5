package sqlite

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/storetest"
)

var costJobs = flag.Int("cost-jobs", 12_000, "jobs in the store of TestCosts")

// TestCosts counts the steps of SQLite, not the time. With a log, its applier takes steps meanwhile.
func TestCosts(t *testing.T) {
	storetest.Costs(t, openStore(t, t.TempDir(), Options{NoLog: true}), *costJobs)
}

// TestCostOfClaimedPage: a page of the jobs of a worker reads the records and row numbers of its jobs and one more, the
// first page and one in the middle. The control is a page of all of them.
func TestCostOfClaimedPage(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{NoLog: true})
	ids := make([]string, 1000)
	for i := range ids {
		ids[i] = fmt.Sprintf("tst_%04d", i)
	}
	create(t, s, ids...)
	for claimed := 0; claimed < len(ids); {
		jobs, err := s.Claim(t.Context(), job.Claim{Worker: "w1", N: 100, Now: testTime.Add(time.Second),
			Lease: time.Hour,
			From:  []job.KindState{{Kind: "storetest.step", State: storetest.Step.Start().State}}})
		if err != nil || len(jobs) == 0 {
			t.Fatalf("%d of %d: %v", claimed, len(ids), err)
		}
		claimed += len(jobs)
	}
	steps := func(limit int, after string) int64 {
		before, _ := s.Touched()
		page, err := s.List(t.Context(), job.Query{Worker: "w1", Limit: limit, After: after})
		if err != nil || len(page.Jobs) != limit {
			t.Fatalf("%d jobs, %v", len(page.Jobs), err)
		}
		steps, _ := s.Touched()
		return steps - before
	}
	half, err := s.List(t.Context(), job.Query{Worker: "w1", Limit: 500})
	if err != nil || half.Next == "" {
		t.Fatalf("no page follows, %v", err)
	}
	all := steps(1000, "")
	for _, after := range []string{"", half.Next} {
		if few := steps(10, after); few > all/30 {
			t.Errorf("a page of 10 of 1000 jobs after %q takes %d steps, one of all %d", after, few, all)
		}
	}
}
