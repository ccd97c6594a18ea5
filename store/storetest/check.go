package storetest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Check compares a whole store with its records: histories, parents' counts, tallies, indexes, keys, numbers, claims
// and the audit log (reliability invariants I2 to I5). It gives a sentence for each thing that is wrong. Jobs of
// kinds that are not among lives are not replayed. There must be no concurrent writes.
func Check(ctx context.Context, st job.Store, lives ...*lifecycle.Table) []string {
	c := checker{ctx: ctx, st: st, lives: map[job.Kind]*lifecycle.Table{}, jobs: map[job.ID]job.Job{}}
	for _, life := range lives {
		c.lives[job.Kind(life.Name())] = life
	}
	all, err := everything(ctx, st, job.Query{Oldest: true})
	if err != nil {
		return []string{fmt.Sprintf("list: %v", err)}
	}
	for _, j := range all {
		if _, twice := c.jobs[j.ID]; twice {
			c.fault("%s is listed twice", j.ID)
		}
		c.jobs[j.ID] = j
	}
	for _, j := range all {
		c.record(j)
	}
	c.unique(all)
	c.counts(all)
	c.tallies(all)
	c.index(all)
	c.audit()
	return c.faults
}

type checker struct {
	ctx    context.Context
	st     job.Store
	lives  map[job.Kind]*lifecycle.Table
	jobs   map[job.ID]job.Job
	faults []string
}

func (c *checker) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

// record checks one job alone.
func (c *checker) record(j job.Job) {
	switch {
	case j.Claimed() && j.Until.IsZero(), !j.Claimed() && !j.Until.IsZero():
		c.fault("%s: worker %q and end of claim %v do not go together", j.ID, j.Worker, j.Until)
	case j.Claimed() && j.Epoch == 0:
		c.fault("%s is claimed under no epoch", j.ID)
	case j.Claimed() && j.Ended:
		c.fault("%s has ended in %s and is claimed by %s", j.ID, j.State, j.Worker)
	case j.Version < j.Seq:
		c.fault("%s: version %d after %d moves", j.ID, j.Version, j.Seq)
	}
	if got, err := c.st.Get(c.ctx, j.ID); err != nil || got.Version != j.Version || got.Position != j.Position {
		c.fault("%s is listed as %s version %d and read as %s version %d (%v)", j.ID, j.State, j.Version, got.State,
			got.Version, err)
	}
	life, known := c.lives[j.Kind]
	if !known {
		return
	}
	if j.Ended != life.Ended(j.State) || j.Gone != life.Tombstone(j.State) {
		c.fault("%s in %s: ended %v, gone %v", j.ID, j.State, j.Ended, j.Gone)
	}
	history, err := c.st.History(c.ctx, j.ID, 0, 0)
	if err == nil {
		err = job.Verify(j, history, life)
	}
	if err != nil {
		c.fault("%s: %v", j.ID, err)
	}
}

func (c *checker) unique(all []job.Job) {
	type named struct {
		kind        job.Kind
		owner, name string
	}
	keys, numbers := map[named]job.ID{}, map[named]job.ID{}
	for _, j := range all {
		key, number := named{j.Kind, j.Owner, j.Key}, named{j.Kind, "", fmt.Sprint(j.Number)}
		if other, taken := keys[key]; taken && j.Key != "" {
			c.fault("%s and %s have the key %q", other, j.ID, j.Key)
		}
		if other, taken := numbers[number]; taken {
			c.fault("%s and %s have the number %d", other, j.ID, j.Number)
		}
		keys[key], numbers[number] = j.ID, j.ID
	}
}

// counts recomputes every parent's counts from its children.
func (c *checker) counts(all []job.Job) {
	sums := map[job.ID]*job.Children{}
	for i, j := range all {
		if j.Parent == "" {
			continue
		}
		if _, ok := c.jobs[j.Parent]; !ok {
			c.fault("%s is a child of %s, which does not exist", j.ID, j.Parent)
		}
		if sums[j.Parent] == nil {
			sums[j.Parent] = &job.Children{}
		}
		sums[j.Parent].Add(&all[i], 1)
	}
	for _, j := range all {
		want := job.Children{}
		if sum := sums[j.ID]; sum != nil {
			want = *sum
		}
		want.Expected = j.Children.Expected
		want.Deleted = max(want.Deleted, j.Children.Deleted) // records of deleted jobs may have been purged
		if j.Children != want {
			c.fault("%s counts children %+v and has %+v", j.ID, j.Children, want)
		}
	}
}

// tallies recomputes the result of Count.
func (c *checker) tallies(all []job.Job) {
	type place struct {
		kind  job.Kind
		state lifecycle.State
		group string
	}
	sums := map[place]job.Tally{}
	for i := range all {
		j := &all[i]
		at := place{j.Kind, j.State, j.Group}
		t := sums[at]
		t.Kind, t.State, t.Group = j.Kind, j.State, j.Group
		t.Jobs++
		if j.Claimed() {
			t.Claimed++
		}
		t.Bytes += min(j.Bytes, math.MaxInt64-t.Bytes)
		sums[at] = t
	}
	var want []job.Tally
	for _, t := range sums {
		want = append(want, t)
	}
	got, err := c.st.Count(c.ctx)
	if err != nil {
		c.fault("count: %v", err)
	}
	if got, want := sorted(got), sorted(want); !slices.Equal(got, want) {
		c.fault("tallies are %v, those of the records are %v", got, want)
	}
}

// index asks for each state's jobs and compares with the records.
func (c *checker) index(all []job.Job) {
	want := map[job.KindState][]job.ID{}
	for _, j := range all {
		at := job.KindState{Kind: j.Kind, State: j.State}
		want[at] = append(want[at], j.ID)
	}
	for at, jobs := range want {
		got, err := everything(c.ctx, c.st,
			job.Query{Kinds: []job.Kind{at.Kind}, States: []lifecycle.State{at.State}, Oldest: true})
		if err != nil || !slices.Equal(ids(got), jobs) {
			c.fault("%v lists %v, the records give %v (%v)", at, ids(got), jobs, err)
		}
	}
}

// audit checks the chain of the audit log.
func (c *checker) audit() {
	var last *job.Audit
	for {
		seq := int64(0)
		if last != nil {
			seq = last.Seq
		}
		page, err := c.st.Audit(c.ctx, seq, 1000)
		if err == nil {
			err = job.VerifyAudit(last, page)
		}
		if err != nil {
			c.fault("audit: %v", err)
		}
		if err != nil || len(page) == 0 {
			return
		}
		last = &page[len(page)-1]
	}
}

// everything follows a query through all its pages.
func everything(ctx context.Context, st job.Store, q job.Query) ([]job.Job, error) {
	q.Limit = 1000
	var all []job.Job
	for {
		page, err := st.List(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Jobs...)
		if page.Next == "" {
			return all, nil
		}
		if page.Next == q.After || len(page.Jobs) == 0 {
			return nil, fmt.Errorf("the list does not go on after cursor %q", q.After)
		}
		q.After = page.Next
	}
}

// sorted gives the tallies that are not zero in the order of kind, state and group.
func sorted(tallies []job.Tally) []job.Tally {
	list := slices.DeleteFunc(slices.Clone(tallies), func(t job.Tally) bool { return t.Jobs == 0 && t.Claimed == 0 })
	slices.SortFunc(list, func(a, b job.Tally) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.State, b.State), cmp.Compare(a.Group, b.Group))
	})
	return list
}
