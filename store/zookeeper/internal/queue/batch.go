package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// Batch is a batch as it was read.
type Batch struct {
	ID         layout.BatchID
	Status     layout.BatchStatus
	Version    int32     // of the status node: the fencing token of the holder of the lock
	Since      time.Time // when the status node was written, by the clock of the servers
	Submission layout.Object
	States     bool // the directory of references exists
	Locked     bool
	Holder     int64 // session of the holder of the lock; 0: none
}

// CreateBatch creates a batch in Pending. The error is ErrExists if the batchID of the submission has a batch.
func (q *Queue) CreateBatch(ctx context.Context, submission layout.Object) (*Batch, error) {
	if err := layout.CheckSubmission(submission); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	uuid := submission.Text(layout.KeyBatchID)
	status := layout.BatchStatus{Status: layout.Pending, Modified: q.now()}
	op := mark(&status, q.operation())
	for numbers := (numbering{}); ; {
		n, err := numbers.next(ctx, q, layout.Batches)
		if err != nil {
			return nil, err
		}
		id := layout.BatchID(layout.Sequence(layout.BatchPrefix, n))
		ops := []session.Op{session.Create(id.Path(), nil)}
		if uuid != "" {
			ops = append(ops, session.Create(layout.UUID(uuid), []byte(id)))
		}
		ops = append(ops, session.Create(id.Submission(), submission.Encode()),
			session.Create(id.Status(), status.Encode()))
		err = q.s.Apply(ctx, ops, q.foundIn(id.Status(), op, 0, false))
		switch {
		case err == nil:
			return q.Batch(ctx, id)
		case refusedAt(err) == id.Path() && session.KindOf(err) == session.NodeExists:
			if err := q.s.Sync(ctx); err != nil { // another batch took the number
				return nil, err
			}
		case uuid != "" && refusedAt(err) == layout.UUID(uuid):
			return nil, fmt.Errorf("batch %s: %w", uuid, ErrExists)
		default:
			return nil, err
		}
	}
}

// mark sets the id of an operation in a status, and returns it.
func mark(s *layout.BatchStatus, op string) string {
	s.Other = s.Other.Clone()
	s.Other.Set(layout.KeyOperation, op)
	return op
}

// foundIn reports what became of an operation that sets the status node at a version, or creates it.
func (q *Queue) foundIn(status, op string, version int32, sets bool) func(context.Context) (session.Outcome, error) {
	return func(ctx context.Context) (session.Outcome, error) {
		n, err := q.s.Get(ctx, status)
		if isMissing(err) && !sets {
			return session.NotMade, nil
		}
		if err != nil {
			return session.Changed, err
		}
		o, err := layout.ParseObject(n.Data)
		switch {
		case err == nil && o.Text(layout.KeyOperation) == op:
			return session.Made, nil
		case sets && n.Stat.Version == version:
			return session.NotMade, nil
		}
		return session.Changed, nil
	}
}

// FindBatch returns the batch of a batchID of a submission, or ErrNotFound.
func (q *Queue) FindBatch(ctx context.Context, uuid string) (layout.BatchID, error) {
	n, err := q.s.Get(ctx, layout.UUID(uuid))
	if isMissing(err) {
		return "", fmt.Errorf("batch %s: %w", uuid, ErrNotFound)
	}
	if err != nil {
		return "", err
	}
	id, err := layout.ParseID[layout.BatchID](n.Data)
	if err != nil {
		return "", malformed(layout.UUID(uuid), err)
	}
	return id, nil
}

// Batch reads a batch. The error is ErrNotFound or ErrMalformed if it cannot be read.
func (q *Queue) Batch(ctx context.Context, id layout.BatchID) (*Batch, error) {
	all, err := q.nodes(ctx, id.Status(), id.Submission(), id.States(), id.Lock())
	if err != nil {
		return nil, err
	}
	status, submission := all[0], all[1]
	b := &Batch{ID: id, States: all[2].exists, Locked: all[3].exists, Holder: all[3].Stat.Owner, Version: status.Stat.Version,
		Since: status.Stat.Modified}
	if !status.exists {
		if _, err := q.s.Stat(ctx, id.Path()); isMissing(err) {
			return nil, fmt.Errorf("batch %s: %w", id, ErrNotFound)
		}
		return nil, malformed(id.Path(), errors.New("it has no status"))
	}
	if b.Status, err = layout.ParseBatchStatus(status.Data); err != nil {
		return nil, malformed(id.Status(), err)
	}
	if b.Submission, err = layout.ParseObject(submission.Data); err != nil {
		return nil, malformed(id.Submission(), err)
	}
	return b, nil
}

// BatchIDs returns the ids of all batches, the oldest first, and the names below /batches that are none.
func (q *Queue) BatchIDs(ctx context.Context) (ids []layout.BatchID, bad []Bad, err error) {
	names, _, err := q.children(ctx, layout.Batches)
	slices.Sort(names)
	for _, name := range names {
		if id := layout.BatchID(name); id.Valid() {
			ids = append(ids, id)
		} else {
			bad = append(bad, Bad{id.Path(), ErrMalformed})
		}
	}
	return ids, bad, err
}

// AcquireBatch locks the oldest pending batch that is not locked, and moves it to Processing. It returns nil if there
// is none, and the batches that could not be read.
func (q *Queue) AcquireBatch(ctx context.Context) (*Batch, []Bad, error) {
	return q.acquireBatch(ctx, func(b *Batch) bool {
		return b.Status.Status == layout.Pending && !b.States
	}, func(b *Batch, next *layout.BatchStatus) []session.Op {
		next.Status = layout.Processing
		return []session.Op{session.Create(b.ID.States(), nil)}
	})
}

// AcquireForReporting locks a batch whose jobs have all ended, and moves it to Reporting: one in Processing or
// Reporting whose directory of unfinished jobs exists and is empty. If the number of jobs was recorded, all must exist.
// If not, the directory must have been empty for the time of [Options.Settle]. It returns as AcquireBatch.
func (q *Queue) AcquireForReporting(ctx context.Context) (*Batch, []Bad, error) {
	return q.acquireSettled(ctx, layout.Reporting, layout.Processing, layout.Reporting)
}

// AcquireForUpdate locks a batch in UpdateReporting whose jobs have all ended. It returns as AcquireBatch.
func (q *Queue) AcquireForUpdate(ctx context.Context) (*Batch, []Bad, error) {
	return q.acquireSettled(ctx, layout.UpdateReporting, layout.UpdateReporting)
}

func (q *Queue) acquireSettled(ctx context.Context, to layout.Status, from ...layout.Status) (*Batch, []Bad, error) {
	var failed error
	b, bad, err := q.acquireBatch(ctx, func(b *Batch) bool {
		if failed != nil || !slices.Contains(from, b.Status.Status) || !b.States {
			return false
		}
		c, err := q.Count(ctx, b.ID)
		if err != nil {
			failed = err
			return false
		}
		expected, recorded := b.Status.Expected()
		return c.InProcess == 0 && c.Made && (q.emptySince(b.ID, c) && !recorded || recorded && c.All() == expected)
	}, func(b *Batch, next *layout.BatchStatus) []session.Op {
		next.Status = to
		return session.Childless(b.ID.Dir(layout.InProcess))
	})
	return b, bad, errors.Join(err, failed)
}

// emptySince reports whether the directory of unfinished jobs of a batch, which is empty, was so in an earlier call,
// long enough ago, and no reference was created since.
func (q *Queue) emptySince(id layout.BatchID, c Counts) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	before, seen := q.empty[id]
	if !seen || before.total != c.Total {
		q.empty[id] = emptied{c.Total, time.Now()}
		return false
	}
	return time.Since(before.since) >= q.settled
}

// acquireBatch locks the first batch that fits. change changes its status, and returns further operations.
func (q *Queue) acquireBatch(ctx context.Context, fits func(*Batch) bool,
	change func(*Batch, *layout.BatchStatus) []session.Op) (*Batch, []Bad, error) {
	ids, bad, err := q.BatchIDs(ctx)
	if err != nil {
		return nil, nil, err
	}
	for part := range slices.Chunk(ids, atOnce) {
		batches := make([]*Batch, len(part))
		faults := make([]error, len(part))
		err := each(len(part), func(i int) error {
			batches[i], faults[i] = q.Batch(ctx, part[i])
			if unusable(faults[i]) {
				return nil
			}
			return faults[i]
		})
		if err != nil {
			return nil, bad, err
		}
		for i, b := range batches {
			if errors.Is(faults[i], ErrMalformed) {
				bad = append(bad, Bad{part[i].Path(), faults[i]})
			}
			if b == nil || b.Locked || !fits(b) {
				continue
			}
			next := b.Status
			ops := append(change(b, &next), session.Absent(layout.IngestPaused)...)
			got, err := q.changeBatch(ctx, b, next, append(lockOps(b.ID.Lock()), ops...)...)
			switch {
			case err == nil:
				return got, bad, nil
			case refusedAt(err) == layout.IngestPaused:
				return nil, bad, ErrPaused
			case errors.Is(err, ErrChanged): // another client has it
			default:
				return nil, bad, err
			}
		}
	}
	return nil, bad, nil
}

// changeBatch sets the status of a batch with further operations. The error is ErrChanged if the status, or a node of
// the operations, is not as expected; it names the node.
func (q *Queue) changeBatch(ctx context.Context, b *Batch, next layout.BatchStatus, ops ...session.Op) (*Batch, error) {
	next.Modified = q.now()
	op := mark(&next, q.operation())
	// first, so that a write whose version is old is refused for that reason
	all := append([]session.Op{session.Set(b.ID.Status(), next.Encode(), b.Version)}, ops...)
	if err := q.s.Apply(ctx, all, q.foundIn(b.ID.Status(), op, b.Version, true)); err != nil {
		if refusedAt(err) != "" {
			return nil, fmt.Errorf("batch %s: %w: %w", b.ID, ErrChanged, err)
		}
		return nil, err
	}
	after := *b
	after.Status, after.Version = next, b.Version+1
	return &after, nil
}

// holding are the operations that require the lock of the caller.
func holding(lock string) session.Op { return session.Check(lock, lockVersion) }

// ReleaseBatch removes the lock of a batch that the caller holds.
func (q *Queue) ReleaseBatch(ctx context.Context, b *Batch) error {
	return q.unlock(ctx, b.ID.Lock(), b.ID.Status(), b.Version)
}

// unlock removes a lock of the caller. The error is ErrChanged if the lock or the status is another's.
func (q *Queue) unlock(ctx context.Context, lock, status string, version int32) error {
	ops := []session.Op{session.Check(status, version), session.Delete(lock, lockVersion)}
	err := q.s.Apply(ctx, ops, func(ctx context.Context) (session.Outcome, error) {
		st, err := q.s.Stat(ctx, lock)
		switch {
		case isMissing(err):
			return session.Made, nil
		case err == nil && st.Owner == q.s.ID():
			return session.NotMade, nil
		}
		return session.Changed, err
	})
	if refusedAt(err) != "" {
		return fmt.Errorf("%s: %w: %w", lock, ErrChanged, err)
	}
	return err
}

// Counts are the numbers of the jobs of a batch, by its references.
type Counts struct {
	Made                                  bool  // the directory of unfinished jobs exists
	Total                                 int64 // references that it ever had
	InProcess, Completed, Failed, Deleted int
}

// All returns the number of all jobs.
func (c Counts) All() int { return c.InProcess + c.Completed + c.Failed + c.Deleted }

// Count counts the jobs of a batch.
func (q *Queue) Count(ctx context.Context, id layout.BatchID) (c Counts, err error) {
	numbers := make([]int, len(layout.BatchDirs))
	err = each(len(numbers), func(i int) error {
		st, err := q.s.Stat(ctx, id.Dir(layout.BatchDirs[i]))
		if isMissing(err) {
			return nil
		}
		if layout.BatchDirs[i] == layout.InProcess {
			c.Made, c.Total = err == nil, st.Made
		}
		numbers[i] = st.Children
		return err
	})
	c.InProcess, c.Completed, c.Failed, c.Deleted = numbers[0], numbers[1], numbers[2], numbers[3]
	return c, err
}
