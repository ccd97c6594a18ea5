package storetest

import (
	"fmt"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// costing is an operation whose cost must not grow.
type costing struct {
	name   string
	newest bool // the cost grows up to 10,000 jobs

	// run leaves the store as it was, as far as costs go. What it gives to count is measured.
	run func(c *costs, count counting) error
}

// costly are the operations of jobs, claims and holds.
var costly = []costing{
	{name: "claim", run: costClaim},
	{name: "claim, the limit of all jobs full", run: func(c *costs, count counting) error {
		return c.empty(count, c.limits(busyJobs))
	}},
	{name: "claim, the limits of all owners full", run: func(c *costs, count counting) error {
		return c.empty(count, []job.Limit{{Name: "none", Kind: stepKind, PerOwner: true, Max: 0}})
	}},
	{name: "claim, the first job with labels", run: costLabels},
	{name: "chain under a full limit", run: costChain},
	{name: "first claim after a hold on a batch", run: costHold},
	{name: "hold and release of a batch", run: costHolds},
	{name: "audit of holds", run: func(c *costs, count counting) error {
		return count(func() error {
			got, err := c.st.AuditHolds(c.ctx, 0, 1000)
			if err == nil && len(got) == 0 {
				err = fmt.Errorf("it gives none")
			}
			return err
		})
	}},
	{name: "peek", run: func(c *costs, count counting) error {
		return count(func() error {
			f, err := c.st.Peek(c.ctx, c.ask(5), c.id(c.n))
			if err == nil && len(f.Next) != 5 {
				err = fmt.Errorf("it gives %v", f.Next)
			}
			return err
		})
	}},
	{name: "overdue", run: func(c *costs, count counting) error {
		return count(func() error {
			got, err := c.st.Overdue(c.ctx, c.clock.Add(2*time.Hour), nil, 5)
			return gives(len(got), 5, err)
		})
	}},
	{name: "overdue, none", run: func(c *costs, count counting) error {
		return count(func() error {
			got, err := c.st.Overdue(c.ctx, c.clock, nil, 5)
			return gives(len(got), 0, err)
		})
	}},
	{name: "overdue, of a kind of which few are", run: func(c *costs, count counting) error {
		return count(func() error {
			got, err := c.st.Overdue(c.ctx, c.clock.Add(2*year), []job.Kind{stepKind}, 20)
			return gives(len(got), busyJobs, err)
		})
	}},
	{name: "ended jobs, of which few are old", run: costEnded(stopped, func(c *costs) time.Time { return c.few })},
	{name: "ended jobs, of which few are in the state", run: costEnded(deleted, (*costs).tick)},
	{name: "the jobs of a worker", run: func(c *costs, count counting) error {
		return count(func() error {
			page, err := c.st.List(c.ctx, job.Query{Worker: "w1", Limit: 20})
			return gives(len(page.Jobs), busyJobs, err)
		})
	}},
	{name: "commit", run: func(c *costs, count counting) error {
		return count(func() error {
			_, err := c.change(c.news())
			return err
		})
	}},
	{name: "create", run: func(c *costs, count counting) error {
		one := c.next()
		return count(func() error {
			got, err := c.st.Create(c.ctx, one)
			return gives(len(got), 1, err)
		})
	}},
	{name: "purge of a job", run: func(c *costs, count counting) error { return costPurge(c, count, alone) }},
	{name: "purge of a batch", run: func(c *costs, count counting) error { return costPurge(c, alone, count) }},
	{name: "renew", run: func(c *costs, count counting) error {
		r := job.Renewal{Worker: "w1", Lease: time.Hour, Now: c.tick(),
			Leases: []job.Lease{{Job: c.busy[0].ID, Epoch: c.busy[0].Epoch}}}
		return count(func() error {
			lost, err := c.st.Renew(c.ctx, r)
			return gives(len(lost), 0, err)
		})
	}},
	{name: "get", run: func(c *costs, count counting) error {
		return count(func() error {
			_, err := c.st.Get(c.ctx, c.id(c.n/2))
			return err
		})
	}},
	{name: "a page of the list", run: func(c *costs, count counting) error {
		return count(func() error {
			page, err := c.st.List(c.ctx, job.Query{Limit: 20, Ended: new(bool)})
			return gives(len(page.Jobs), 20, err)
		})
	}},
	{name: "a page after a cursor", run: costPage},
	{name: "found by a word of one job", run: func(c *costs, count counting) error {
		return costWords(c, count, 1, "job0000333")
	}},
	{name: "found by two words, one of all jobs", run: func(c *costs, count counting) error {
		return costWords(c, count, 20, "hundred3", "all")
	}},
	{name: "found by a word of all jobs", run: func(c *costs, count counting) error {
		return costWords(c, count, 20, "all")
	}, newest: true},
	{name: "found by a word of all jobs, of another owner", run: func(c *costs, count counting) error {
		return count(func() error {
			page, err := c.st.List(c.ctx, job.Query{Words: []string{"all"}, Owner: "nobody", Limit: 20})
			return gives(len(page.Jobs), 0, err)
		})
	}, newest: true},
	{name: "numbered", run: func(c *costs, count counting) error {
		return count(func() error {
			j, err := c.st.Numbered(c.ctx, stepKind, c.busy[0].Number)
			if err == nil && j.ID != c.busy[0].ID {
				err = fmt.Errorf("it gives %s", j.ID)
			}
			return err
		})
	}},
	{name: "named, the newest", run: func(c *costs, count counting) error {
		return costNamed(c, count, c.id(c.n))
	}, newest: true},
	{name: "named, the first", run: func(c *costs, count counting) error {
		return costNamed(c, count, c.id(1))
	}, newest: true},
	{name: "named, of an owner without jobs", run: func(c *costs, count counting) error {
		return count(func() error {
			got, err := c.st.Named(c.ctx, "tst_", "nobody", 5)
			return gives(len(got), 0, err)
		})
	}, newest: true},
	{name: "history", run: func(c *costs, count counting) error {
		return count(func() error {
			got, err := c.st.History(c.ctx, c.id(7), 0, 0)
			return gives(len(got), 1, err)
		})
	}},
	{name: "count", run: func(c *costs, count counting) error {
		return count(func() error {
			_, err := c.st.Count(c.ctx)
			return err
		})
	}},
	{name: "holds", run: func(c *costs, count counting) error {
		return count(func() error {
			got, err := c.st.Holds(c.ctx)
			return gives(len(got), 0, err)
		})
	}},
}

// costWords lists a page of the jobs with words.
func costWords(c *costs, count counting, want int, text ...string) error {
	return count(func() error {
		page, err := c.st.List(c.ctx, job.Query{Words: text, Limit: 20})
		return gives(len(page.Jobs), want, err)
	})
}

// costEnded lists the jobs that ended in a state and have not changed since a time.
func costEnded(state lifecycle.State, before func(*costs) time.Time) func(*costs, counting) error {
	return func(c *costs, count counting) error {
		q := job.EndedQuery{Kind: stepKind, States: []lifecycle.State{state}, Before: before(c), Limit: 500}
		return count(func() error {
			page, err := c.st.ListEnded(c.ctx, q)
			return gives(len(page.Jobs), endedFew, err)
		})
	}
}

// costPurge purges a job that had a message, and then its batch.
func costPurge(c *costs, one, batch counting) error {
	b, e := job.New(job.Job{ID: "tst_purged", Kind: batchKind, Position: Batch.Start(), Definition: Batch.Hash(),
		Children: job.Children{Expected: 1}}, lifecycle.Owner, "alice", c.tick())
	j, first := job.New(job.Job{ID: "tst_purged_job", Kind: stepKind, Position: Step.Start(), Definition: Step.Hash(),
		Parent: b.ID}, lifecycle.Owner, "alice", c.tick())
	letter := job.Message{Key: "purged", Job: j.ID, Topic: "mail", Created: c.clock, Due: c.clock,
		Settled: job.Delivered}
	if _, err := c.st.Create(c.ctx, job.Created{Job: b, Event: e}); err != nil {
		return err
	}
	created, err := c.st.Create(c.ctx, job.Created{Job: j, Event: first, Outbox: []job.Message{letter}})
	if err != nil {
		return err
	}
	if err := c.remove(Step, created[0], "cancel", lifecycle.Operator, one); err != nil {
		return err
	}
	got, err := c.st.Claim(c.ctx, job.Claim{Worker: "w1", N: 1, Now: c.tick(), Lease: time.Hour,
		From: []job.KindState{{Kind: batchKind, State: waiting}}})
	if err != nil || len(got) != 1 || got[0].ID != b.ID {
		return fmt.Errorf("claim gave %v, %w", ids(got), err)
	}
	return c.remove(Batch, got[0], "fail", lifecycle.Worker, batch)
}

// remove ends a job with an event, deletes and purges it.
func (c *costs) remove(
	life *lifecycle.Table, j job.Job, end lifecycle.Event, by lifecycle.Actor, count counting,
) error {
	for _, e := range []lifecycle.Event{end, "delete"} {
		change, err := Transition(life, j, e, by, c.tick())
		if err == nil {
			j, err = c.change(change)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e, err)
		}
		by = lifecycle.Timer
	}
	return count(func() error {
		_, err := c.change(job.Change{Job: j.ID, Version: j.Version, Purge: true, By: lifecycle.Timer,
			Actor: "retention", At: c.tick()})
		return err
	})
}

func gives(n, want int, err error) error {
	if err == nil && n != want {
		err = fmt.Errorf("it gives %d, want %d", n, want)
	}
	return err
}

// alone runs what is not measured.
func alone(f func() error) error { return f() }

func costClaim(c *costs, count counting) error {
	var j job.Job
	if err := count(func() (err error) { j, err = c.granted(); return err }); err != nil {
		return err
	}
	return c.back(j)
}

// costLabels claims a job that requires two labels of the worker. Many others require one of them and a third.
func costLabels(c *costs, count counting) error {
	j, e := job.New(job.Job{ID: job.ID(fmt.Sprint("tst_labelled_", c.clock.UnixNano())), Kind: stepKind,
		Position: Step.Start(), Definition: Step.Hash(), Requires: []string{"gpu", "ssd"}}, lifecycle.Owner, "alice",
		c.tick())
	if _, err := c.st.Create(c.ctx, job.Created{Job: j, Event: e}); err != nil {
		return err
	}
	got := j
	if err := count(func() (err error) { got, err = c.granted(); return err }); err != nil {
		return err
	}
	if got.ID != j.ID {
		return fmt.Errorf("%s was granted, not %s", got.ID, j.ID)
	}
	change, err := Transition(Step, got, "begin", lifecycle.Worker, c.tick())
	if err == nil {
		got, err = c.change(change)
	}
	if err == nil {
		change, err = Transition(Step, got, "fail", lifecycle.Operator, c.tick())
	}
	if err == nil {
		_, err = c.change(change)
	}
	return err
}

// costChain begins a job whose chain is refused, and ends it.
func costChain(c *costs, count counting) error {
	j, err := c.granted()
	if err != nil {
		return err
	}
	change, err := Transition(Step, j, "begin", lifecycle.Worker, c.tick())
	if err != nil {
		return err
	}
	change.Chain = &job.Chain{Worker: "w1", Lease: time.Hour, Limits: c.limits(100)}
	err = count(func() (err error) { j, err = c.change(change); return err })
	if err == nil && j.Claimed() {
		err = fmt.Errorf("the chain was granted")
	}
	return err
}

func (c *costs) hold() error {
	_, err := c.st.Hold(c.ctx, job.Hold{Scope: job.Scope{Job: crowd}, Who: "olga", Since: c.tick()})
	return err
}

func (c *costs) release() error {
	_, err := c.st.Release(c.ctx, job.Hold{Scope: job.Scope{Job: crowd}, Who: "olga", Since: c.tick()})
	return err
}

func costHold(c *costs, count counting) error {
	if err := c.hold(); err != nil {
		return err
	}
	var j job.Job
	err := count(func() (err error) { j, err = c.granted(); return err })
	if err == nil && j.Parent != "" {
		err = fmt.Errorf("a job of the batch was granted")
	}
	if err != nil {
		return err
	}
	if err := c.back(j); err != nil {
		return err
	}
	return c.release()
}

func costHolds(c *costs, count counting) error {
	if err := count(c.hold); err != nil {
		return err
	}
	j, err := c.granted()
	if err != nil {
		return err
	}
	if err := c.back(j); err != nil {
		return err
	}
	return count(c.release)
}

// costPage lists a page in the middle.
func costPage(c *costs, count counting) error {
	q := job.Query{Limit: 20, Oldest: true}
	for range 5 {
		page, err := c.st.List(c.ctx, q)
		if err != nil {
			return err
		}
		q.After = page.Next
	}
	return count(func() error {
		page, err := c.st.List(c.ctx, q)
		return gives(len(page.Jobs), 20, err)
	})
}

func costNamed(c *costs, count counting, id job.ID) error {
	return count(func() error {
		got, err := c.st.Named(c.ctx, string(id), "", 5)
		return gives(len(got), 1, err)
	})
}
