package web_test

import (
	"flag"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine"
)

var (
	pageJobs = flag.Int("page-jobs", 2000, "jobs in the store when the first page is measured")
	pageTime = flag.Duration("page-time", time.Second,
		"the longest median time of a page; a busy machine needs more than a quiet one")
)

// TestFirstPage: the median time of the overview does not grow with the jobs in the store.
func TestFirstPage(t *testing.T) {
	w := office(t)
	for done := 0; done < *pageJobs; done += 1000 {
		orders := make([]engine.Order, min(1000, *pageJobs-done))
		for i := range orders {
			orders[i] = engine.Order{Kind: "test.letter", Group: "many", Owner: "ann"}
		}
		if _, err := w.SubmitAll(t.Context(), orders...); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/", "/jobs", "/jobs?state=Posted&order=oldest"} {
		w.Harness.AskPage(w.Request(http.MethodGet, path, "")) // what is cached for a minute is computed
		var took []time.Duration
		for range 9 {
			began := time.Now()
			answer, _ := w.Harness.AskPage(w.Request(http.MethodGet, path, ""))
			if took = append(took, time.Since(began)); answer.StatusCode != http.StatusOK {
				t.Fatalf("%s: got %s", path, answer.Status)
			}
		}
		slices.Sort(took)
		t.Logf("%s: median %s, slowest %s with %d jobs", path, took[4], took[8], *pageJobs)
		if took[4] > *pageTime {
			t.Errorf("%s: the median is %s, more than %s", path, took[4], *pageTime)
		}
	}
}
