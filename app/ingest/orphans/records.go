package orphans

import (
	"context"
	"fmt"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// pages goes through the jobs of a query, page by page, up to the bound of a search.
func (o *search) pages(ctx context.Context, what string, q job.Query, do func(*job.Job) error) error {
	q.Limit = orphanPages
	for looked := 0; ; {
		page, err := o.Engine.Store().List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			if err := do(&page.Jobs[i]); err != nil {
				return err
			}
		}
		looked += len(page.Jobs)
		if page.Next == "" {
			return nil
		}
		if looked >= orphanReads {
			o.cut(fmt.Sprintf("only the first %d %s were examined", looked, what))
			return nil
		}
		q.After = page.Next
	}
}

// jobs finds jobs without their batch. The counts of a deleted batch state whether there are any.
func (o *search) jobs(ctx context.Context) error {
	deleted := job.Query{Kinds: []job.Kind{record.BatchKind}, States: []lifecycle.State{record.Deleted}}
	err := o.pages(ctx, "deleted batches", deleted, func(b *job.Job) error {
		if b.Children.Created() == b.Children.Deleted {
			return nil
		}
		return o.pages(ctx, "jobs of "+string(b.ID), job.Query{Kinds: []job.Kind{record.JobKind}, Parent: b.ID},
			func(j *job.Job) error {
				if !j.Gone {
					o.found(api.Orphan{Rule: "job-without-batch", Name: string(j.ID), Job: j.ID, Since: b.Entered,
						What: fmt.Sprintf("job in %s; its batch %s was deleted", j.State, b.ID)}, nil)
				}
				return nil
			})
	})
	if err != nil {
		return err
	}
	open := false
	return o.pages(ctx, "open jobs", job.Query{Kinds: []job.Kind{record.JobKind}, Ended: &open},
		func(j *job.Job) error {
			b, err := o.job(ctx, j.Parent)
			if err != nil || b != nil || j.Parent == "" {
				return err
			}
			o.found(api.Orphan{Rule: "job-without-batch", Name: string(j.ID), Job: j.ID, Since: j.Created,
				What: fmt.Sprintf("job in %s; there is no batch %s", j.State, j.Parent)}, nil)
			return nil
		})
}

// batches finds batches that wait for jobs which no worker creates.
func (o *search) batches(ctx context.Context) error {
	open := false
	return o.pages(ctx, "open batches", job.Query{Kinds: []job.Kind{record.BatchKind}, Ended: &open},
		func(b *job.Job) error {
			if c := b.Children; c.Created() < c.Expected && !b.Claimed() && o.at.Sub(b.Entered) > orphanAge {
				o.found(api.Orphan{Rule: "batch-incomplete", Name: string(b.ID), Job: b.ID, Since: b.Entered,
					What: fmt.Sprintf("batch in %s with %d of %d jobs, and no worker has claimed it", b.State,
						c.Created(), c.Expected)}, nil)
			}
			return nil
		})
}

// locks finds locks of jobs that will not end them.
func (o *search) locks(ctx context.Context) error {
	all, err := o.Inventory.Locks(ctx)
	if err != nil {
		return err
	}
	for _, l := range all {
		j, err := o.job(ctx, job.ID(l.Job))
		if err != nil {
			return err
		}
		what := "its job does not exist"
		if j != nil {
			if !j.Ended {
				continue
			}
			what = fmt.Sprintf("its job has ended: %s", j.State)
		}
		o.found(api.Orphan{Rule: "lock", Name: l.String(), Job: job.ID(l.Job), Since: l.Since,
			What: "lock of " + l.Job + "; " + what}, o.endLock(l))
	}
	return nil
}

// endLock ends a lock if its job is still over: a retry takes it under another token.
func (o *search) endLock(l inventory.Lock) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := Over(ctx, o.Engine.Store(), job.ID(l.Job)); err != nil {
			return err
		}
		return o.App.ReleaseLocks(ctx, []inventory.Lock{l})
	}
}

// Over refuses unless the job has ended or does not exist.
func Over(ctx context.Context, store job.Store, id job.ID) error {
	j, err := store.Get(ctx, id)
	switch {
	case job.KindOf(err) == job.NotFound || err == nil && j.Ended:
		return nil
	case err != nil:
		return err
	}
	return job.Errorf(job.Conflict, "orphans", id, "it lives again: it is %s", j.State)
}

// checkMissing refuses unless the job does not exist.
func checkMissing(ctx context.Context, store job.Store, id job.ID) error {
	_, err := store.Get(ctx, id)
	switch {
	case job.KindOf(err) == job.NotFound:
		return nil
	case err == nil:
		err = job.Errorf(job.Conflict, "orphans", id, "it exists by now")
	}
	return err
}

// messages finds messages of jobs that do not exist. A purge takes them along, so that only damage leaves them.
func (o *search) messages(ctx context.Context) error {
	q := job.MessageQuery{Limit: orphanPages}
	for looked := 0; ; {
		all, err := o.Engine.Store().Messages(ctx, q)
		if err != nil || len(all) == 0 {
			return err
		}
		for i := range all {
			m := &all[i]
			if m.Job == "" {
				continue
			}
			if j, err := o.job(ctx, m.Job); err != nil || j != nil {
				if err != nil {
					return err
				}
				continue
			}
			o.found(api.Orphan{Rule: "message-without-job", Name: m.Key, Job: m.Job, Since: m.Created,
				What: fmt.Sprintf("message for %s; there is no job %s", m.Topic, m.Job)}, nil)
		}
		looked += len(all)
		last := all[len(all)-1].Number
		if len(all) < orphanPages || last == q.Before {
			return nil
		}
		if looked >= orphanReads {
			o.cut(fmt.Sprintf("only the newest %d messages were examined", looked))
			return nil
		}
		q.Before = last
	}
}
