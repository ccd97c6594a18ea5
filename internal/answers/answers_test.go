package answers

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/job"
)

// TestResultsAreEmpty: results are empty whatever they were used for before, and results of other memory do not change.
func TestResultsAreEmpty(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3} {
		for range 100 {
			results := Take(n)
			if len(results) != n {
				t.Fatalf("got %d results, want %d", len(results), n)
			}
			for i := range results {
				if diff := cmp.Diff(job.Result{}, results[i]); diff != "" {
					t.Fatal(diff)
				}
				results[i] = job.Result{Job: job.Job{ID: "j", Tags: []string{"a"}}, Err: errors.New("no")}
			}
			Give(results)
		}
	}
	for _, size := range []int{1, 2, 3} {
		other := append(make([]job.Result, 0, size), job.Result{Job: job.Job{ID: "mine"}})
		if Give(other); other[0].Job.ID != "mine" {
			t.Errorf("results of other memory were emptied: %+v", other)
		}
	}
}
