package queue

import (
	"context"
	"slices"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// repairJob makes the queue entry and the references of a job those that its status and priority have: it removes all
// others, and creates those that are missing. A priority outside of 0..99 becomes the nearest one. The error is
// ErrChanged if the status is no longer that of j.
func (q *Queue) repairJob(ctx context.Context, j *Job) error {
	entry := j.Status.Status.Entry(j.Priority, j.ID)
	entries, err := q.allEntries(ctx, j.ID)
	if err != nil {
		return err
	}
	var ops []session.Op
	found := false
	for _, e := range entries {
		if e == entry {
			found = true
			continue
		}
		ops = append(ops, session.Delete(e, session.AnyVersion))
	}
	if !found {
		ops = append(ops, session.Create(entry, nil))
	}
	refs, err := q.repairReferences(ctx, j)
	if err != nil {
		return err
	}
	ops = append(ops, refs...)
	if j.Outside {
		ops = append(ops, session.Set(j.ID.Priority(), layout.FormatInt(int64(j.Priority)), j.priorityVersion))
	}
	if len(ops) == 0 {
		return nil
	}
	ops = append(ops, session.Check(j.ID.Status(), j.Version))
	err = q.s.Multi(ctx, ops...)
	if session.KindOf(err) == session.Unknown {
		err = q.s.Multi(ctx, ops...)
	}
	if at := refusedAt(err); at != "" && at != j.ID.Status() {
		return nil // another client has repaired it, or does
	}
	return err
}

// allEntries returns the queue entries of a job in all states.
func (q *Queue) allEntries(ctx context.Context, id layout.JobID) ([]string, error) {
	found := make([][]string, len(layout.JobStatuses))
	err := each(len(found), func(i int) (err error) {
		found[i], err = q.entries(ctx, id, layout.JobStatuses[i])
		return err
	})
	return slices.Concat(found...), err
}

// repairReferences returns the operations that make the references of the batch to a job those of its status.
func (q *Queue) repairReferences(ctx context.Context, j *Job) (ops []session.Op, err error) {
	if _, err := q.s.Stat(ctx, j.Batch.Path()); isMissing(err) {
		return nil, nil
	}
	dir := j.Status.Status.BatchDir()
	want := j.Batch.Reference(dir, j.ID)
	refs, err := q.references(ctx, j)
	if err != nil {
		return nil, err
	}
	found := false
	for _, ref := range refs {
		if ref == want {
			found = true
			continue
		}
		ops = append(ops, session.Delete(ref, session.AnyVersion))
	}
	if found {
		return ops, nil
	}
	all, err := q.nodes(ctx, j.Batch.States(), j.Batch.Dir(dir))
	if err != nil {
		return nil, err
	}
	if !all[0].exists {
		ops = append(ops, session.Create(j.Batch.States(), nil))
	}
	if !all[1].exists {
		ops = append(ops, session.Create(j.Batch.Dir(dir), nil))
	}
	return append(ops, session.Create(want, nil)), nil
}
