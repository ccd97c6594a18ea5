package scheduler

import (
	"fmt"
	"testing"

	"github.com/stagepost/stagepost/job"
)

// TestManyKinds: a claim visits each of its states and limits once, not each limit for each kind.
func TestManyKinds(t *testing.T) {
	visits := func(kinds int) int64 {
		q := waiting(kinds, func(i int, j *job.Job) { j.Kind = job.Kind(fmt.Sprint("k", i)) })
		c := job.Claim{N: 1, Now: start}
		for i := range kinds {
			at := job.KindState{Kind: job.Kind(fmt.Sprint("k", i)), State: "A"}
			c.From, c.Limits = append(c.From, at), append(c.Limits, job.Limit{Kind: at.Kind, Max: 1})
		}
		q.Claim(&c) // the limits are new, and count jobs
		before := q.Visits()
		if len(q.Claim(&c)) != 1 {
			t.Fatal("the claim was granted no job")
		}
		return q.Visits() - before
	}
	few, many := visits(10), visits(1000)
	if many > 200*few {
		t.Errorf("a claim of 1,000 kinds makes %d visits, of 10 kinds %d", many, few)
	}
}
