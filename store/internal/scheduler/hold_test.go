package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// TestHeldBatchIsPassedOnce: the jobs of a batch on hold are checked by the first claim only, and are queued again
// when the hold is released or has ended. The controls are a job of no batch, which is given, and a hold that is
// still in force.
func TestHeldBatchIsPassedOnce(t *testing.T) {
	const n = 1000
	for _, c := range []struct {
		name  string
		until time.Time
		now   time.Time
		holds bool // later
		give  bool // later
	}{
		{"released", time.Time{}, start, false, true},
		{"ended", start.Add(time.Hour), start.Add(time.Hour), true, true},
		{"control: still on", start.Add(time.Hour), start.Add(time.Minute), true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := New()
			put := func(i int, parent job.ID) job.Job {
				j := job.Job{
					ID: job.ID(fmt.Sprint("j", i)), Number: int64(i),
					Kind: "k", Position: lifecycle.Position{State: "A"}, Parent: parent, Entered: start, Priority: 1,
				}
				q.Put(nil, &j)
				return j
			}
			var jobs []job.Job
			for i := range n {
				jobs = append(jobs, put(i+1, "batch"))
			}
			holds := []job.Hold{{Scope: job.Scope{Job: "batch"}, Until: c.until}}
			claim := func(now time.Time, n int) []job.ID {
				q.SetHolds(holds)
				return q.Claim(&job.Claim{N: n, Now: now, From: []job.KindState{{Kind: "k", State: "A"}}})
			}
			if got := claim(start, 1); len(got) > 0 {
				t.Fatalf("%v was given under the hold", got)
			}
			if left := len(q.kindStates[job.KindState{Kind: "k", State: "A"}].state.open); left > 0 {
				t.Errorf("%d lanes would be checked again", left)
			}
			last := put(n+1, "")
			if got := claim(start, 10); len(got) != 1 || got[0] != last.ID {
				t.Fatalf("control: got %v, want the job of no batch", got)
			}
			last.Worker = "w"
			q.Put(&last, &last)
			ended := jobs[0]
			ended.Ended = true
			q.Put(&jobs[0], &ended) // a user withdraws it meanwhile
			if !c.holds {
				holds = nil
			}
			q.SetHolds(holds)
			if !q.canChain(q.entry(jobs[1].ID), true, &job.Chain{}, c.now) == c.give {
				t.Errorf("whether the next one may be claimed: want %t", c.give)
			}
			want := 0
			if c.give {
				want = n - 1
			}
			if got := claim(c.now, 2*n); len(got) != want {
				t.Errorf("%d jobs are given, want %d", len(got), want)
			}
			for id, e := range q.entries {
				if c.give && e.aside != nil {
					t.Errorf("%s is still put aside by %s", id, e.aside.Scope)
				}
			}
		})
	}
}
