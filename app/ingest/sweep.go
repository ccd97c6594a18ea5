package ingest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/orphans"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// sweepEvery is the pause between sweeps, and youngest the age below which a directory without a batch may belong to a
// submission that is under way.
const (
	sweepEvery = time.Hour
	youngest   = time.Hour
)

// sweeps runs a sweep at the start and every hour, until ctx ends. The files of a deleted job are removed at once.
func (a *App) sweeps(ctx context.Context, gone <-chan job.ID) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	if err := a.Sweep(ctx); err != nil && ctx.Err() == nil {
		a.log.Error("sweep of the work directories", "error", err)
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case id := <-gone:
			err = a.sweepGone(ctx, id)
		case <-tick.C:
			err = a.Sweep(ctx)
		}
		if err != nil && ctx.Err() == nil {
			a.log.Error("sweep of the work directories", "error", err)
		}
	}
}

// Sweep moves to the trash the directories of deleted batches and jobs, of jobs that failed long ago, and payloads
// whose batch was never created, and removes what has been in the trash for long enough. If this server leads, it also
// ends the locks of jobs that have ended, and removes what crashed attempts left in storage locations: several servers
// share those. It may be called at any time. After a jump of the clock it removes nothing.
func (a *App) Sweep(ctx context.Context) error {
	if by, doubt := a.guard.Jumped(); doubt {
		a.log.Warn("the clock is in doubt; nothing is removed by its age", "seconds", int64(by.Seconds()))
		return nil
	}
	batches, err := os.ReadDir(filepath.Join(a.options.Dir, workdir.WorkName))
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range batches {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		errs = append(errs, a.sweepBatch(ctx, e.Name()))
	}
	if a.engine.Leads() {
		errs = append(errs, a.sweepReferences(ctx), a.sweepStages(ctx))
	}
	return errors.Join(append(errs, a.tree.SweepTrash(ctx))...)
}

// sweepGone clears away what belongs to a batch or job that was just deleted.
func (a *App) sweepGone(ctx context.Context, id job.ID) error {
	if _, jumped := a.guard.Jumped(); jumped {
		return nil
	}
	j, err := a.engine.Store().Get(ctx, id)
	if err != nil || !j.Gone {
		if job.KindOf(err) == job.NotFound {
			return nil
		}
		return err
	}
	return a.Clear(ctx, &j)
}

// Clear moves what belongs to a deleted batch or job out of the way: the jobs of a batch first, then references, then
// directories. It may be called again. Retention calls it before the record itself goes.
func (a *App) Clear(ctx context.Context, j *job.Job) error {
	switch j.Kind {
	case record.BatchKind:
		if err := a.deleteJobs(ctx, j); err != nil {
			return err
		}
		return a.tree.DiscardBatch(j.ID)
	case record.JobKind:
		if err := a.unrefer(ctx, j.ID); err != nil {
			return err
		}
		return a.tree.Discard(j.Parent, j.ID)
	}
	return nil
}

func (a *App) sweepBatch(ctx context.Context, name string) error {
	id := job.ID(name)
	b, err := a.engine.Store().Get(ctx, id)
	switch {
	case job.KindOf(err) == job.NotFound:
		age, err := workdir.Idle(filepath.Join(a.options.Dir, workdir.WorkName, name))
		if err != nil || age < youngest {
			return workdir.IgnoreMissing(err)
		}
		return a.tree.DiscardBatch(id)
	case err != nil:
		return err
	case b.Gone:
		return a.Clear(ctx, &b)
	}
	return a.sweepJobs(ctx, id)
}

// sweepJobs moves away the directories of jobs that were deleted, of those that completed and crashed before they
// could, and of those that failed long ago.
func (a *App) sweepJobs(ctx context.Context, batch job.ID) error {
	entries, err := os.ReadDir(filepath.Join(a.options.Dir, workdir.WorkName, string(batch)))
	if err != nil {
		return workdir.IgnoreMissing(err)
	}
	var errs []error
	for _, e := range entries {
		if !e.IsDir() || e.Name() == workdir.ReportsName {
			continue
		}
		id := job.ID(e.Name())
		useless := func() (bool, error) {
			j, err := a.engine.Store().Get(ctx, id)
			return err == nil && a.Useless(&j), nil // an unknown one is left for people
		}
		if yes, _ := useless(); yes {
			_, err := a.tree.DiscardIdle(batch, id, useless)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Useless reports whether the working files of a job are not needed any more.
func (a *App) Useless(j *job.Job) bool {
	switch {
	case j.Gone, j.Ended && j.Outcome == lifecycle.OK:
		return true
	case j.Ended && a.options.WorkKeep > 0:
		before, known := a.guard.Before(a.options.WorkKeep)
		return known && j.Entered.Before(before)
	}
	return false
}

// deleteJobs deletes what is left of a deleted batch's jobs, and what belongs to them.
func (a *App) deleteJobs(ctx context.Context, b *job.Job) error {
	q := job.Query{Kinds: []job.Kind{record.JobKind}, Parent: b.ID, Oldest: true, Limit: 1000}
	for {
		page, err := a.engine.Store().List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			j := &page.Jobs[i]
			if !j.Gone {
				_, err := a.engine.Do(ctx, operator.Act{Job: j.ID, Event: record.Delete, By: lifecycle.Timer,
					Actor: "sweep", Note: "its batch was deleted", Confirm: true})
				if err != nil && (job.KindOf(err) != job.Refused || orphans.Over(ctx, a.engine.Store(), j.ID) != nil) {
					return err // what runs keeps its locks and its files
				}
			}
			if err := a.unrefer(ctx, j.ID); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		q.After = page.Next
	}
}

// unrefer ends the locks of a job that has ended.
func (a *App) unrefer(ctx context.Context, id job.ID) error {
	locks, err := a.inventory.LocksOf(ctx, string(id))
	if err != nil || len(locks) == 0 {
		return err
	}
	return a.ReleaseLocks(ctx, locks)
}

// sweepReferences ends the locks of jobs that have ended or are no more. A lock that a later attempt has taken
// meanwhile has another token and stays.
func (a *App) sweepReferences(ctx context.Context) error {
	locks, err := a.inventory.Locks(ctx)
	if err != nil {
		return err
	}
	var dead []inventory.Lock
	for _, l := range locks {
		if j, err := a.engine.Store().Get(ctx, job.ID(l.Job)); job.KindOf(err) == job.NotFound || err == nil &&
			j.Ended {
			dead = append(dead, l)
		}
	}
	if len(dead) == 0 {
		return nil
	}
	return a.ReleaseLocks(ctx, dead)
}

// sweepStages removes what crashed attempts have staged in storage locations.
func (a *App) sweepStages(ctx context.Context) error {
	dirs, err := a.locations.All(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		root, there, err := a.locations.Existing(ctx, dir)
		if there {
			_, err = root.Sweep()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// orphanFinder makes the finder of orphans.
func (a *App) orphanFinder() *orphans.Finder {
	return &orphans.Finder{
		App: a, Data: a.options.Dir, Engine: a.engine, Inventory: a.inventory, Locations: a.locations, Tree: a.tree,
		LogFiles: a.options.Logs,
	}
}

// Orphans finds files, locks and messages without a job. It changes nothing, and its work is bounded.
func (a *App) Orphans(ctx context.Context) (api.Orphans, error) { return a.orphanFinder().Find(ctx) }

// FixOrphans removes those of them that can be removed and are old enough.
func (a *App) FixOrphans(ctx context.Context, in orphans.Fix) (api.FixedOrphans, error) {
	return a.orphanFinder().Fix(ctx, in)
}
