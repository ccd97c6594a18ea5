package queue

import (
	"cmp"
	"context"
	"fmt"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// ResetJob gives a job a state with its message, the last successful state, unless it is "", and a priority, whatever
// the table has, for a caller whose record decides. version is that of the status that the caller has read. The error
// is ErrLocked while a worker has the job, and ErrChanged if the status was written since.
func (q *Queue) ResetJob(ctx context.Context, id layout.JobID, version int32, want layout.JobStatus,
	priority int) error {
	j, err := q.Job(ctx, id)
	if err != nil {
		return err
	}
	if err := unchanged("job "+string(id), j.Locked, j.Version, version); err != nil {
		return err
	}
	next := j.Status
	next.Status, next.Message, next.Last = want.Status, want.Message, cmp.Or(want.Last, next.Last)
	_, err = q.moveJob(ctx, j, next, Results{Priority: &priority}, session.Absent(id.Lock()))
	return err
}

// ResetBatch gives a batch a state with its message, as ResetJob.
func (q *Queue) ResetBatch(ctx context.Context, id layout.BatchID, version int32, want layout.BatchStatus) error {
	b, err := q.Batch(ctx, id)
	if err != nil {
		return err
	}
	if err := unchanged("batch "+string(id), b.Locked, b.Version, version); err != nil {
		return err
	}
	next := b.Status
	next.Status, next.Message = want.Status, want.Message
	p := q.Plan()
	if err := p.Batch(ctx, b, next, Free); err != nil {
		return err
	}
	_, err = q.changeBatch(ctx, b, next, p.ops[1:]...)
	return err
}

// ResetRequest gives an access request a state with its message, as ResetJob.
func (q *Queue) ResetRequest(ctx context.Context, in layout.Queue, id layout.AccessID, version int32,
	want layout.BatchStatus) error {
	r, err := q.Request(ctx, in, id)
	if err != nil {
		return err
	}
	if err := unchanged("access request "+string(id), r.Locked, r.Version, version); err != nil {
		return err
	}
	next := r.Status
	next.Status, next.Message = want.Status, want.Message
	_, err = q.setRequest(ctx, r, next, session.Absent(in.Lock(id))...)
	return err
}

// unchanged returns why a record cannot be reset, or nil.
func unchanged(what string, locked bool, version, seen int32) error {
	switch {
	case locked:
		return fmt.Errorf("%s: %w", what, ErrLocked)
	case version != seen:
		return fmt.Errorf("%s: %w", what, ErrChanged)
	}
	return nil
}
