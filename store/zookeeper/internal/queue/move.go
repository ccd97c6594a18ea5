package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// Results are what a phase writes with the end of its work. Nil fields do not change.
type Results struct {
	Priority      *int
	Space         *int64
	Configuration layout.Object
	Identifiers   *layout.Identifiers
	Store         *layout.Stored
	Inventory     *layout.Stored
}

// SucceedJob moves a job that the caller holds to the state after the success of its state, with the results of the
// work, and removes the lock. The error is ErrChanged if the caller no longer holds it.
func (q *Queue) SucceedJob(ctx context.Context, j *Job, r Results) (*Job, error) {
	to, ok := layout.JobTable.Success(j.Status.Status)
	if !ok {
		return nil, notAllowed(string(j.ID), j.Status.Status, "success")
	}
	next := j.Status
	next.Last, next.Status, next.Message = j.Status.Status, to, layout.MessageSuccess
	return q.endWork(ctx, j, next, r)
}

// FailJob moves a job that the caller holds to Failed, and removes the lock. The last successful state remains.
func (q *Queue) FailJob(ctx context.Context, j *Job, message string) (*Job, error) {
	to, ok := layout.JobTable.Failure(j.Status.Status)
	if !ok {
		return nil, notAllowed(string(j.ID), j.Status.Status, layout.Failed)
	}
	next := j.Status
	next.Status, next.Message = to, message
	return q.endWork(ctx, j, next, Results{})
}

// holdByCollection holds a pending job whose collection is locked, as the original does when a worker acquires it. A
// job that another client changed meanwhile, and one whose collection is no longer locked, remain.
func (q *Queue) holdByCollection(ctx context.Context, j *Job) error {
	next := j.Status
	next.Status, next.Message = layout.Held, ""
	locked := session.Check(layout.CollectionLock(j.Profile()), session.AnyVersion)
	_, err := q.moveJob(ctx, j, next, Results{}, append(session.Absent(j.ID.Lock()), locked))
	if errors.Is(err, ErrChanged) {
		return nil
	}
	return err
}

// endWork is a change by the holder of the lock that ends its work.
func (q *Queue) endWork(ctx context.Context, j *Job, next layout.JobStatus, r Results) (*Job, error) {
	lock := []session.Op{holding(j.ID.Lock()), session.Delete(j.ID.Lock(), lockVersion)}
	return q.moveJob(ctx, j, next, r, lock)
}

// moveJob moves a job in one multi: the status, the queue entry, the reference of its batch, and further operations. If
// the entry or the reference is not where the status and the priority have it (the priority was changed meanwhile, or
// another library crashed between its writes), it is repaired, and the change is made once more.
func (q *Queue) moveJob(ctx context.Context, j *Job, next layout.JobStatus, r Results, more []session.Op) (*Job,
	error) {
	after, err := q.tryMove(ctx, j, next, r, more)
	switch at := refusedAt(err); {
	case err == nil || at == "":
		return after, err
	case at == j.ID.Status() || at == j.ID.Lock():
		return nil, err
	}
	fresh, rerr := q.Job(ctx, j.ID)
	if rerr != nil || fresh.Version != j.Version {
		return nil, errors.Join(err, rerr)
	}
	if rerr := q.repairJob(ctx, fresh); rerr != nil {
		return nil, errors.Join(err, rerr)
	}
	if fresh.Outside { // the repair has written the priority
		if fresh, rerr = q.Job(ctx, j.ID); rerr != nil {
			return nil, errors.Join(err, rerr)
		}
	}
	return q.tryMove(ctx, fresh, next, r, more)
}

func (q *Queue) tryMove(ctx context.Context, j *Job, next layout.JobStatus, r Results, more []session.Op) (*Job,
	error) {
	next.Modified = q.now()
	to, ops, err := q.moved(ctx, j, next, r)
	if err != nil {
		return nil, err
	}
	after, err := q.setJob(ctx, j, next, append(append([]session.Op{}, more...), ops...))
	if err != nil {
		return nil, err
	}
	to.Status, to.Version, to.Locked = after.Status, after.Version, false
	return to, nil
}

// moved returns a job after a change of its status and the results of its work, and the operations that write all of it
// but the status: the results, the queue entry and the reference of its batch.
func (q *Queue) moved(ctx context.Context, j *Job, next layout.JobStatus, r Results) (*Job, []session.Op, error) {
	to := *j
	to.Status, to.entry = next, ""
	ops, err := q.results(ctx, &to, r)
	if err != nil {
		return nil, nil, err
	}
	if r.Priority == nil && j.priorityVersion >= 0 {
		ops = append(ops, session.Check(j.ID.Priority(), j.priorityVersion))
	}
	if old, entry := j.Entry(), to.Entry(); old != entry {
		ops = append(ops, session.Delete(old, session.AnyVersion), session.Create(entry, nil))
	}
	refs, err := q.rereference(ctx, j, next.Status)
	return &to, append(ops, refs...), err
}

// rereference returns the operations that move the reference of the batch to a job whose state changes. A batch that
// does not exist has none.
func (q *Queue) rereference(ctx context.Context, j *Job, to layout.Status) ([]session.Op, error) {
	from, dir := j.Status.Status.BatchDir(), to.BatchDir()
	if from == dir {
		return nil, nil
	}
	all, err := q.nodes(ctx, j.Batch.Path(), j.Batch.Dir(dir))
	if err != nil || !all[0].exists {
		return nil, err
	}
	ops := []session.Op{session.Delete(j.Batch.Reference(from, j.ID), session.AnyVersion)}
	if !all[1].exists {
		ops = append(ops, session.Create(j.Batch.Dir(dir), nil))
	}
	return append(ops, session.Create(j.Batch.Reference(dir, j.ID), nil)), nil
}

// results returns the operations that write the results, and sets them in the job.
func (q *Queue) results(ctx context.Context, j *Job, r Results) (ops []session.Op, err error) {
	write := map[string][]byte{}
	if r.Priority != nil {
		j.Priority = layout.ClampPriority(*r.Priority)
		write[j.ID.Priority()] = layout.FormatInt(int64(j.Priority))
	}
	if r.Space != nil {
		j.Space = max(*r.Space, 0)
		write[j.ID.Space()] = layout.FormatInt(*r.Space)
	}
	if r.Configuration != nil {
		j.Configuration = r.Configuration
		write[j.ID.Configuration()] = r.Configuration.Encode()
	}
	if r.Identifiers != nil {
		j.Identifiers = *r.Identifiers
		write[j.ID.Identifiers()] = r.Identifiers.Encode()
	}
	if r.Store != nil {
		write[j.ID.Store()] = r.Store.EncodeStore()
	}
	if r.Inventory != nil {
		write[j.ID.Inventory()] = r.Inventory.EncodeInventory()
	}
	for path, data := range write {
		st, err := q.s.Stat(ctx, path)
		switch {
		case isMissing(err):
			ops = append(ops, session.Create(path, data))
		case err != nil:
			return nil, err
		default:
			ops = append(ops, session.Set(path, data, st.Version))
		}
	}
	return ops, nil
}

// administer is a change by an operator of a job that no worker holds.
func (q *Queue) administer(ctx context.Context, id layout.JobID, change func(*Job) (layout.JobStatus, error)) (*Job,
	error) {
	j, err := q.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	next, err := change(j)
	if err != nil {
		return nil, err
	}
	after, err := q.moveJob(ctx, j, next, Results{}, session.Absent(id.Lock()))
	if refusedAt(err) == id.Lock() {
		return nil, fmt.Errorf("job %s: %w", id, ErrLocked)
	}
	return after, err
}

// to returns a change to a state that the table allows from the state of the job.
func to(state layout.Status) func(*Job) (layout.JobStatus, error) {
	return func(j *Job) (layout.JobStatus, error) {
		next, from := j.Status, j.Status.Status
		if !layout.JobTable.Allowed(from, state) && (from != layout.Completed || state != layout.Deleted) {
			return next, notAllowed(string(j.ID), from, state)
		}
		next.Status, next.Message = state, ""
		return next, nil
	}
}

// HoldJob holds a pending job.
func (q *Queue) HoldJob(ctx context.Context, id layout.JobID) (*Job, error) {
	return q.administer(ctx, id, to(layout.Held))
}

// ReleaseHeldJob moves a held job to Pending.
func (q *Queue) ReleaseHeldJob(ctx context.Context, id layout.JobID) (*Job, error) {
	return q.administer(ctx, id, func(j *Job) (layout.JobStatus, error) {
		if from := j.Status.Status; from != layout.Held {
			return j.Status, notAllowed(string(id), from, layout.Pending)
		}
		return to(layout.Pending)(j)
	})
}

// RequeueJob moves a failed job to the state after its last successful one, and counts the retry.
func (q *Queue) RequeueJob(ctx context.Context, id layout.JobID) (*Job, error) {
	return q.administer(ctx, id, func(j *Job) (layout.JobStatus, error) {
		next := j.Status
		if next.Status != layout.Failed {
			return next, notAllowed(string(id), next.Status, layout.Resume(next.Last))
		}
		next.Status, next.Message = layout.Resume(next.Last), ""
		next.Retries++
		return next, nil
	})
}

// DeleteJob moves a held, failed or completed job to Deleted: a tombstone, until PurgeJob removes it.
func (q *Queue) DeleteJob(ctx context.Context, id layout.JobID) (*Job, error) {
	return q.administer(ctx, id, to(layout.Deleted))
}

// StopJob moves a job in a phase of work to Failed, with or without a worker, and removes its lock and the locks of its
// object in storage and inventory. The worker that had the lock is refused afterwards.
func (q *Queue) StopJob(ctx context.Context, id layout.JobID, message string) (after *Job, err error) {
	for range 3 { // a lock may be taken or removed meanwhile
		var j *Job
		if j, err = q.Job(ctx, id); err != nil {
			return nil, err
		}
		if !j.Status.Status.Active() {
			return nil, notAllowed(string(id), j.Status.Status, layout.Failed)
		}
		var locks []session.Op
		if locks, err = q.locksOf(ctx, j); err != nil {
			return nil, err
		}
		next := j.Status
		next.Status, next.Message = layout.Failed, message
		if after, err = q.moveJob(ctx, j, next, Results{}, locks); !errors.Is(err, ErrChanged) {
			return after, err
		}
	}
	return nil, err
}

// locksOf returns the operations that remove the lock of a job and those of its object, as far as they exist.
func (q *Queue) locksOf(ctx context.Context, j *Job) (ops []session.Op, err error) {
	locks := []string{j.ID.Lock()}
	if ark := j.Identifiers.Primary; ark != "" {
		locks = append(locks, layout.StorageLock(ark), layout.InventoryLock(ark))
	}
	all, err := q.nodes(ctx, locks...)
	for i, lock := range locks {
		if all[i].exists {
			ops = append(ops, session.Delete(lock, session.AnyVersion))
		}
	}
	return ops, err
}

// SetPriority changes the priority of a job, which a worker may hold. The priority is clamped to 0..99.
func (q *Queue) SetPriority(ctx context.Context, id layout.JobID, priority int) error {
	priority = layout.ClampPriority(priority)
	for range 3 {
		j, err := q.Job(ctx, id)
		if err != nil {
			return err
		}
		entry := j.Status.Status.Entry(priority, id)
		ops, err := q.results(ctx, j, Results{Priority: &priority})
		if err != nil {
			return err
		}
		old, err := q.entries(ctx, id, j.Status.Status)
		if err != nil {
			return err
		}
		for _, o := range old {
			if o != entry {
				ops = append(ops, session.Delete(o, session.AnyVersion))
			}
		}
		if !slices.Contains(old, entry) {
			ops = append(ops, session.Create(entry, nil))
		}
		ops = append(ops, session.Check(id.Status(), j.Version))
		err = q.s.Multi(ctx, ops...)
		if err == nil || refusedAt(err) == "" && session.KindOf(err) != session.Unknown {
			return err
		}
	}
	return fmt.Errorf("job %s: %w", id, ErrChanged)
}

// entries returns the queue entries of a job in a state.
func (q *Queue) entries(ctx context.Context, id layout.JobID, state layout.Status) (all []string, err error) {
	names, _, err := q.children(ctx, state.Queue())
	for _, name := range names {
		if _, j, ok := layout.ParseEntry(name); ok && j == id {
			all = append(all, state.Queue()+"/"+name)
		}
	}
	return all, err
}
