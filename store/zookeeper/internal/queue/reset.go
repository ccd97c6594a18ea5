package queue

import (
	"context"
	"fmt"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// ResetJob gives a job a state and a priority, whatever the table has, for a caller whose record decides. The error is
// ErrLocked while a worker has it.
func (q *Queue) ResetJob(ctx context.Context, id layout.JobID, state layout.Status, priority int) error {
	j, err := q.Job(ctx, id)
	if err != nil {
		return err
	}
	if j.Locked {
		return fmt.Errorf("job %s: %w", id, ErrLocked)
	}
	next := j.Status
	next.Status = state
	_, err = q.moveJob(ctx, j, next, Results{Priority: &priority}, session.Absent(id.Lock()))
	return err
}

// ResetBatch gives a batch a state, as ResetJob.
func (q *Queue) ResetBatch(ctx context.Context, id layout.BatchID, state layout.Status) error {
	b, err := q.Batch(ctx, id)
	if err != nil {
		return err
	}
	if b.Locked {
		return fmt.Errorf("batch %s: %w", id, ErrLocked)
	}
	next := b.Status
	next.Status = state
	p := q.Plan()
	if err := p.Batch(ctx, b, next, Free); err != nil {
		return err
	}
	_, err = q.changeBatch(ctx, b, next, p.ops[1:]...)
	return err
}

// ResetRequest gives an access request a state, as ResetJob.
func (q *Queue) ResetRequest(ctx context.Context, in layout.Queue, id layout.AccessID, state layout.Status) error {
	r, err := q.Request(ctx, in, id)
	if err != nil {
		return err
	}
	if r.Locked {
		return fmt.Errorf("access request %s: %w", id, ErrLocked)
	}
	next := r.Status
	next.Status = state
	_, err = q.setRequest(ctx, r, next, session.Absent(in.Lock(id))...)
	return err
}
