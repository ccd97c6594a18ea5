package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// PurgeJob removes the nodes of a job that is completed or deleted. The error is ErrLocked if a worker holds it.
func (q *Queue) PurgeJob(ctx context.Context, id layout.JobID) error {
	j, err := q.Job(ctx, id)
	if err != nil {
		return err
	}
	if !j.Status.Status.Deletable() {
		return fmt.Errorf("job %s is %s: %w", id, j.Status.Status, ErrNotAllowed)
	}
	return q.purgeJob(ctx, j)
}

// purgeJob removes the nodes of a job in one multi: its queue entries, its references, its node. Only if its entry is
// not where its status and priority have it, all queues are searched.
func (q *Queue) purgeJob(ctx context.Context, j *Job) error {
	if j.Locked {
		return fmt.Errorf("job %s: %w", j.ID, ErrLocked)
	}
	err := q.purgeEntries(ctx, j, []string{j.Entry()})
	if refusedAt(err) != j.Entry() {
		return err
	}
	entries, err := q.allEntries(ctx, j.ID)
	if err != nil {
		return err
	}
	return q.purgeEntries(ctx, j, entries)
}

func (q *Queue) purgeEntries(ctx context.Context, j *Job, entries []string) error {
	refs, err := q.references(ctx, j)
	if err != nil {
		return err
	}
	below, err := q.removal(ctx, j.ID.Path())
	if err != nil {
		return err
	}
	ops := []session.Op{session.Check(j.ID.Status(), j.Version)}
	for _, path := range append(entries, refs...) {
		ops = append(ops, session.Delete(path, session.AnyVersion))
	}
	return q.purge(ctx, j.ID.Path(), append(ops, below...))
}

// purge removes a record. The error is ErrChanged if it changed meanwhile.
func (q *Queue) purge(ctx context.Context, path string, ops []session.Op) error {
	err := q.s.Apply(ctx, ops, func(ctx context.Context) (session.Outcome, error) {
		_, err := q.s.Stat(ctx, path)
		if isMissing(err) {
			return session.Made, nil
		}
		return session.NotMade, err
	})
	if refusedAt(err) != "" {
		return fmt.Errorf("%s: %w: %w", path, ErrChanged, err)
	}
	return err
}

// references returns the references of the batch to a job.
func (q *Queue) references(ctx context.Context, j *Job) (all []string, err error) {
	paths := make([]string, len(layout.BatchDirs))
	for i, d := range layout.BatchDirs {
		paths[i] = j.Batch.Reference(d, j.ID)
	}
	nodes, err := q.nodes(ctx, paths...)
	for i, n := range nodes {
		if n.exists {
			all = append(all, paths[i])
		}
	}
	return all, err
}

// PurgeBatch removes a completed or deleted batch: first its jobs, each at once, then the batch. It may be repeated
// after a crash. Failed and held jobs go with a deleted batch. The error is ErrUnfinished if a job is not to be
// removed: then the batch remains.
func (q *Queue) PurgeBatch(ctx context.Context, id layout.BatchID) error {
	b, err := q.Batch(ctx, id)
	if err != nil {
		return err
	}
	if !b.Status.Status.Deletable() {
		return fmt.Errorf("batch %s is %s: %w", id, b.Status.Status, ErrNotAllowed)
	}
	if b.Locked {
		return fmt.Errorf("batch %s: %w", id, ErrLocked)
	}
	var unfinished error
	for _, d := range layout.BatchDirs {
		names, _, err := q.children(ctx, id.Dir(d))
		if err != nil {
			return err
		}
		for _, name := range names {
			err := q.purgeOf(ctx, b, layout.JobID(name), id.Dir(d)+"/"+name)
			if err != nil && !errors.Is(err, ErrUnfinished) {
				return err
			}
			unfinished = errors.Join(unfinished, err)
		}
	}
	if unfinished != nil {
		return unfinished
	}
	below, err := q.removal(ctx, id.Path())
	if err != nil {
		return err
	}
	ops := []session.Op{session.Check(id.Status(), b.Version)}
	if uuid := b.Submission.Text(layout.KeyBatchID); uuid != "" {
		if found, err := q.FindBatch(ctx, uuid); err == nil && found == id {
			ops = append(ops, session.Delete(layout.UUID(uuid), session.AnyVersion))
		} else if err != nil && !unusable(err) {
			return err
		}
	}
	return q.purge(ctx, id.Path(), append(ops, below...))
}

// purgeOf removes a job of a batch that is removed, or a reference to a job that does not exist.
func (q *Queue) purgeOf(ctx context.Context, b *Batch, id layout.JobID, ref string) error {
	if !id.Valid() {
		return q.drop(ctx, ref)
	}
	j, err := q.Job(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return q.drop(ctx, ref)
	}
	if err != nil {
		return err
	}
	state := j.Status.Status
	abandoned := b.Status.Status == layout.Deleted && (state == layout.Failed || state == layout.Held)
	if !state.Deletable() && !abandoned {
		return fmt.Errorf("job %s is %s: %w", id, state, ErrUnfinished)
	}
	return q.purgeJob(ctx, j)
}

// Cleanup removes the batches that are completed or deleted and have no unfinished job, with their jobs. It returns
// their number, and those that could not be removed.
func (q *Queue) Cleanup(ctx context.Context) (removed int, bad []Bad, err error) {
	ids, bad, err := q.BatchIDs(ctx)
	if err != nil {
		return 0, nil, err
	}
	for _, id := range ids {
		b, err := q.Batch(ctx, id)
		if unusable(err) {
			bad = append(bad, Bad{id.Path(), err})
			continue
		}
		if err != nil {
			return removed, bad, err
		}
		if !b.Status.Status.Deletable() {
			continue
		}
		switch err := q.PurgeBatch(ctx, id); {
		case err == nil:
			removed++
		case errors.Is(err, ErrUnfinished), errors.Is(err, ErrLocked), errors.Is(err, ErrChanged), unusable(err):
			bad = append(bad, Bad{id.Path(), err})
		default:
			return removed, bad, err
		}
	}
	return removed, bad, nil
}

// PurgeRequest removes the nodes of an access request that is completed or deleted.
func (q *Queue) PurgeRequest(ctx context.Context, in layout.Queue, id layout.AccessID) error {
	r, err := q.Request(ctx, in, id)
	if err != nil {
		return err
	}
	if !r.Status.Status.Deletable() {
		return fmt.Errorf("access request %s is %s: %w", id, r.Status.Status, ErrNotAllowed)
	}
	if r.Locked {
		return fmt.Errorf("access request %s: %w", id, ErrLocked)
	}
	below, err := q.removal(ctx, in.Request(id))
	if err != nil {
		return err
	}
	return q.purge(ctx, in.Request(id), append([]session.Op{session.Check(in.Status(id), r.Version)}, below...))
}

// CleanupAccess removes all completed and deleted requests of a queue. It returns as Cleanup.
func (q *Queue) CleanupAccess(ctx context.Context, in layout.Queue) (removed int, bad []Bad, err error) {
	ids, bad, err := q.Requests(ctx, in)
	for _, id := range ids {
		switch err := q.PurgeRequest(ctx, in, id); {
		case err == nil:
			removed++
		case errors.Is(err, ErrNotAllowed), errors.Is(err, ErrNotFound):
		case errors.Is(err, ErrLocked), errors.Is(err, ErrChanged), unusable(err):
			bad = append(bad, Bad{in.Request(id), err})
		default:
			return removed, bad, err
		}
	}
	return removed, bad, err
}
