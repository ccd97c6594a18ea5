package storetest

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/job"
)

// Large jobs: an answer ends with the job with which its specs and data have mostLarge bytes.
const (
	mostLarge = 8 << 20
	largeSpec = 256 << 10
	fullPage  = mostLarge / largeSpec
)

func large(j *job.Job) { j.Spec = json.RawMessage(`"` + strings.Repeat("x", largeSpec-2) + `"`) }

// listLarge: pages of large jobs end early, at the border, and all of them together are the list.
func listLarge(w *harness) {
	var want []job.ID
	for range 2*fullPage + 1 {
		want = append(want, w.step(large).ID)
	}
	small := w.step().ID
	for _, oldest := range []bool{true, false} {
		ids := append(slices.Clone(want), small)
		sizes := []int{fullPage, fullPage, 2}
		if !oldest {
			slices.Reverse(ids)
			sizes = []int{fullPage + 1, fullPage, 1}
		}
		q := job.Query{Oldest: oldest, Limit: 1000}
		var got []job.ID
		for _, size := range sizes {
			page, err := w.st.List(w.Context(), q)
			if err != nil || len(page.Jobs) != size {
				w.Fatalf("oldest first %v: a page has %d jobs, want %d; %v", oldest, len(page.Jobs), size, err)
			}
			for _, j := range page.Jobs {
				got = append(got, j.ID)
			}
			q.After = page.Next
		}
		same(w, "all pages", got, ids)
		same(w, "next of the last page", q.After, "")
	}
}

// claimLarge: a claim of large jobs grants fewer than it asks for, and the next ones grant the others.
// Stores with small commits refuse such claims.
func claimLarge(w *harness) {
	if w.st.Properties().Spawn > 0 {
		w.Skip("a commit of this store has no space for large jobs")
	}
	const jobs = 4 * fullPage
	for range jobs {
		w.step(large)
	}
	granted := 0
	for calls := 0; granted < jobs; calls++ {
		n := len(w.claim("w1", 1000))
		if n == 0 || n >= 3*fullPage || calls > jobs {
			w.Fatalf("claim %d grants %d large jobs, after %d", calls, n, granted)
		}
		granted += n
	}
}
