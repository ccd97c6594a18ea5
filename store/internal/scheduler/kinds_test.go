package scheduler

import (
	"fmt"
	"testing"

	"github.com/stagepost/stagepost/job"
)

// TestManyKinds: a claim visits each of its states and limits once, not each limit for each kind. A claim whose limits
// are new visits the lanes of the kind of each, not those of all kinds.
func TestManyKinds(t *testing.T) {
	visits := func(kinds int) (known, fresh int64) {
		q := waiting(kinds, func(i int, j *job.Job) { j.Kind = job.Kind(fmt.Sprint("k", i)) })
		c := job.Claim{N: 1, Now: start}
		for i := range kinds {
			at := job.KindState{Kind: job.Kind(fmt.Sprint("k", i)), State: "A"}
			c.From, c.Limits = append(c.From, at), append(c.Limits, job.Limit{Kind: at.Kind, Max: 1})
		}
		q.Claim(&c) // the limits are new, and count jobs
		fresh = q.Visits()
		before := q.Visits()
		if len(q.Claim(&c)) != 1 {
			t.Fatal("the claim was granted no job")
		}
		return q.Visits() - before, fresh
	}
	few, fewFresh := visits(10)
	many, manyFresh := visits(1000)
	if many > 200*few || manyFresh > 200*fewFresh {
		t.Errorf("a claim of 1,000 kinds makes %d visits (%d with new limits), of 10 kinds %d (%d)", many, manyFresh, few,
			fewFresh)
	}
}
