package queue

import (
	"context"
	"fmt"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// notAllowed returns the refusal of a transition.
func notAllowed(id string, from, to layout.Status) error {
	return fmt.Errorf("%s: %s to %s: %w", id, from, to, ErrNotAllowed)
}

// ReportBatch moves a batch that the caller holds to Reporting, when all of its jobs have ended, and keeps the lock.
// The error is ErrUnfinished while a job has not.
func (q *Queue) ReportBatch(ctx context.Context, b *Batch) (*Batch, error) {
	return q.settle(ctx, b, layout.Reporting, "", false)
}

// FinishBatch ends the reporting of a batch that the caller holds, and removes the lock: it is Failed with the message
// "Batch failure" if a job of it has failed, else Completed. The error is ErrUnfinished while a job has not ended.
func (q *Queue) FinishBatch(ctx context.Context, b *Batch) (*Batch, error) {
	c, err := q.Count(ctx, b.ID)
	if err != nil {
		return nil, err
	}
	if c.Failed > 0 {
		return q.settle(ctx, b, layout.Failed, layout.MessageBatchFailure, true)
	}
	return q.settle(ctx, b, layout.Completed, layout.MessageSuccess, true)
}

// settle changes the status of a batch whose jobs have ended. That is required in the same multi.
func (q *Queue) settle(ctx context.Context, b *Batch, to layout.Status, message string, release bool) (*Batch, error) {
	if from := b.Status.Status; !layout.BatchTable.Allowed(from, to) {
		return nil, notAllowed(string(b.ID), from, to)
	}
	next := b.Status
	next.Status, next.Message = to, message
	ops := []session.Op{holding(b.ID.Lock())}
	ops = append(ops, session.Childless(b.ID.Dir(layout.InProcess))...)
	if to == layout.Completed {
		empty, err := q.childless(ctx, b.ID.Dir(layout.IsFailed))
		if err != nil {
			return nil, err
		}
		ops = append(ops, empty...)
	}
	if release {
		ops = append(ops, session.Delete(b.ID.Lock(), lockVersion))
	}
	after, err := q.changeBatch(ctx, b, next, ops...)
	switch refusedAt(err) {
	case b.ID.Dir(layout.InProcess), b.ID.Dir(layout.IsFailed):
		return nil, fmt.Errorf("batch %s: %w: %w", b.ID, ErrUnfinished, err)
	}
	return after, err
}

// childless returns operations that require that a directory does not exist or has no children.
func (q *Queue) childless(ctx context.Context, path string) ([]session.Op, error) {
	_, err := q.s.Stat(ctx, path)
	switch {
	case isMissing(err):
		return session.Absent(path), nil
	case err != nil:
		return nil, err
	}
	return session.Childless(path), nil
}

// FailBatch ends a batch that the caller holds because its jobs could not be created, and removes the lock. The batch
// has a directory of unfinished jobs afterwards, so that the cleanup of other programs finds it. The error is
// ErrUnfinished if a job has not ended.
func (q *Queue) FailBatch(ctx context.Context, b *Batch, message string) (*Batch, error) {
	if from := b.Status.Status; from != layout.Processing {
		return nil, notAllowed(string(b.ID), from, layout.Failed)
	}
	dir := b.ID.Dir(layout.InProcess)
	ops := []session.Op{holding(b.ID.Lock())}
	_, err := q.s.Stat(ctx, dir)
	switch {
	case isMissing(err):
		ops = append(ops, session.Create(dir, nil))
	case err != nil:
		return nil, err
	default:
		ops = append(ops, session.Childless(dir)...)
	}
	next := b.Status
	next.Status, next.Message = layout.Failed, message
	after, err := q.changeBatch(ctx, b, next, append(ops, session.Delete(b.ID.Lock(), lockVersion))...)
	if refusedAt(err) == dir {
		return nil, fmt.Errorf("batch %s: %w: %w", b.ID, ErrUnfinished, err)
	}
	return after, err
}

// HoldBatch holds a pending batch. It gets a directory of references with a mark, without which other programs would
// acquire it.
func (q *Queue) HoldBatch(ctx context.Context, id layout.BatchID) (*Batch, error) {
	return q.operate(ctx, id, layout.Held, func(b *Batch) ([]session.Op, error) {
		if b.States {
			return nil, fmt.Errorf("batch %s: %w: it has jobs", b.ID, ErrNotAllowed)
		}
		return []session.Op{session.Create(b.ID.States(), nil), session.Create(b.ID.HeldMark(), nil)}, nil
	})
}

// ReleaseHeldBatch moves a held batch to Pending.
func (q *Queue) ReleaseHeldBatch(ctx context.Context, id layout.BatchID) (*Batch, error) {
	return q.operate(ctx, id, layout.Pending, func(b *Batch) ([]session.Op, error) {
		if !b.States {
			return nil, nil
		}
		return q.removal(ctx, b.ID.States())
	})
}

// UpdateBatch moves a failed batch to UpdateReporting.
func (q *Queue) UpdateBatch(ctx context.Context, id layout.BatchID) (*Batch, error) {
	return q.operate(ctx, id, layout.UpdateReporting, func(*Batch) ([]session.Op, error) { return nil, nil })
}

// DeleteBatch moves a held, failed or completed batch to Deleted: a tombstone, until PurgeBatch removes it. It has a
// directory of unfinished jobs afterwards, as after FailBatch.
func (q *Queue) DeleteBatch(ctx context.Context, id layout.BatchID) (*Batch, error) {
	return q.operate(ctx, id, layout.Deleted, func(b *Batch) (ops []session.Op, err error) {
		if !b.States {
			ops = append(ops, session.Create(b.ID.States(), nil))
		}
		all, err := q.nodes(ctx, b.ID.Dir(layout.InProcess), b.ID.HeldMark())
		if err != nil {
			return nil, err
		}
		if !all[0].exists {
			ops = append(ops, session.Create(b.ID.Dir(layout.InProcess), nil))
		}
		if all[1].exists {
			ops = append(ops, session.Delete(b.ID.HeldMark(), session.AnyVersion))
		}
		return ops, nil
	})
}

// operate is a change by an operator, of a batch that no worker holds. A completed batch may be deleted, although no
// table has that.
func (q *Queue) operate(ctx context.Context, id layout.BatchID, to layout.Status,
	more func(*Batch) ([]session.Op, error)) (*Batch, error) {
	b, err := q.Batch(ctx, id)
	if err != nil {
		return nil, err
	}
	from := b.Status.Status
	if !layout.BatchTable.Allowed(from, to) && (from != layout.Completed || to != layout.Deleted) {
		return nil, notAllowed(string(id), from, to)
	}
	ops, err := more(b)
	if err != nil {
		return nil, err
	}
	next := b.Status
	next.Status, next.Message = to, ""
	after, err := q.changeBatch(ctx, b, next, append(session.Absent(b.ID.Lock()), ops...)...)
	if refusedAt(err) == b.ID.Lock() {
		return nil, fmt.Errorf("batch %s: %w", id, ErrLocked)
	}
	return after, err
}

// removal returns operations that remove a node and all below it, the node last.
func (q *Queue) removal(ctx context.Context, path string) (ops []session.Op, err error) {
	names, exists, err := q.children(ctx, path)
	if err != nil || !exists {
		return nil, err
	}
	for _, name := range names {
		below, err := q.removal(ctx, path+"/"+name)
		if err != nil {
			return nil, err
		}
		ops = append(ops, below...)
	}
	return append(ops, session.Delete(path, session.AnyVersion)), nil
}
