package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// plain is the simplest implementation of a claim with ageing: it checks every job.
type plain struct {
	q      *Queue
	jobs   map[job.ID]job.Job
	now    time.Time
	number int64
	random *rand.Rand
}

var (
	start  = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	states = []lifecycle.State{"A", "B", "C"}
)

func (p *plain) one(of ...string) string { return of[p.random.IntN(len(of))] }

func (p *plain) put(before *job.Job, after job.Job) {
	p.q.Put(before, &after)
	if after.Ended {
		delete(p.jobs, after.ID)
	} else {
		p.jobs[after.ID] = after
	}
}

func (p *plain) create() {
	p.number++
	p.put(nil, job.Job{
		ID: job.ID(fmt.Sprint("j", p.number)), Number: p.number, Kind: "k",
		Position: lifecycle.Position{State: states[p.random.IntN(3)]},
		Priority: p.random.IntN(4), Group: p.one("", "g"), Owner: p.one("ann", "bob"), Tags: p.tags(), Entered: p.now,
	})
}

func (p *plain) tags() []string { return job.Tagged(p.one("", "x"), p.one("", "y")) }

// change makes one of the changes that a commit can make.
func (p *plain) change(j job.Job) {
	next := j
	switch p.random.IntN(9) {
	case 0:
		next.Ended = true
	case 1:
		next.State, next.Entered, next.Worker, next.Due = states[p.random.IntN(3)], p.now, "", time.Time{}
	case 2:
		next.Tags = p.tags()
	case 3:
		next.Priority = p.random.IntN(4)
	case 4:
		next.Worker, next.Due = "", p.now.Add(time.Duration(p.random.IntN(5))*time.Second)
	default:
		next.Worker = "" // given back
	}
	p.put(&j, next)
}

// claimable reports whether a claim may give the job, when picked are given already.
func (p *plain) claimable(j *job.Job, c *job.Claim, holds []job.Hold, picked []job.ID) bool {
	if j.Claimed() || slices.Contains(picked, j.ID) || j.Due.After(c.Now) ||
		!slices.Contains(c.From, job.KindState{Kind: j.Kind, State: j.State}) {
		return false
	}
	if slices.ContainsFunc(holds, func(h job.Hold) bool { return h.On(c.Now) && h.Matches(j) }) {
		return false
	}
	for _, l := range c.Limits {
		within := func(o *job.Job) bool {
			return (l.Owner == "" || l.Owner == o.Owner) && (l.Tag == "" || slices.Contains(o.Tags, l.Tag))
		}
		n := 0
		for _, o := range p.jobs {
			together := (!l.PerOwner || o.Owner == j.Owner) && (!l.PerGroup || o.Group == j.Group)
			if within(&o) && together && (o.Claimed() || slices.Contains(picked, o.ID)) {
				n++
			}
		}
		if within(j) && n >= l.Max {
			return false
		}
	}
	return true
}

// check holds what a claim gave against all jobs: each is the oldest of those that may be given, if it is old enough,
// else one of the best priority.
func (p *plain) check(t *testing.T, c *job.Claim, holds []job.Hold, got []job.ID) {
	t.Helper()
	for i := 0; i <= len(got); i++ {
		oldest, best := age{}, -1
		for _, j := range p.jobs {
			if !p.claimable(&j, c, holds, got[:i]) {
				continue
			}
			if a := (age{j.Entered.UnixMicro(), j.Number}); oldest == (age{}) || a.less(oldest) {
				oldest = a
			}
			if best < 0 || j.Priority < best {
				best = j.Priority
			}
		}
		switch {
		case i == len(got):
			if len(got) < c.N && best >= 0 {
				t.Fatalf("%d of %d were given, and there are more", len(got), c.N)
			}
			continue
		case best < 0:
			t.Fatalf("%s was given, and may not be", got[i])
		}
		j := p.jobs[got[i]]
		if old := oldest.at < c.Now.Add(-c.Ageing.Patience).UnixMicro(); old && j.Number != oldest.number {
			t.Fatalf("pick %d is job %d of %v, the oldest is %d of %v", i, j.Number, j.Entered, oldest.number,
				time.UnixMicro(oldest.at))
		} else if !old && j.Priority != best {
			t.Fatalf("pick %d has priority %d, the best is %d", i, j.Priority, best)
		}
		if !p.claimable(&j, c, holds, got[:i]) {
			t.Fatalf("%s was given, and may not be", j.ID)
		}
	}
}

func (p *plain) claim(t *testing.T) {
	t.Helper()
	c := job.Claim{
		Worker: "w", N: p.random.IntN(5), Now: p.now, Lease: time.Hour,
		Ageing: job.Ageing{Share: 1, Patience: time.Duration(p.random.IntN(40)) * time.Second},
	}
	for _, s := range states {
		if p.random.IntN(3) > 0 {
			c.From = append(c.From, job.KindState{Kind: "k", State: s})
		}
	}
	if p.random.IntN(2) == 0 {
		for range 1 + p.random.IntN(2) {
			c.Limits = append(c.Limits, job.Limit{
				Kind: "k", Owner: p.one("", "ann"), Tag: p.one("", "x"), Max: p.random.IntN(6),
				PerOwner: p.random.IntN(2) == 0, PerGroup: p.random.IntN(2) == 0,
			})
		}
	}
	var holds []job.Hold
	for range p.random.IntN(3) {
		h := job.Hold{Scope: []job.Scope{{Tag: "x"}, {Owner: "bob"}, {Tag: "y", Owner: "ann"}, {State: "B"},
			{Job: p.any().ID}}[p.random.IntN(5)]}
		if p.random.IntN(4) == 0 {
			h.Until = p.now // has ended
		}
		if !slices.ContainsFunc(holds, func(o job.Hold) bool { return o.Scope == h.Scope }) {
			holds = append(holds, h)
		}
	}
	p.q.SetHolds(holds)
	switch p.random.IntN(4) {
	case 0:
		other := c
		other.Now = p.now.Add(time.Duration(p.random.IntN(10)-5) * time.Second)
		p.q.Peek(&other, "")
	case 1: // after claims with a later time
		c.Now = p.now.Add(-time.Duration(p.random.IntN(5)) * time.Second)
	}
	said := p.q.Peek(&c, "").Next
	got := p.q.Claim(&c)
	if !slices.Equal(said, got) {
		t.Fatalf("the peek returned %v, the claim %v", said, got)
	}
	p.check(t, &c, holds, got)
	for _, id := range got {
		j := p.jobs[id]
		next := j
		next.Worker, next.Due = "w", time.Time{}
		p.put(&j, next)
	}
}

func (p *plain) any() job.Job {
	ids := make([]job.ID, 0, len(p.jobs))
	for id := range p.jobs {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return job.Job{}
	}
	slices.Sort(ids)
	return p.jobs[ids[p.random.IntN(len(ids))]]
}

// TestAgeing compares claims with ageing with plain, in random simulations.
func TestAgeing(t *testing.T) {
	for seed := range uint64(60) {
		p := &plain{q: New(), jobs: map[job.ID]job.Job{}, now: start, random: rand.New(rand.NewPCG(seed, 1))}
		for range 300 {
			p.now = p.now.Add(time.Duration(p.random.IntN(2000)) * time.Millisecond)
			switch n := p.random.IntN(10); {
			case n < 3 && len(p.jobs) < 40 || len(p.jobs) == 0:
				p.create()
			case n < 8:
				p.change(p.any())
			default:
				p.claim(t)
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

// Entries that left are dropped even if the oldest is never requested.
func TestAgesStaySmall(t *testing.T) {
	q := New()
	waiting := job.Job{ID: "waits", Number: 1, Kind: "k", Position: lifecycle.Position{State: "A"}, Entered: start}
	q.Put(nil, &waiting)
	away := job.Job{ID: "back", Number: 2, Kind: "k", Position: lifecycle.Position{State: "A"}, Entered: start,
		Owner: "zoe"}
	other, back := away, away
	other.ID, other.Number, other.Worker = "other", 50_003, "w" // so that the lane does not end with it
	q.Put(nil, &other)
	q.Put(nil, &back)
	away.Worker = "w" // its lane has no ready entry meanwhile
	q.Put(&back, &away)
	for i := range 20_000 {
		a := job.Job{
			ID:     job.ID(fmt.Sprint(i)),
			Number: int64(i + 3), Kind: "k", Position: lifecycle.Position{State: "A"},
			Entered: start.Add(time.Duration(i)),
			Owner:   fmt.Sprint(i % 7), Tags: []string{fmt.Sprint(i % 3000)},
		}
		if i%2 == 0 {
			a.Owner, a.Tags = "", nil // in the lane of the one that waits
		}
		b, c := a, a
		b.Worker = "w"
		c.State, c.Ended = "B", true
		q.Put(nil, &a)
		q.Put(&a, &b)
		q.Put(&b, &c)
	}
	pl := q.entries["waits"].lane.home
	if n := len(pl.elders); n > 100 {
		t.Errorf("the lot's order of age has %d lanes of %d", n, len(pl.lanes))
	}
	if n := len(pl.state.elders); n > 100 {
		t.Errorf("the state's order of age has %d lots", n)
	}
	if n := len(q.entries["waits"].lane.elders); n > 100 {
		t.Errorf("the lane's order of age has %d entries of %d", n, len(q.entries["waits"].lane.ready))
	}
	if n := len(q.sets); n > 2000 {
		t.Errorf("%d sets of tags are remembered, none is in use", n)
	}
	q.Put(&away, &back)
	q.Put(nil, &job.Job{ID: "young", Number: 99_999, Kind: "k", Position: waiting.Position,
		Entered: start.Add(time.Minute), Priority: -1})
	c := job.Claim{N: 2, Now: start.Add(time.Hour), From: []job.KindState{{Kind: "k", State: "A"}},
		Ageing: job.Ageing{Share: 1}}
	if got := q.Claim(&c); !slices.Equal(got, []job.ID{"waits", "back"}) {
		t.Errorf("a claim by age gives %v", got)
	}
}

// BenchmarkTransition gives the cost of one move of a job and its claim, with others waiting.
func BenchmarkTransition(b *testing.B) {
	q := New()
	for i := range 1000 {
		q.Put(nil, &job.Job{ID: job.ID(fmt.Sprint("w", i)), Number: int64(i + 1), Kind: "k",
			Position: lifecycle.Position{State: "A"}, Entered: start})
	}
	j := job.Job{ID: "j", Number: 5000, Kind: "k", Position: lifecycle.Position{State: "A"}, Entered: start}
	q.Put(nil, &j)
	for i := 0; b.Loop(); i++ {
		next := j
		next.State, next.Entered, next.Worker = states[i%2], j.Entered.Add(time.Microsecond), ""
		q.Put(&j, &next)
		claimed := next
		claimed.Worker = "w"
		q.Put(&next, &claimed)
		j = claimed
	}
}
