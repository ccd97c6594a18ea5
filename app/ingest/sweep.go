package ingest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// sweepEvery is the pause between sweeps, and youngest the age below which a directory without a batch may belong to a submission that is
// under way.
const (
	sweepEvery = time.Hour
	youngest   = time.Hour
)

// sweeps clears away what crashes and deletions leave, now and then again, until ctx ends.
func (a *App) sweeps(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := a.Sweep(ctx); err != nil && ctx.Err() == nil {
			a.log.Error("sweep of the work directories", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Sweep removes the trash, the directories of deleted batches and jobs, and payloads whose batch was never created. It may be called at any
// time.
func (a *App) Sweep(ctx context.Context) error {
	trash := filepath.Join(a.options.Dir, trashName)
	entries, err := os.ReadDir(trash)
	if err != nil {
		return err
	}
	var mistakes []error
	for _, e := range entries {
		mistakes = append(mistakes, os.RemoveAll(filepath.Join(trash, e.Name())))
	}
	batches, err := os.ReadDir(filepath.Join(a.options.Dir, workName))
	if err != nil {
		return err
	}
	for _, e := range batches {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		mistakes = append(mistakes, a.sweepBatch(ctx, e))
	}
	return errors.Join(mistakes...)
}

func (a *App) sweepBatch(ctx context.Context, e os.DirEntry) error {
	id := job.ID(e.Name())
	b, err := a.engine.Store().Get(ctx, id)
	if job.KindOf(err) == job.NotFound {
		if info, err := e.Info(); err != nil || time.Since(info.ModTime()) < youngest {
			return ignoreMissing(err)
		}
		return a.unstage(id)
	}
	if err != nil {
		return err
	}
	if b.Gone {
		return errors.Join(a.deleteJobs(ctx, &b), a.unstage(id))
	}
	return a.sweepJobs(ctx, id)
}

// sweepJobs removes the directories of jobs that were deleted, and of those that completed and died before they could.
func (a *App) sweepJobs(ctx context.Context, batch job.ID) error {
	entries, err := os.ReadDir(filepath.Join(a.options.Dir, workName, string(batch)))
	if err != nil {
		return ignoreMissing(err)
	}
	var mistakes []error
	for _, e := range entries {
		if !e.IsDir() || e.Name() == reportsName {
			continue
		}
		j, err := a.engine.Store().Get(ctx, job.ID(e.Name()))
		if err == nil && (j.Gone || j.Ended && j.Outcome == lifecycle.OK) {
			mistakes = append(mistakes, a.discard(batch, j.ID))
		}
	}
	return errors.Join(mistakes...)
}

// deleteJobs deletes what is left of a deleted batch's jobs.
func (a *App) deleteJobs(ctx context.Context, b *job.Job) error {
	q := job.Query{Kinds: []job.Kind{JobKind}, Parent: b.ID, Oldest: true, Limit: 1000}
	for {
		page, err := a.engine.Store().List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			j := &page.Jobs[i]
			if j.Gone {
				continue
			}
			_, err := a.engine.Do(ctx, engine.Act{Job: j.ID, Event: Delete, By: lifecycle.Operator, Actor: "sweep", Note: "its batch was deleted", Confirm: true})
			if err != nil && job.KindOf(err) != job.Refused {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		q.After = page.Next
	}
}
