package scheduler

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// claims are jobs that workers claim, extend and give back at random.
type claims struct {
	q      *Queue
	jobs   []job.Job
	random *rand.Rand
}

func (c *claims) put(i int, after job.Job) {
	before := c.jobs[i]
	c.q.Put(&before, &after)
	c.jobs[i] = after
}

// change claims a job, extends a claim, gives it to another worker, ends it, or moves the job.
func (c *claims) change(i int) {
	j := c.jobs[i]
	switch j.Until = start.Add(time.Duration(c.random.IntN(100)) * time.Second); c.random.IntN(5) {
	case 0:
		j.Worker, j.Until = "", time.Time{}
	case 1:
		j.State = states[c.random.IntN(3)]
		fallthrough
	default:
		if j.Worker == "" || c.random.IntN(4) == 0 {
			j.Worker = []string{"a", "a/1", "a/2", "b", "b/1"}[c.random.IntN(5)]
		}
	}
	c.put(i, j)
}

// of returns what ClaimedBy returns, by a visit to all jobs.
func (c *claims) of(worker string, kind job.Kind, from int64, step, n int) (all []Claimed) {
	for _, j := range c.jobs {
		if j.Claimed() && strings.HasPrefix(j.Worker, worker) && j.Kind == kind && (j.Number-from)*int64(step) >= 0 {
			all = append(all, Claimed{j.ID, j.Number})
		}
	}
	slices.SortFunc(all, func(a, b Claimed) int { return step * cmp.Compare(a.Number, b.Number) })
	return all[:min(n, len(all))]
}

func (c *claims) check(t *testing.T) {
	t.Helper()
	for _, worker := range []string{"", "a", "a/", "a/1", "b/1", "c"} {
		var kinds []job.Kind
		for _, kind := range []job.Kind{"k", "l", "m"} {
			from, step, n := c.random.Int64N(int64(len(c.jobs))+2), 1-2*c.random.IntN(2), c.random.IntN(2*len(c.jobs))
			got, want := c.q.ClaimedBy(worker, kind, from, step, n), c.of(worker, kind, from, step, n)
			if !slices.Equal(got, want) {
				t.Fatalf("%d claims of %q from %d, step %d: %v, want %v", n, worker, from, step, got, want)
			}
			if len(c.of(worker, kind, 0, 1, 1)) > 0 {
				kinds = append(kinds, kind)
			}
		}
		if got := c.q.ClaimKinds(worker); !slices.Equal(got, kinds) {
			t.Fatalf("kinds of %q: %v, want %v", worker, got, kinds)
		}
	}
	at := start.Add(time.Duration(c.random.IntN(110)-5) * time.Second)
	var want []job.ID
	for _, j := range c.jobs {
		if j.Kind == "l" && j.Overdue(at) {
			want = append(want, j.ID)
		}
	}
	got := c.q.Overdue(at, []job.Kind{"l"}, len(c.jobs))
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Fatalf("overdue are %v, want %v", got, want)
	}
	if got := c.q.Overdue(at, nil, 1); len(want) > 0 && len(got) != 1 {
		t.Fatalf("one of %d is requested, got %v", len(want), got)
	}
}

// TestClaimsByWorker compares the index of claims with a visit to all jobs.
func TestClaimsByWorker(t *testing.T) {
	for seed := range uint64(8) {
		c := &claims{q: New(), random: rand.New(rand.NewPCG(seed, 3))}
		for i := range 4 * mostPart {
			c.jobs = append(c.jobs, job.Job{ID: job.ID(fmt.Sprint("j", i)), Number: int64(i + 1), Kind: "k",
				Position: lifecycle.Position{State: "A"}, Entered: start})
			if c.random.IntN(3) == 0 {
				c.jobs[i].Kind = "l"
			}
			c.q.Put(nil, &c.jobs[i])
		}
		for i := range c.jobs { // a few long lists, in order
			if j := c.jobs[i]; c.random.IntN(5) > 0 {
				j.Worker, j.Until = "a/1", start.Add(time.Minute)
				c.put(i, j)
			}
		}
		c.check(t)
		for range 60 {
			for range c.random.IntN(200) {
				c.change(c.random.IntN(len(c.jobs)))
			}
			c.check(t)
		}
		for i := range c.jobs {
			j := c.jobs[i]
			j.Worker = ""
			c.put(i, j)
			if i%50 == 0 {
				c.check(t)
			}
		}
		for _, w := range c.q.workers.all {
			if len(w.parts) != 1 || len(w.parts[0]) > 0 || len(c.q.timesOf(w.kind).claimed.entries) > 0 {
				t.Fatalf("after all claims: %d parts of %s", len(w.parts), w.worker)
			}
		}
	}
}

// TestWorkersAreForgotten: the index of claims does not grow with the workers that there were, and keeps those that
// have claims.
func TestWorkersAreForgotten(t *testing.T) {
	q := New()
	free := job.Job{ID: "free", Number: 1, Kind: "k", Position: lifecycle.Position{State: "A"}, Entered: start}
	busy := free
	busy.ID, busy.Number, busy.Worker = "busy", 2, "worker 5 and a half"
	q.Put(nil, &free)
	q.Put(nil, &busy)
	for i := range 10_000 {
		claimed := free
		claimed.Worker = fmt.Sprint("worker ", i)
		q.Put(&free, &claimed)
		q.Put(&claimed, &free)
	}
	if n := len(q.workers.all); n > 2000 || n != len(q.workers.byKey) {
		t.Errorf("%d workers are kept, and %d by name", n, len(q.workers.byKey))
	}
	if got := q.ClaimedBy("worker 5", "k", 1, 1, 9); !slices.Equal(got, []Claimed{{"busy", 2}}) {
		t.Errorf("claimed are %v", got)
	}
}

// TestCostOfClaims: what a search for claims visits does not depend on the other claims.
func TestCostOfClaims(t *testing.T) {
	q := New()
	for i := range 20_000 {
		j := job.Job{ID: job.ID(fmt.Sprint("j", i)), Number: int64(i + 1), Kind: "k",
			Position: lifecycle.Position{State: "A"}, Entered: start, Worker: "many", Until: start.Add(time.Hour)}
		if i%1000 == 0 {
			j.Worker, j.Until = "few", start
		}
		q.Put(nil, &j)
	}
	for name, f := range map[string]func() int{
		"overdue": func() int { return len(q.Overdue(start, nil, 100)) },
		"few":     func() int { return len(q.ClaimedBy("few", "k", 1, 1, 100)) },
		"part":    func() int { return len(q.ClaimedBy("many", "k", 10_000, -1, 20)) },
	} {
		before := q.Visits()
		if n := f(); n != 20 {
			t.Errorf("%s: %d claims", name, n)
		}
		if visits := q.Visits() - before; visits > 50 {
			t.Errorf("%s: %d visits for 20 claims", name, visits)
		}
	}
}

// TestOverdueOfKind: a search for the overdue jobs of a kind visits none of another kind, neither one whose claim has
// ended nor one that has expired. The control is the search in all kinds.
func TestOverdueOfKind(t *testing.T) {
	q := New()
	for i := range 2000 {
		j := job.Job{ID: job.ID(fmt.Sprint("j", i)), Number: int64(i + 1), Kind: "other",
			Position: lifecycle.Position{State: "A"}, Entered: start}
		if i%2 == 0 {
			j.Worker, j.Until = "w", start
		} else {
			j.Expires = start
		}
		if i >= 1990 {
			j.Kind = "k"
		}
		q.Put(nil, &j)
	}
	for _, c := range []struct {
		kinds           []job.Kind
		n, want, visits int
	}{{[]job.Kind{"k", "none", "k"}, 100, 10, 10}, {nil, 5000, 2000, 2000}} {
		before := q.Visits()
		got := q.Overdue(start, c.kinds, c.n)
		if visits := int(q.Visits() - before); len(got) != c.want || visits != c.visits {
			t.Errorf("of %v: %d jobs, %d visits", c.kinds, len(got), visits)
		}
	}
}

// TestExtendedClaims: a claim that was extended is not overdue at its former end, at which it is visited once, and is
// overdue at its present one. One that was shortened is overdue at once.
func TestExtendedClaims(t *testing.T) {
	const n = 100
	c := &claims{q: New()}
	for i := range n {
		c.jobs = append(c.jobs, job.Job{ID: job.ID(fmt.Sprint("j", i)), Number: int64(i + 1), Kind: "k",
			Position: lifecycle.Position{State: "A"}, Entered: start})
		c.q.Put(nil, &c.jobs[i])
	}
	claim := func(i, until int) {
		j := c.jobs[i]
		j.Worker, j.Until = "w", start.Add(time.Duration(until)*time.Second)
		c.put(i, j)
	}
	for i := range n {
		claim(i, 10)
	}
	for i := range n - 1 {
		claim(i, 30)
	}
	overdue := func(at int) (jobs int, visits int64) {
		before := c.q.Visits()
		jobs = len(c.q.Overdue(start.Add(time.Duration(at)*time.Second), nil, 2*n))
		return jobs, c.q.Visits() - before
	}
	if jobs, visits := overdue(10); jobs != 1 || visits != n {
		t.Errorf("at the former end: %d overdue, %d visits; want the one that was not extended, and all visited", jobs, visits)
	}
	if jobs, visits := overdue(11); jobs != 1 || visits != 1 {
		t.Errorf("after it: %d overdue, %d visits; want 1 and 1", jobs, visits)
	}
	claim(0, 5)
	if jobs, _ := overdue(11); jobs != 2 {
		t.Errorf("after one was shortened: %d overdue, want 2", jobs)
	}
	if jobs, _ := overdue(30); jobs != n {
		t.Errorf("at the present end: %d overdue, want %d", jobs, n)
	}
}

// TestChainedClaims: a worker that moves a job keeps its claim if it may have the next state, also under another name.
// Otherwise the claim has ended.
func TestChainedClaims(t *testing.T) {
	for _, c := range []struct {
		name, worker string
		hold         bool
		want         string // the worker that has the job afterwards
	}{
		{"granted", "w", false, "w"},
		{"granted to another worker", "v", false, "v"},
		{"held", "w", true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := New()
			j := job.Job{ID: "j", Number: 1, Kind: "k", Position: lifecycle.Position{State: "A"}, Entered: start}
			q.Put(nil, &j)
			claimed := j
			claimed.Worker, claimed.Until = "w", start.Add(time.Minute)
			q.Put(&j, &claimed)
			if c.hold {
				q.SetHolds([]job.Hold{{Scope: job.Scope{State: "B"}}})
			}
			moved := j
			moved.State = "B"
			chained := q.Chain(&claimed, &moved, &job.Chain{Worker: c.worker}, start)
			if chained == c.hold {
				t.Fatalf("whether the worker may have the next state: %t", chained)
			}
			if chained {
				next := moved
				next.Worker, next.Until = c.worker, start.Add(time.Hour)
				q.Granted(&next)
			}
			for _, worker := range []string{"v", "w"} {
				var want []Claimed
				if worker == c.want {
					want = []Claimed{{"j", 1}}
				}
				if got := q.ClaimedBy(worker, "k", 0, 1, 9); !slices.Equal(got, want) {
					t.Errorf("claims of %s: %v, want %v", worker, got, want)
				}
			}
			want := job.Tally{Kind: "k", State: "B", Jobs: 1}
			if chained {
				want.Claimed = 1
			}
			if got := q.Tally(); !slices.Equal(got, []job.Tally{want}) {
				t.Errorf("tally %v, want %v", got, want)
			}
			end := 0
			if chained {
				end = 1
			}
			if got := q.Overdue(start.Add(time.Hour), nil, 9); len(got) != end {
				t.Errorf("%v are overdue at the end of the claim, want %d", got, end)
			}
			if got := q.Overdue(start.Add(time.Minute), nil, 9); len(got) > 0 {
				t.Errorf("%v are overdue at the end of the claim of the state before", got)
			}
		})
	}
}
