package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
)

// TestClaimVisitsNoOtherLabels has 100,000 jobs that require other labels, each a set of its own, and counts what
// claims visit. The control is a worker that has the labels of 1,000 of them.
func TestClaimVisitsNoOtherLabels(t *testing.T) {
	const others = 100_000
	q := waiting(others+1, func(i int, j *job.Job) {
		switch j.Priority = 1; {
		case i == others:
			j.Requires, j.Priority = []string{"gpu", "ssd"}, 2
		default:
			j.Requires = []string{"gpu", fmt.Sprint("zone=", i)}
		}
	})
	visits := func(c job.Claim) (int64, []job.ID) {
		before := q.Visits()
		c.N, c.Now, c.From = 1, start.Add(time.Hour), fromA
		got := q.Peek(&c, "").Next
		return q.Visits() - before, got
	}
	for _, c := range []job.Claim{{}, {Ageing: job.Ageing{Share: 1}}, {Suspects: job.OnlySuspects}} {
		if n, got := visits(c); n > 20 || len(got) > 0 {
			t.Errorf("%+v visits %d and gives %v", c, n, got)
		}
	}
	last := job.ID(fmt.Sprint("j", others))
	for _, share := range []int{0, 1} {
		c := job.Claim{Labels: []string{"zone", "ssd", "gpu"}, Ageing: job.Ageing{Share: share}}
		if n, got := visits(c); n > 20 || len(got) != 1 || got[0] != last {
			t.Errorf("with the labels, a share of %d visits %d and gives %v", share, n, got)
		}
	}
	all := []string{"gpu"}
	for i := range 1000 {
		all = append(all, fmt.Sprint("zone=", i))
	}
	if n, got := visits(job.Claim{Labels: all}); n < 1000 || len(got) != 1 || got[0] != "j0" {
		t.Errorf("control: the labels of 1,000 jobs: visits %d, gives %v", n, got)
	}
}

// TestSetsOfLabelsAreForgotten lets jobs with ever new labels come and go, under a limit and a hold of an owner, which
// keep lots of their own. The control is one that stays.
func TestSetsOfLabelsAreForgotten(t *testing.T) {
	q := New()
	q.SetHolds([]job.Hold{{Scope: job.Scope{Owner: "held"}}})
	limits := []job.Limit{{Kind: "k", PerOwner: true, Max: 0}}
	put := func(i int, owner string) (job.Job, job.Claim) {
		labels := []string{"a", fmt.Sprint("l", i)}
		j := job.Job{ID: job.ID(fmt.Sprint("j", i)), Number: int64(i), Kind: "k", Owner: owner, Requires: labels,
			Entered: start}
		j.State = "A"
		q.Put(nil, &j)
		return j, job.Claim{N: 1, Now: start, From: fromA, Labels: labels}
	}
	_, stays := put(1, "ann")
	for i := range 10_000 {
		owner := []string{"ann", "held"}[i%2]
		j, c := put(i+2, owner)
		c.Limits = limits
		if got := q.Claim(&c); len(got) > 0 {
			t.Fatalf("%v was granted", got)
		}
		j.Ended = true
		q.Put(&j, &j)
	}
	lots := len(q.holds[0].lots)
	for _, s := range q.limits["k"][0].shares {
		lots += len(s.lots)
	}
	nodes := 0
	var count func(n *labelNode)
	count = func(n *labelNode) {
		nodes++
		for _, next := range n.next {
			count(next)
		}
	}
	count(&q.kindStates[fromA[0]].labelNode)
	for name, n := range map[string]int{"states": len(q.states), "sets": len(q.sets), "lots": lots, "nodes": nodes} {
		if n > 2100 {
			t.Errorf("%d %s of labels that no job has", n, name)
		}
	}
	if got := q.Claim(&stays); len(got) != 1 || got[0] != "j1" {
		t.Errorf("control: the claim gives %v, want the job that stays", got)
	}
}
