package merritt

import (
	"context"
	"errors"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/zookeeper"
	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/queue"
)

// newJob creates the nodes of a job. A job of a batch without nodes has none.
func (w *showing) newJob(ctx context.Context, c *zookeeper.Changed) error {
	batch, err := w.batchOf(ctx, c.Job)
	if err != nil || batch == "" {
		return err
	}
	configuration := w.l.m.Configuration(c.Job, w.parent(c.Job)).object(nil)
	if err := layout.CheckConfiguration(configuration); err != nil {
		return job.Errorf(job.Invalid, "create", c.Job.ID, "%w", err)
	}
	ids := w.l.m.Identifiers(c.Job)
	id, err := w.plan.NewJob(ctx, batch, &queue.NewJob{
		Configuration: configuration, Priority: c.Job.Priority,
		Identifiers: layout.Identifiers{Primary: ids.Primary, Local: ids.Local},
	}, c.Job.Claimed())
	c.Node = string(id)
	return err
}

// batchOf returns the nodes of the batch of a job, "" if it has none. A queue that is full takes no more jobs.
func (w *showing) batchOf(ctx context.Context, j *job.Job) (layout.BatchID, error) {
	node, fresh := w.fresh[j.Parent]
	if !fresh {
		s, ok := w.l.records.Shown(j.Parent)
		if node = s.Node; !ok || node == "" {
			w.fresh[j.Parent] = ""
			return "", nil
		}
		w.fresh[j.Parent] = node
		if err := w.notFull(ctx, j); err != nil {
			return "", err
		}
	}
	return layout.BatchID(node), nil
}

// parent returns the record of the batch of a job, nil if there is none.
func (w *showing) parent(j *job.Job) *job.Job {
	s, ok := w.l.records.Shown(j.Parent)
	if !ok {
		return nil
	}
	return s.Job
}

// notFull refuses a job for which the queue of pending jobs has no space: the answer with its entries would exceed what
// Java clients accept.
func (w *showing) notFull(ctx context.Context, j *job.Job) error {
	n, err := w.q.Length(ctx, layout.Pending)
	if err == nil && n.Entries >= w.l.o.MostEntries {
		return job.Errorf(job.Unavailable, "create", j.Parent,
			"%d jobs are pending in Merritt, whose programs cannot list more than about 52,000: "+
				"it waits until some have begun", n.Entries)
	}
	return err
}

// job shows the change of a job.
func (w *showing) job(ctx context.Context, c *zookeeper.Changed) error {
	j, err := w.q.Job(ctx, layout.JobID(c.Node))
	if err == nil && (w.again || j.Outside) {
		if err = w.q.Mend(ctx, j); err == nil {
			j, err = w.q.Job(ctx, j.ID)
		}
	}
	switch {
	case errors.Is(err, queue.ErrNotFound) && c.Before.Ended: // the cleanup of Merritt was earlier
		return nil
	case errors.Is(err, queue.ErrNotFound), errors.Is(err, queue.ErrMalformed):
		return outdated(c, "%v", err)
	case err != nil:
		return err
	case j.Status.Status != state(c.Before.State):
		return outdated(c, "it is %s in Merritt, not %s", j.Status.Status, c.Before.State)
	}
	hold, err := w.hold(c, j.Holder)
	if err != nil {
		return err
	}
	if hold == queue.Taken {
		w.acquires(j)
	}
	r, err := w.results(ctx, c, j)
	if err != nil {
		return err
	}
	return w.plan.Job(ctx, j, w.jobStatus(c, j), r, hold)
}

// acquires adds what must not exist when a worker acquires a job: a pause, and the lock of its collection.
func (w *showing) acquires(j *queue.Job) {
	if j.Status.Status != layout.Recording {
		w.plan.Absent(layout.IngestPaused)
	}
	if p := j.Profile(); j.Status.Status == layout.Pending && p != "" {
		w.plan.Absent(layout.CollectionLock(p))
	}
}

func (w *showing) jobStatus(c *zookeeper.Changed, j *queue.Job) layout.JobStatus {
	next := j.Status
	if c.Job.State == c.Before.State {
		return next
	}
	next.Status, next.Message = state(c.Job.State), message(c)
	if c.Job.LastOK != c.Before.LastOK {
		next.Last = state(c.Job.LastOK)
	}
	next.Retries += max(c.Job.Retries-c.Before.Retries, 0)
	return next
}

// results are what differs of the nodes of a job after a change of its state or priority.
func (w *showing) results(ctx context.Context, c *zookeeper.Changed, j *queue.Job) (r queue.Results, err error) {
	if c.Job.Priority != c.Before.Priority {
		r.Priority = &c.Job.Priority
	}
	if c.Job.State == c.Before.State {
		return r, nil
	}
	if space := w.l.m.Space(c.Job); space != j.Space && space > 0 {
		r.Space = &space
	}
	if ids := w.l.m.Identifiers(c.Job); ids.Primary != "" && ids.Primary != j.Identifiers.Primary {
		r.Identifiers = &layout.Identifiers{Primary: ids.Primary, Local: ids.Local, Other: j.Identifiers.Other}
	}
	if state(c.Before.State) == layout.Processing && state(c.Job.State) == layout.Storing {
		r.Configuration = w.l.m.Configuration(c.Job, w.parent(c.Job)).object(j.Configuration)
		r.Store, r.Inventory, err = w.stored(ctx, c.Job, j.ID)
	}
	return r, err
}

// stored are the nodes from which storage and inventory continue. Keys that others wrote are kept.
func (w *showing) stored(
	ctx context.Context, j *job.Job, id layout.JobID,
) (store, inventory *layout.Stored, err error) {
	if w.l.m.Stored == nil {
		return nil, nil, nil
	}
	s, i := w.l.m.Stored(j)
	if s == nil || i == nil {
		return nil, nil, nil
	}
	was, entered, err := w.q.Stored(ctx, id)
	return &layout.Stored{ManifestURL: s.ManifestURL, Mode: s.Mode, Delete: s.Delete, Other: was.Other},
		&layout.Stored{ManifestURL: i.ManifestURL, Mode: i.Mode, Other: entered.Other}, err
}
