package scheduler

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// TestMaximaOfTwoEngines has two engines in turns, one with a larger maximum for each owner than the other. A claim
// visits the owners whose limit it opens, and no others: neither idle owners nor those that both maxima block.
func TestMaximaOfTwoEngines(t *testing.T) {
	for _, c := range []struct {
		name   string
		active func(owner int) int // jobs of an owner
		first  int                 // jobs of the first claim with the larger maximum
		grants int                 // jobs of the later ones
	}{
		{"all owners are idle but for two", func(owner int) int { return min(2, max(0, 4-owner)) }, 10, 10},
		{"all owners are full for both", func(int) int { return 3 }, 0, 0},
		{"all owners are full for both but for five", func(owner int) int { return min(3, 2+owner/5) }, 5, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			const owners = 10_000
			q := waiting(owners, func(i int, j *job.Job) { j.Owner = fmt.Sprint(i) })
			n := owners
			for i := range owners {
				for range c.active(i) {
					n++
					q.Put(nil, &job.Job{ID: job.ID(fmt.Sprint("j", n)), Number: int64(n), Kind: "k", Entered: start,
						Position: lifecycle.Position{State: "A"}, Owner: fmt.Sprint(i), Worker: "w"})
				}
			}
			claim := func(most, n int) int {
				return len(q.Claim(&job.Claim{N: n, Now: start.Add(time.Hour), From: fromA,
					Limits: []job.Limit{{Kind: "k", Max: most, PerOwner: true}}}))
			}
			claim(2, 10)
			if got := claim(3, 10); got != c.first {
				t.Errorf("%d jobs granted at first, want %d", got, c.first)
			}
			claim(2, 10)
			before := q.Visits()
			const rounds = 50
			for range rounds {
				claim(2, 10)
				if got := claim(3, 10); got != c.grants {
					t.Fatalf("%d jobs granted, want %d", got, c.grants)
				}
			}
			if each := (q.Visits() - before) / (2 * rounds); each > 200 {
				t.Errorf("%d visits a claim", each)
			}
		})
	}
}

// TestMaximaAtRandom has claims with maxima at random: each is granted a job if the counts of its own limits allow one,
// whatever the limits of the claims before.
func TestMaximaAtRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	q := New()
	jobs := map[job.ID]job.Job{}
	granted, refused := 0, 0
	for n := range 20_000 {
		if random.IntN(3) == 0 {
			j := job.Job{ID: job.ID(fmt.Sprint("j", n)), Number: int64(n + 1), Kind: "k", Entered: start,
				Position: lifecycle.Position{State: "A"}, Owner: fmt.Sprint("o", random.IntN(20)),
				Group: fmt.Sprint("g", random.IntN(4))}
			q.Put(nil, &j)
			jobs[j.ID] = j
		}
		var limits []job.Limit
		for _, m := range []job.Limit{{PerOwner: true}, {PerGroup: true}, {PerGroup: true, PerOwner: true}, {}} {
			m.Kind, m.Max = "k", random.IntN(4)+1
			if !m.PerOwner {
				m.Max *= 5
			}
			if random.IntN(3) > 0 {
				limits = append(limits, m)
			}
		}
		want := false
		for _, j := range jobs {
			want = want || j.Worker == "" && allowed(jobs, &j, limits)
		}
		got := q.Claim(&job.Claim{N: 1, Now: start.Add(time.Hour), From: fromA, Limits: limits})
		if (len(got) == 1) != want {
			t.Fatalf("claim %d with %+v: granted %v, want one: %t", n, limits, got, want)
		}
		if !want {
			refused++
		}
		for _, id := range got {
			before := jobs[id]
			j := before
			if j.Worker = "w"; !allowed(jobs, &before, limits) {
				t.Fatalf("claim %d with %+v: granted %v", n, limits, before)
			}
			granted++
			q.Put(&before, &j)
			jobs[id] = j
		}
		for id, j := range jobs {
			if j.Worker != "" && random.IntN(20) == 0 {
				ended := j
				ended.Ended = true
				q.Put(&j, &ended)
				delete(jobs, id)
			}
		}
	}
	if granted < 2000 || refused < 2000 {
		t.Errorf("%d granted, %d refused", granted, refused)
	}
}

// allowed reports whether limits allow one more claim for a job.
func allowed(jobs map[job.ID]job.Job, j *job.Job, limits []job.Limit) bool {
	for i := range limits {
		m, n := &limits[i], 0
		for _, other := range jobs {
			same := (!m.PerOwner || other.Owner == j.Owner) && (!m.PerGroup || other.Group == j.Group)
			if same && other.Worker != "" {
				n++
			}
		}
		if n >= m.Max {
			return false
		}
	}
	return true
}
