package postgres

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/storetest"
)

var (
	randomSeeds = flag.Int("random-seeds", 6, "seeds of TestRandom")
	randomCalls = flag.Int("random-calls", 250, "calls of TestRandom with each seed")
)

// TestRandom makes the same calls on a store in memory and on one in a database. The answers are the same: which jobs a
// claim is granted, in which order, past holds and limits, what a peek forecasts, and which jobs have words.
func TestRandom(t *testing.T) {
	for seed := range uint64(*randomSeeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := &random{Rand: rand.New(rand.NewPCG(seed, 7)), T: t, now: start, want: mem.New(),
				got: openStore(t, newDatabase(t), Options{CallerTime: true})}
			r.crowd()
			for i := range *randomCalls {
				if r.call(); t.Failed() {
					t.Fatalf("seed %d, call %d: %s", seed, i, r.last)
				}
			}
			for _, fault := range storetest.Check(t.Context(), r.got, storetest.Step, storetest.Batch) {
				t.Error(fault)
			}
			if checkRecent(t, r.got) == 0 {
				t.Error("no record is remembered")
			}
			t.Logf("%d jobs, %d claimed, %d chained, %d empty claims, %d found", r.n, r.claimed, r.chained, r.empty, r.found)
			if r.claimed < 50 || r.chained == 0 || r.empty == 0 || r.found == 0 {
				t.Error("the calls show little")
			}
		})
	}
}

type random struct {
	*rand.Rand
	*testing.T
	want *mem.Store
	got  *Store
	now  time.Time
	last string
	n    int

	jobs                    []job.Job // as they were answered last
	claimed, chained, empty int
	found                   int // by their words
}

// both makes a call on both stores and compares the answers.
func both[A any](r *random, what string, call func(job.Store) (A, error)) A {
	r.Helper()
	r.last = what
	want, wantErr := call(r.want)
	got, gotErr := call(r.got)
	if job.KindOf(wantErr) != job.KindOf(gotErr) {
		r.Errorf("error %v, in memory %v", gotErr, wantErr)
	}
	text := cmp.Comparer(func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) })
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), text); diff != "" {
		r.Errorf("%s (-in memory +in the database):\n%s", what, diff)
	}
	return got
}

// crowd creates a batch of many jobs.
func (r *random) crowd() {
	list := []job.Created{newJob(storetest.Batch, "tst_batch", func(j *job.Job) { j.Children.Expected = 1000 })}
	for range 100 {
		list = append(list, r.made("tst_batch"))
	}
	r.jobs = both(r, "create the batch", func(s job.Store) ([]job.Job, error) { return s.Create(r.Context(), list...) })
}

func (r *random) made(parent job.ID) job.Created {
	r.n++
	c := newJob(storetest.Step, job.ID(fmt.Sprint("tst_", r.n)), func(j *job.Job) {
		j.Parent, j.Owner, j.Group = parent, fmt.Sprint("o", r.IntN(5)), fmt.Sprint("g", r.IntN(3))
		j.Priority = 10 * r.IntN(3)
		if r.IntN(3) == 0 {
			j.Tags = job.Tagged(fmt.Sprint("queue=", r.IntN(2)))
		}
		if r.IntN(8) == 0 {
			j.Due = r.now.Add(time.Duration(r.IntN(600)) * time.Second)
		}
		j.Words = r.words()
	})
	c.Job, c.Event = job.New(c.Job, lifecycle.Operator, "olga", r.now)
	return c
}

// keep replaces the records of jobs by newer ones.
func (r *random) keep(jobs ...job.Job) {
	for _, j := range jobs {
		i := slices.IndexFunc(r.jobs, func(old job.Job) bool { return old.ID == j.ID })
		if i >= 0 {
			r.jobs[i] = j
		} else {
			r.jobs = append(r.jobs, j)
		}
	}
}

func (r *random) call() {
	r.now = r.now.Add(time.Duration(r.IntN(60)) * time.Second)
	switch k := r.IntN(21); {
	case k < 3:
		list := []job.Created{r.made("")}
		if r.IntN(2) == 0 {
			list = append(list, r.made("tst_batch"))
		}
		if r.IntN(3) == 0 {
			list[0].Chain = &job.Chain{Worker: "w1", Lease: time.Minute, Limits: r.limits()}
		}
		created := both(r, "create", func(s job.Store) ([]job.Job, error) { return s.Create(r.Context(), list...) })
		r.keep(created...)
	case k < 9:
		c := r.claim()
		got := both(r, fmt.Sprintf("claim %+v", c), func(s job.Store) ([]job.Job, error) {
			return s.Claim(r.Context(), c)
		})
		r.claimed += len(got)
		if len(got) == 0 {
			r.empty++
		}
		r.keep(got...)
	case k < 11:
		c, id := r.claim(), r.jobs[r.IntN(len(r.jobs))].ID
		both(r, fmt.Sprintf("peek %s %+v", id, c), func(s job.Store) (job.Forecast, error) {
			f, err := s.Peek(r.Context(), c, id)
			if f.Hold != nil {
				f.Hold = new(job.Hold) // any of those in force
			}
			return f, err
		})
	case k < 12:
		h := job.Hold{Scope: r.scope(), Who: "olga", Since: r.now}
		if r.IntN(2) == 0 {
			h.Until = r.now.Add(time.Duration(r.IntN(300)) * time.Second)
		}
		both(r, fmt.Sprintf("hold %+v", h), func(s job.Store) ([]job.Hold, error) { return s.Hold(r.Context(), h) })
	case k < 14:
		r.release()
	case k < 15:
		r.list()
	default:
		r.commit()
	}
}

func (r *random) release() {
	holds, err := r.want.Holds(r.Context())
	check(r, err)
	if len(holds) > 0 {
		h := holds[r.IntN(len(holds))]
		h.Since = r.now
		both(r, "release "+h.String(), func(s job.Store) ([]job.Hold, error) { return s.Release(r.Context(), h) })
	}
}

// words returns some words, in half of the cases none.
func (r *random) words() string {
	var some []string
	for _, w := range []string{"charts", "crete", "map", "maps"} {
		if r.IntN(6) == 0 {
			some = append(some, w)
		}
	}
	return strings.Join(some, " ")
}

// list finds jobs by words, on as many pages as there are.
func (r *random) list() {
	all := []string{"crete", "map", "charts", "maps", "c", "ma"}
	q := job.Query{Words: []string{all[r.IntN(len(all))]}, Limit: 1 + r.IntN(20), Oldest: r.IntN(2) == 0}
	if r.IntN(2) == 0 {
		q.Words = append(q.Words, all[r.IntN(len(all))])
	}
	if r.IntN(3) == 0 {
		q.Group = fmt.Sprint("g", r.IntN(3))
	}
	found := both(r, fmt.Sprintf("list %+v", q), func(s job.Store) (ids []job.ID, err error) {
		for q := q; ; {
			page, err := s.List(r.Context(), q)
			for _, j := range page.Jobs {
				ids = append(ids, j.ID)
			}
			if q.After = page.Next; err != nil || q.After == "" {
				return ids, err
			}
		}
	})
	r.found += len(found)
}

func (r *random) scope() (s job.Scope) {
	switch r.IntN(6) {
	case 0:
		s.Group = fmt.Sprint("g", r.IntN(3))
	case 1:
		s.Owner = fmt.Sprint("o", r.IntN(5))
	case 2:
		s.Tag = fmt.Sprint("queue=", r.IntN(2))
	case 3:
		s.Job = "tst_batch"
	case 4:
		s.Job = r.jobs[r.IntN(len(r.jobs))].ID
	default:
		s.State = pick(r.IntN(2) == 0, lifecycle.State("Waiting"), "Running")
	}
	if r.IntN(3) == 0 {
		s.Kind = stepKind
	}
	if r.IntN(4) == 0 && s.Group == "" {
		s.Group = fmt.Sprint("g", r.IntN(3))
	}
	return s
}

func (r *random) limits() (all []job.Limit) {
	waiting, running := []lifecycle.State{"Waiting"}, []lifecycle.State{"Running"}
	for _, l := range []job.Limit{
		{Name: "all", Max: 10 + r.IntN(30)}, {Name: "owner", PerOwner: true, Max: r.IntN(8)},
		{Name: "group", PerGroup: true, Max: 3 + r.IntN(8)},
		{Name: "both", PerGroup: true, PerOwner: true, Max: 1 + r.IntN(3)},
		{Name: "one", Owner: "o1", Max: r.IntN(4)}, {Name: "g", Group: "g1", Max: r.IntN(5)},
		{Name: "tag", Tag: "queue=1", Max: r.IntN(4)},
		{Name: "running", Guard: waiting, Occupy: running, Max: 5 + r.IntN(20)},
		{Name: "each", Guard: running, PerOwner: true, Max: 1 + r.IntN(4)},
		{Name: "og", Owner: "o2", PerGroup: true, Max: 2},
		{Name: "go", Group: "g2", PerOwner: true, Max: 2},
	} {
		if r.IntN(6) == 0 {
			l.Kind = stepKind
			all = append(all, l)
		}
	}
	return all
}

func (r *random) claim() job.Claim {
	c := job.Claim{Worker: "w1", N: 1 + r.IntN(4), Now: r.now, Lease: time.Minute, Limits: r.limits()}
	for _, state := range []lifecycle.State{"Waiting", "Running", "Checking"} {
		if r.IntN(2) == 0 {
			c.From = append(c.From, job.KindState{Kind: stepKind, State: state})
		}
	}
	if len(c.From) == 0 {
		c.From = []job.KindState{{Kind: stepKind, State: "Waiting"}}
	}
	if r.IntN(2) == 0 {
		c.Ageing = job.Ageing{Share: 1 + r.IntN(4), Patience: time.Duration(r.IntN(600)) * time.Second}
	}
	c.Suspects = []job.Suspects{job.SuspectsToo, job.SuspectsToo, job.NoSuspects, job.OnlySuspects}[r.IntN(4)]
	return c
}

// commit changes some jobs in one call, some of them twice.
func (r *random) commit() {
	var changes []job.Change
	for range 1 + r.IntN(4) {
		j := r.jobs[r.IntN(len(r.jobs))]
		claimed := slices.DeleteFunc(slices.Clone(r.jobs), func(j job.Job) bool { return !j.Claimed() })
		if len(claimed) > 0 && r.IntN(4) > 0 {
			j = claimed[r.IntN(len(claimed))]
		}
		changes = append(changes, r.change(j))
	}
	results := both(r, fmt.Sprintf("commit %+v", changes), func(s job.Store) ([]job.Result, error) {
		return s.Commit(r.Context(), changes...)
	})
	for i, result := range results {
		if result.Job.ID != "" {
			r.keep(result.Job)
		}
		if result.Err == nil && changes[i].Chain != nil && result.Job.Claimed() {
			r.chained++
		}
	}
}

func (r *random) change(j job.Job) job.Change {
	life := pick(j.Kind == stepKind, storetest.Step, storetest.Batch)
	by := pick(j.Claimed(), lifecycle.Worker, lifecycle.Operator)
	if r.IntN(6) == 0 {
		by = lifecycle.Timer
	}
	events := life.Can(j.Position, by)
	if len(events) == 0 || r.IntN(6) == 0 { // no transition
		priority := 10 * r.IntN(3)
		c := job.Change{Job: j.ID, Version: j.Version, At: r.now, Keep: true, Set: job.Fields{Priority: &priority}}
		if r.IntN(3) == 0 && j.Kind == stepKind {
			group := fmt.Sprint("g", r.IntN(3))
			c.Set.Group, c.Set.Tags = &group, job.Tagged(fmt.Sprint("queue=", r.IntN(2)))
		}
		return c
	}
	c, err := storetest.Transition(life, j, events[r.IntN(len(events))], by, r.now)
	check(r, err)
	if j.Kind == stepKind && r.IntN(2) == 0 {
		c.Chain = &job.Chain{Worker: "w1", Lease: time.Minute, Limits: r.limits()}
	}
	if r.IntN(5) == 0 {
		due := r.now.Add(time.Duration(r.IntN(300)) * time.Second)
		c.Set.Due = &due
	}
	if r.IntN(3) == 0 {
		words := r.words()
		c.Set.Words = &words
	}
	if r.IntN(8) == 0 {
		starts := r.IntN(4)
		c.Set.Starts = &starts
	}
	return c
}
