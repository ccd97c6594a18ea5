package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/job/words"
	"github.com/stagepost/stagepost/lifecycle"
)

// Counted is a store that counts what its operations touch, as [Costs] requires.
type Counted interface {
	job.Store

	// Touched returns how many rows the store has read and written so far, or steps in proportion to rows, and how many
	// lanes and other parts of its queue it has visited.
	Touched() (rows, lanes int64)
}

// Costs checks that no operation of an empty store touches much more with n jobs than with 1,000: at most twice as many
// rows and as many lanes, and 16 more. Of each operation the median of several counts, so that an index may be rebuilt
// now and then. It logs the counts. A search among the newest 10,000 jobs is compared with one in 10,000 jobs.
func Costs(t *testing.T, st Counted, n int) {
	t.Helper()
	faults, err := Growth(t.Context(), st, n, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Error(f)
	}
}

// Growth returns the operations that [Costs] finds to touch too much, each in a sentence that begins with its name.
func Growth(ctx context.Context, st Counted, n int, logf func(format string, args ...any)) (faults []string,
	err error) {
	c := &costs{ctx: ctx, st: st, clock: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	few := map[string]touched{}
	for _, size := range slices.Compact([]int{1000, min(10_000, n), n}) {
		if err := c.grow(size); err != nil {
			return nil, err
		}
		for _, o := range slices.Concat(costly, costlyOutbox) {
			first := 1000
			if o.newest {
				first = 10_000
			}
			if n <= first || size != first && size != n {
				continue
			}
			got, err := c.measure(o.run)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", o.name, err)
			}
			if size < n {
				few[o.name] = got
				continue
			}
			was := few[o.name]
			logf("%-40s rows %6d -> %6d, lanes %6d -> %6d", o.name, was.rows, got.rows, was.lanes, got.lanes)
			if got.rows > 2*was.rows+16 || got.lanes > 2*was.lanes+16 {
				faults = append(faults, fmt.Sprintf(
					"%s touches %d rows and %d lanes with %d jobs, %d and %d with fewer",
					o.name, got.rows, got.lanes, n, was.rows, was.lanes))
			}
		}
	}
	return faults, nil
}

// costs is a store that grows: half of the jobs are children of one batch, with one owner; each of the others has an
// owner of its own. Each tenth job has a message, another tenth an entry in the audit log. Each third one requires
// labels that no claim of the suite has: 1,000 different sets. For each tenth job, another one is claimed by one of 100
// other workers, whose lease and time in the state end after a year, and one has ended: the first endedFew of these are
// tombstones.
type costs struct {
	ctx   context.Context
	st    Counted
	clock time.Time
	n     int
	busy  []job.Job // claimed all the time
	few   time.Time // only endedFew jobs of each end have not changed since
}

const crowd job.ID = "tst_crowd" // the batch

const year = 365 * 24 * time.Hour

// grow creates jobs until there are n.
func (c *costs) grow(n int) error {
	if c.n == 0 {
		j, e := job.New(job.Job{ID: crowd, Kind: batchKind, Position: Batch.Start(), Priority: job.LastPriority,
			Definition: Batch.Hash(), Children: job.Children{Expected: 1 << 30}}, lifecycle.Owner, "alice", c.tick())
		if _, err := c.st.Create(c.ctx, job.Created{Job: j, Event: e}); err != nil {
			return err
		}
	}
	for c.n < n {
		var list []job.Created
		for range min(1000, n-c.n) {
			list = append(list, c.next())
			if c.n%10 == 0 {
				list = append(list, c.other(), c.ending())
			}
		}
		created, err := c.st.Create(c.ctx, list...)
		if err != nil {
			return err
		}
		for _, j := range created {
			if j.Kind == batchKind && !j.Claimed() {
				return fmt.Errorf("%s was not claimed when it was created", j.ID)
			}
		}
		if err := c.end(created); err != nil {
			return err
		}
	}
	for len(c.busy) < busyJobs {
		got, err := c.st.Claim(c.ctx, c.ask(1))
		if err != nil || len(got) != 1 {
			return fmt.Errorf("claim gave %v, %w", ids(got), err)
		}
		c.busy = append(c.busy, got...)
	}
	return nil
}

// busyJobs is the number of jobs that are claimed all the time.
const busyJobs = 8

func (c *costs) tick() time.Time {
	c.clock = c.clock.Add(time.Millisecond)
	return c.clock
}

func (c *costs) next() job.Created {
	c.n++
	j := job.Job{ID: c.id(c.n), Kind: stepKind, Position: Step.Start(), Definition: Step.Hash()}
	if c.n%2 == 0 {
		j.Parent, j.Owner, j.Priority = crowd, "ann", 10
	} else {
		j.Owner, j.Priority = fmt.Sprint("o", c.n), 50
	}
	if c.n%3 == 0 {
		j.Requires = job.Tagged([]string{"gpu", "ssd", "tape"}[c.n/3%3], fmt.Sprint("zone=", c.n/3%1000))
	}
	j.Words = words.Of("all", fmt.Sprintf("job%07d", c.n), fmt.Sprint("hundred", c.n/100))
	by := lifecycle.Owner
	if c.n%10 == 5 {
		by = lifecycle.Operator
	}
	j, e := job.New(j, by, "alice", c.tick())
	one := job.Created{Job: j, Event: e}
	if c.n%10 == 0 {
		one.Outbox = []job.Message{{Key: string(j.ID), Job: j.ID, Topic: "mail", Created: c.clock, Due: c.clock}}
	}
	return one
}

// other is a job that another worker claims when it is created.
func (c *costs) other() job.Created {
	j, e := job.New(job.Job{ID: job.ID(fmt.Sprint("tst_other_", c.n)), Kind: batchKind, Position: Batch.Start(),
		Definition: Batch.Hash(), Expires: c.clock.Add(year)}, lifecycle.Owner, "alice", c.tick())
	return job.Created{Job: j, Event: e, Chain: &job.Chain{Worker: fmt.Sprint("other ", c.n/10%100), Lease: year}}
}

// endedFew is the number of ended jobs that are old, and of those that are tombstones.
const endedFew = 8

// ending is a job that is cancelled after its creation.
func (c *costs) ending() job.Created {
	j, e := job.New(job.Job{ID: job.ID(fmt.Sprint("tst_ending_", c.n)), Kind: stepKind, Position: Step.Start(),
		Definition: Step.Hash()}, lifecycle.Owner, "alice", c.tick())
	return job.Created{Job: j, Event: e}
}

// end cancels the jobs that are made to end, and deletes the first ones.
func (c *costs) end(created []job.Job) error {
	var changes []job.Change
	for i, j := range created {
		if !strings.HasPrefix(string(j.ID), "tst_ending_") {
			continue
		}
		change, err := Transition(Step, created[i], "cancel", lifecycle.Owner, c.tick())
		if err != nil {
			return err
		}
		changes = append(changes, change)
		if c.few.IsZero() && len(changes) == 2*endedFew {
			c.few = c.tick()
		}
	}
	results, err := c.st.Commit(c.ctx, changes...)
	for i := 0; i < len(results) && err == nil; i++ {
		err = results[i].Err
		if c.n > 1000 || i >= endedFew || err != nil {
			continue
		}
		change, mistake := Transition(Step, results[i].Job, "delete", lifecycle.Timer, c.few.Add(-1))
		if err = mistake; err == nil {
			_, err = c.change(change)
		}
	}
	return err
}

func (c *costs) id(n int) job.ID { return job.ID(fmt.Sprintf("tst_%08d", n)) }

// ask is a claim with limits on all jobs, on each owner and on running jobs.
func (c *costs) ask(n int) job.Claim {
	return job.Claim{Worker: "w1", N: n, Now: c.tick(), Lease: time.Hour,
		From:   []job.KindState{{Kind: stepKind, State: waiting}},
		Labels: []string{"gpu", "ssd", "tape", "zone=none"}, Limits: c.limits(100),
		Ageing: job.Ageing{Share: 10, Patience: time.Hour}}
}

func (c *costs) limits(most int) []job.Limit {
	return []job.Limit{{Name: "all", Kind: stepKind, Max: most},
		{Name: "each", Kind: stepKind, PerOwner: true, Max: 50},
		{Name: "running", Kind: stepKind, Guard: []lifecycle.State{running}, Max: 0}}
}

type touched struct{ rows, lanes int64 }

// counting runs an operation and counts what it touches.
type counting func(op func() error) error

// measure runs an operation several times and returns the median of what it touches. Its first run prepares what
// later ones find.
func (c *costs) measure(run func(*costs, counting) error) (touched, error) {
	var rows, lanes []int64
	count := func(f func() error) error {
		rowsBefore, lanesBefore := c.st.Touched()
		err := f()
		rowsAfter, lanesAfter := c.st.Touched()
		rows, lanes = append(rows, rowsAfter-rowsBefore), append(lanes, lanesAfter-lanesBefore)
		return err
	}
	for range 9 {
		if err := run(c, count); err != nil {
			return touched{}, err
		}
	}
	slices.Sort(rows)
	slices.Sort(lanes)
	return touched{rows[len(rows)/2], lanes[len(lanes)/2]}, nil
}

// change commits one change.
func (c *costs) change(change job.Change) (job.Job, error) {
	r, err := c.st.Commit(c.ctx, change)
	if err != nil {
		return job.Job{}, err
	}
	return r[0].Job, r[0].Err
}

// granted claims one job.
func (c *costs) granted() (job.Job, error) {
	got, err := c.st.Claim(c.ctx, c.ask(1))
	if err == nil && len(got) != 1 {
		err = fmt.Errorf("the claim was granted %d jobs", len(got))
	}
	if err != nil {
		return job.Job{}, err
	}
	return got[0], nil
}

// back gives a job back.
func (c *costs) back(j job.Job) error {
	_, err := c.change(job.Change{Job: j.ID, Epoch: j.Epoch, At: c.tick()})
	return err
}

// empty claims with limits under which nothing may be granted.
func (c *costs) empty(count counting, limits []job.Limit) error {
	ask := c.ask(5)
	ask.Limits = limits
	return count(func() error {
		got, err := c.st.Claim(c.ctx, ask)
		if err == nil && len(got) > 0 {
			err = fmt.Errorf("granted %v", ids(got))
		}
		return err
	})
}

// news is a change of a claimed job that is no transition.
func (c *costs) news() job.Change {
	return job.Change{Job: c.busy[0].ID, Epoch: c.busy[0].Epoch, Keep: true, At: c.tick(),
		Set: job.Fields{Data: json.RawMessage(`{"n":1}`)}}
}
