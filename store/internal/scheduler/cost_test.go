package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

func waiting(n int, with func(i int, j *job.Job)) *Queue {
	q := New()
	for i := range n {
		j := job.Job{ID: job.ID(fmt.Sprint("j", i)), Number: int64(i + 1), Kind: "k", Entered: start,
			Position: lifecycle.Position{State: "A"}}
		with(i, &j)
		q.Put(nil, &j)
	}
	return q
}

var fromA = []job.KindState{{Kind: "k", State: "A"}}

// BenchmarkClaim gives the cost of a claim with many owners.
func BenchmarkClaim(b *testing.B) {
	for _, owners := range []int{10, 10_000, 100_000} {
		owned := func(i int, j *job.Job) { j.Owner = fmt.Sprint(i) }
		b.Run(fmt.Sprintf("full/owners=%d", owners), func(b *testing.B) {
			q := waiting(owners, owned)
			limits := []job.Limit{{Kind: "k", Max: 1}, {Kind: "k", Max: 1, PerOwner: true}}
			c := job.Claim{N: 1, Now: start.Add(time.Hour), From: fromA, Limits: limits, Ageing: job.Ageing{Share: 10}}
			q.Claim(&c)
			for b.Loop() {
				if len(q.Claim(&c)) > 0 {
					b.Fatal("claimed")
				}
			}
		})
		b.Run(fmt.Sprintf("turnover/owners=%d", owners), func(b *testing.B) {
			q := waiting(owners, owned)
			limits := []job.Limit{{Kind: "k", Max: 3}, {Kind: "k", Max: 1, PerOwner: true}}
			c := job.Claim{N: 1, Now: start.Add(time.Hour), From: fromA, Limits: limits, Ageing: job.Ageing{Share: 10}}
			q.begin(start, fromA, limits, false)
			var last []job.Job
			n := owners
			for b.Loop() {
				for _, id := range q.Claim(&c) {
					e := q.entries[id]
					j := job.Job{ID: id, Number: e.number, Kind: "k", Entered: start,
						Position: lifecycle.Position{State: "A"},
						Owner:    e.lane.owner}
					k := j
					k.Worker = "w"
					q.Put(&j, &k)
					last = append(last, k)
				}
				if len(last) == 3 {
					k := last[0]
					k.Ended = true
					q.Put(&last[0], &k)
					last = last[1:]
					n++
					q.Put(nil, &job.Job{ID: job.ID(fmt.Sprint("j", n)), Number: int64(n), Kind: "k", Entered: start,
						Position: lifecycle.Position{State: "A"}, Owner: k.Owner})
				}
			}
		})
	}
	b.Run("hold on a batch of 1000000", func(b *testing.B) {
		q := waiting(1_000_001, func(i int, j *job.Job) {
			if i == 0 {
				j.State = "B"
			} else {
				j.Parent = "j0"
			}
		})
		c := job.Claim{N: 1, Now: start.Add(time.Hour), From: fromA}
		for i := 0; b.Loop(); i++ {
			q.SetHolds([]job.Hold{{Scope: job.Scope{Job: "j0"}}}[:1-i%2])
			got := q.Claim(&c)
			if len(got) != i%2 {
				b.Fatal(got)
			}
			for _, id := range got {
				j := job.Job{ID: id, Number: q.entries[id].number, Kind: "k", Entered: start,
					Position: lifecycle.Position{State: "A"},
					Parent:   "j0"}
				q.Put(&j, &j)
			}
		}
	})
}

// BenchmarkTally gives the cost of the counts with many groups, which a check of the store takes between two commits.
func BenchmarkTally(b *testing.B) {
	for _, groups := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			q := waiting(groups, func(i int, j *job.Job) { j.Group = fmt.Sprint(i) })
			for b.Loop() {
				if len(q.Tally()) != groups {
					b.Fatal("groups are missing")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(groups), "ns/group")
		})
	}
}
