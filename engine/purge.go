package engine

import (
	"context"
	"errors"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// mostLogs is how many logs one check of retention removes.
const mostLogs = 1000

// purge removes tombstones that are older than before from the store: the jobs of a batch first, then the batch. A job
// is kept while its batch exists, because the batch's report lists it.
func (r *retention) purge(ctx context.Context, e *Engine, w *Work, before time.Time) error {
	tombstone := func(s lifecycle.Stage) bool { return w.Life.Tombstone(s.State) }
	return r.each(ctx, e, w, before, tombstone, func(j *job.Job) (bool, error) {
		if j.Parent != "" {
			parent, err := e.store.Get(ctx, j.Parent)
			if err == nil && !parent.Gone || err != nil && job.KindOf(err) != job.NotFound {
				return false, err
			}
		}
		if err := r.purgeChildren(ctx, e, j, before); err != nil {
			return false, err
		}
		return true, r.purgeOne(ctx, e, j)
	})
}

// purgeChildren purges the jobs of a batch that is a tombstone. It refuses while one of them is not old enough.
func (r *retention) purgeChildren(ctx context.Context, e *Engine, batch *job.Job, before time.Time) error {
	if batch.Children.Created() == 0 {
		return nil
	}
	q := job.Query{Parent: batch.ID, Oldest: true, Limit: 500}
	for {
		page, err := e.store.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			j := &page.Jobs[i]
			if !j.Gone || !j.Changed.Before(before) {
				return job.Errorf(job.Refused, "purge", batch.ID, "its job %s is still kept", j.ID)
			}
			if err := r.purgeOne(ctx, e, j); err != nil && job.KindOf(err) != job.NotFound {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		q.After = page.Next
	}
}

// purgeOne removes what an application stored for a job, its log, and then its record.
func (r *retention) purgeOne(ctx context.Context, e *Engine, j *job.Job) error {
	if r.Clear != nil {
		if err := r.Clear(ctx, j); err != nil {
			return err
		}
	}
	if logs, ok := e.options.JobLogs.(logFiles); ok {
		if err := logs.Remove(j.ID); err != nil {
			return err
		}
	}
	t := newTransition(e.workOf(j.Kind), j, e.clock.Now())
	t.asRead(e.name)
	t.From, t.Purge = j.State, true
	_, err := e.one(ctx, t)
	return err
}

// clearLogs removes the logs of jobs that ended long enough ago, and of jobs that no longer exist.
func (r *retention) clearLogs(ctx context.Context, e *Engine) error {
	logs, ok := e.options.JobLogs.(logFiles)
	before, known := r.guard.Before(r.Logs)
	if !ok || !known || r.Logs <= 0 {
		return nil
	}
	removed := 0
	var mistakes []error
	err := logs.Each(func(id job.ID, written time.Time) bool {
		if !written.Before(before) {
			return ctx.Err() == nil
		}
		j, err := e.store.Get(ctx, id)
		if job.KindOf(err) == job.NotFound || err == nil && j.Ended && j.Changed.Before(before) {
			if err = logs.Remove(id); err == nil {
				removed++
			}
		}
		if err != nil {
			mistakes = append(mistakes, err)
		}
		return ctx.Err() == nil && removed < mostLogs && len(mistakes) < 10
	})
	return errors.Join(append(mistakes, err)...)
}
