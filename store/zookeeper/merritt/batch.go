package merritt

import (
	"context"
	"errors"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/zookeeper"
	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/queue"
)

// newBatch creates the nodes of a batch.
func (w *showing) newBatch(ctx context.Context, c *zookeeper.Changed) error {
	submission := w.l.m.Submission(c.Job).object(nil)
	if err := layout.CheckSubmission(submission); err != nil {
		return job.Errorf(job.Invalid, "create", c.Job.ID, "%w", err)
	}
	id, err := w.plan.NewBatch(ctx, submission, c.Job.Claimed())
	c.Node = string(id)
	w.fresh[c.Job.ID] = c.Node
	return err
}

// batch shows the change of a batch. Merritt's programs set Reporting as soon as the jobs of a batch exist: for a
// record in Processing it is the same.
func (w *showing) batch(ctx context.Context, c *zookeeper.Changed) error {
	b, err := w.q.Batch(ctx, layout.BatchID(c.Node))
	was, is := state(c.Before.State), state(c.Job.State)
	switch {
	case errors.Is(err, queue.ErrNotFound) && c.Before.Ended:
		return nil
	case errors.Is(err, queue.ErrNotFound), errors.Is(err, queue.ErrMalformed):
		return outdated(c, "%v", err)
	case err != nil:
		return err
	case b.Status.Status != was && was == is && c.Before.Claimed() == c.Job.Claimed():
		return nil // only the number of jobs, of a batch that the record does not follow yet
	case b.Status.Status != was && (was != layout.Processing || b.Status.Status != layout.Reporting):
		return outdated(c, "it is %s in Merritt, not %s", b.Status.Status, was)
	}
	hold, err := w.hold(c, b.Holder)
	if err != nil {
		return err
	}
	if hold == queue.Taken {
		w.plan.Absent(layout.IngestPaused)
	}
	next := b.Status
	if was != is {
		next.Status, next.Message = is, message(c)
	}
	if n := c.Job.Children.Expected; n != c.Before.Children.Expected {
		next.Other = next.Other.Clone()
		next.Other.Set(layout.KeyExpected, n)
	}
	return w.plan.Batch(ctx, b, next, hold)
}
