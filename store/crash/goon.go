package crash

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
)

// GoOn brings every job of a store to an end by legal moves, long after a crash: holds are released, claims that ran
// out are lost, jobs are claimed and moved, messages are delivered (reliability invariants I8 and I12). The error
// names the first job that cannot go on. All jobs must live by one of lives.
func GoOn(ctx context.Context, st job.Store, lives ...*lifecycle.Table) error {
	g := &goer{ctx: ctx, st: st, at: afterwards()}
	if err := errors.Join(g.release(), g.lose(lives), g.deliver()); err != nil {
		return err
	}
	for _, life := range lives {
		if err := g.finish(life); err != nil {
			return err
		}
	}
	open, err := st.List(ctx, job.Query{Ended: new(bool)})
	if err == nil && len(open.Jobs) > 0 {
		j := open.Jobs[0]
		return fmt.Errorf("%d jobs have not ended, the first is %s in %s", len(open.Jobs), j.ID, j.State)
	}
	return err
}

type goer struct {
	ctx context.Context
	st  job.Store
	at  time.Time
}

func (g *goer) release() error {
	holds, err := g.st.Holds(g.ctx)
	for _, h := range holds {
		if _, err = g.st.Release(g.ctx, h); err != nil {
			return err
		}
	}
	return err
}

// lose ends the claims of crashed workers.
func (g *goer) lose(lives []*lifecycle.Table) error {
	tables := map[job.Kind]*lifecycle.Table{}
	for _, life := range lives {
		tables[job.Kind(life.Name())] = life
	}
	for {
		overdue, err := g.st.Overdue(g.ctx, g.at, nil, 1000)
		if err != nil {
			return err
		}
		var changes []job.Change
		for _, j := range overdue {
			if !j.Claimed() {
				continue
			}
			c, err := storetest.Transition(tables[j.Kind], j, lifecycle.Lost, lifecycle.Timer, g.at)
			if err != nil { // a state without a loss event: its claim is given back in the worker's name
				c = job.Change{Job: j.ID, Epoch: j.Epoch, At: g.at}
			}
			changes = append(changes, c)
		}
		if len(changes) == 0 {
			return nil
		}
		results, err := g.st.Commit(g.ctx, changes...)
		for _, r := range results {
			err = errors.Join(err, r.Err)
		}
		if err != nil {
			return err
		}
	}
}

// deliver takes messages until there are none, each once.
func (g *goer) deliver() error {
	seen := map[string]bool{}
	all := job.Taking{N: 100, Lease: time.Hour, Now: g.at}
	for {
		taken, err := g.st.Take(g.ctx, all)
		if err != nil || len(taken) == 0 {
			return err
		}
		for i := range taken {
			m := &taken[i]
			if seen[m.Key] {
				return fmt.Errorf("message %s was given twice within its lease", m.Key)
			}
			seen[m.Key] = true
			m.Settled = job.Delivered
		}
		if err := g.st.Settle(g.ctx, taken...); err != nil {
			return err
		}
	}
}

// finish brings the jobs of one lifecycle to their ends.
func (g *goer) finish(life *lifecycle.Table) error {
	for {
		page, err := g.st.List(g.ctx,
			job.Query{Kinds: []job.Kind{job.Kind(life.Name())}, Ended: new(bool), Limit: 1000})
		if err != nil || len(page.Jobs) == 0 {
			return err
		}
		moves := map[job.ID][]lifecycle.Taken{}
		for _, j := range page.Jobs {
			way, ok := storetest.Path(life, j.Position, func(p lifecycle.Position) bool { return life.Ended(p.State) })
			if !ok {
				return fmt.Errorf("%s: no legal way leads from %+v to an end", j.ID, j.Position)
			}
			moves[j.ID] = way
		}
		if _, err := storetest.Drive(g.ctx, g.st, life, g.at, moves); err != nil {
			return err
		}
		g.at = g.at.Add(time.Hour)
	}
}
