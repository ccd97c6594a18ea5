package scheduler

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// stored returns n jobs in all conditions in which a start may find them, batches before their jobs.
func stored(random *rand.Rand, n int) (jobs []job.Job) {
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	sometime := func() time.Time {
		if random.IntN(4) > 0 {
			return time.Time{}
		}
		return start.Add(time.Duration(random.IntN(100)-50) * time.Second)
	}
	for i := range n {
		j := job.Job{
			ID: job.ID(fmt.Sprint("j", i)), Number: int64(i + 1), Kind: "k", Group: one("", "g"),
			Position: lifecycle.Position{State: states[random.IntN(3)]}, Priority: random.IntN(3), Bytes: int64(i % 7),
			Owner: one("a", "b", "c"), Tags: job.Tagged(one("", "x"), one("", "y")),
			Entered: start.Add(time.Duration(random.IntN(1000)) * time.Millisecond), Expires: sometime(),
		}
		switch random.IntN(6) {
		case 0:
			j.Worker, j.Until = one("w1", "w2"), sometime()
		case 1:
			j.Due = sometime()
		case 2:
			j.Starts = random.IntN(2 * job.SuspectStarts)
		}
		if i < 3 {
			j.Children = job.Children{Expected: n, Open: n}
		} else if random.IntN(2) == 0 {
			j.Parent = jobs[random.IntN(3)].ID
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// TestLoad: an index that was loaded and one into which the jobs were put one by one give the same jobs, in the same
// order, whatever happens afterwards.
func TestLoad(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 21))
		jobs := stored(random, 1+random.IntN(500))
		loaded, put := New(), New()
		for i := range jobs {
			loaded.Load(&jobs[i])
			put.Put(nil, &jobs[i])
		}
		loaded.Loaded()
		sameIndex(t, loaded, put)
		byID := map[job.ID]*job.Job{}
		for i := range jobs {
			byID[jobs[i].ID] = &jobs[i]
		}
		now := start
		for range 120 {
			now = now.Add(time.Duration(random.IntN(2000)) * time.Millisecond)
			var holds []job.Hold
			if random.IntN(3) == 0 {
				holds = append(holds, job.Hold{Scope: job.Scope{Job: jobs[random.IntN(min(3, len(jobs)))].ID}})
			}
			loaded.SetHolds(holds)
			put.SetHolds(holds)
			c := job.Claim{
				N: 1 + random.IntN(9), Now: now,
				From:   []job.KindState{{Kind: "k", State: states[random.IntN(3)]}, {Kind: "k", State: "C"}},
				Limits: []job.Limit{{Kind: "k", Max: 5 + random.IntN(50), PerOwner: true}},
				Ageing: job.Ageing{Share: random.IntN(4)},
			}
			got, want := loaded.Claim(&c), put.Claim(&c)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: loaded gives %v, want %v", seed, got, want)
			}
			for _, id := range got {
				before := *byID[id]
				j := byID[id]
				j.Worker, j.Due = "w", time.Time{}
				switch random.IntN(3) {
				case 0:
					j.Worker, j.Ended = "", true
				case 1:
					j.Worker, j.State, j.Entered = "", states[random.IntN(3)], now
				}
				loaded.Put(&before, j)
				put.Put(&before, j)
			}
		}
		sameIndex(t, loaded, put)
	}
}

// sameIndex compares what the index is asked for besides claims.
func sameIndex(t *testing.T, a, b *Queue) {
	t.Helper()
	order := func(all []job.Tally) []job.Tally {
		slices.SortFunc(all, func(x, y job.Tally) int {
			return cmp.Or(cmp.Compare(x.State, y.State), cmp.Compare(x.Group, y.Group))
		})
		return all
	}
	if got, want := order(a.Tally()), order(b.Tally()); !slices.Equal(got, want) {
		t.Errorf("counts %v, want %v", got, want)
	}
	if got, want := a.NextDue(), b.NextDue(); !got.Equal(want) || a.Live() != b.Live() {
		t.Errorf("next at %v of %d jobs, want %v of %d", got, a.Live(), want, b.Live())
	}
	ids := func(all []job.ID) []job.ID { slices.Sort(all); return all }
	late := start.Add(10 * time.Second)
	if got, want := ids(a.Overdue(late, nil, 1000)), ids(b.Overdue(late, nil, 1000)); !slices.Equal(got, want) {
		t.Errorf("overdue %v, want %v", got, want)
	}
	for _, worker := range []string{"w", "w1", "w2"} {
		got, want := a.ClaimedBy(worker, "k", 0, 1, 1000), b.ClaimedBy(worker, "k", 0, 1, 1000)
		if !slices.Equal(got, want) {
			t.Errorf("claimed by %s are %v, want %v", worker, got, want)
		}
	}
}

// BenchmarkLoad gives the time of a start for each job, and what an index of them takes in memory.
func BenchmarkLoad(b *testing.B) {
	jobs := stored(rand.New(rand.NewPCG(1, 2)), 200_000)
	for name, load := range map[string]func(q *Queue){
		"put": func(q *Queue) {
			for i := range jobs {
				q.Put(nil, &jobs[i])
			}
		},
		"load": func(q *Queue) {
			for i := range jobs {
				q.Load(&jobs[i])
			}
			q.Loaded()
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				load(New())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(jobs)), "ns/job")
		})
	}
}
