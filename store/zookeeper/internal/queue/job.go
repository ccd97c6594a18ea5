package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// Job is a job as it was read.
type Job struct {
	ID            layout.JobID
	Batch         layout.BatchID
	Priority      int
	Outside       bool  // the node has a priority that is not within 0..99, or is none: Priority is the nearest one
	Space         int64 // bytes of working space; 0: unknown
	Configuration layout.Object
	Identifiers   layout.Identifiers
	Status        layout.JobStatus
	Version       int32     // of the status node: the fencing token of the holder of the lock
	Since         time.Time // when the status node was written, by the clock of the servers
	Locked        bool
	Holder        int64 // session of the holder of the lock; 0: none

	entry string // its queue entry as it was found; "": under its status and priority
	// version of the node of the priority, -1 if there is none
	priorityVersion int32
}

// Entry returns the path of the queue entry of the job.
func (j *Job) Entry() string {
	if j.entry != "" {
		return j.entry
	}
	return j.Status.Status.Entry(j.Priority, j.ID)
}

// defaultPriority is that of a job whose priority cannot be read: the one that the original libraries write first.
const defaultPriority = 5

// Job reads a job. The error is ErrNotFound or ErrMalformed if it cannot be read.
func (q *Queue) Job(ctx context.Context, id layout.JobID) (*Job, error) {
	all, err := q.nodes(ctx, id.Status(), id.Batch(), id.Priority(), id.Space(), id.Configuration(), id.Identifiers(),
		id.Lock())
	if err != nil {
		return nil, err
	}
	status := all[0]
	if !status.exists {
		if _, err := q.s.Stat(ctx, id.Path()); isMissing(err) {
			return nil, fmt.Errorf("job %s: %w", id, ErrNotFound)
		}
		return nil, malformed(id.Path(), errors.New("it has no status"))
	}
	j := &Job{ID: id, Version: status.Stat.Version, Since: status.Stat.Modified, Space: layout.Space(all[3].Data),
		Locked: all[6].exists, Holder: all[6].Stat.Owner}
	if j.Status, err = layout.ParseJobStatus(status.Data); err != nil {
		return nil, malformed(id.Status(), err)
	}
	if j.Batch, err = layout.ParseID[layout.BatchID](all[1].Data); err != nil {
		return nil, malformed(id.Batch(), err)
	}
	p, err := layout.ParseInt(all[2].Data)
	if err != nil {
		p = defaultPriority
	}
	j.Outside = all[2].exists && (err != nil || p < layout.FirstPriority || p > layout.LastPriority)
	j.priorityVersion = all[2].Stat.Version
	if !all[2].exists {
		j.priorityVersion = -1
	}
	j.Priority = layout.ClampPriority(int(min(max(p, layout.FirstPriority), layout.LastPriority)))
	if j.Configuration, err = layout.ParseObject(all[4].Data); err != nil {
		return nil, malformed(id.Configuration(), err)
	}
	if j.Identifiers, err = layout.ParseIdentifiers(all[5].Data); err != nil {
		return nil, malformed(id.Identifiers(), err)
	}
	return j, nil
}

// Stored reads what the nodes store and inventory of a job have. A node that is missing or cannot be read has nothing.
func (q *Queue) Stored(ctx context.Context, id layout.JobID) (store, inventory layout.Stored, err error) {
	all, err := q.nodes(ctx, id.Store(), id.Inventory())
	if err != nil {
		return store, inventory, err
	}
	read := func(n node) layout.Stored {
		s, err := layout.ParseStored(n.Data)
		if err != nil {
			return layout.Stored{}
		}
		return s
	}
	return read(all[0]), read(all[1]), nil
}

// Profile returns the profile of the job, whose collection may be locked.
func (j *Job) Profile() string { return j.Configuration.Text(layout.KeyProfile) }

// NewJob is a job to be created.
type NewJob struct {
	Configuration layout.Object
	Identifiers   layout.Identifiers
	Metadata      *layout.Metadata // nil: no node
	Priority      int
}

// CreateJobs creates jobs of a batch in Processing that the caller holds, all or none, and returns the batch after it.
// expected is the number of all jobs of the batch, also those of later calls; it is recorded, so that the batch is not
// reported before all exist. The error is ErrChanged if the caller no longer holds the batch. Jobs that are too many
// for one request are refused by package session: see [Queue.MostJobs].
func (q *Queue) CreateJobs(ctx context.Context, b *Batch, expected int, jobs ...NewJob) (*Batch, []layout.JobID,
	error) {
	if b.Status.Status != layout.Processing {
		return nil, nil, fmt.Errorf("batch %s is %s: %w", b.ID, b.Status.Status, ErrNotAllowed)
	}
	for i := range jobs {
		if err := layout.CheckConfiguration(jobs[i].Configuration); err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
	}
	for numbers := (numbering{}); ; {
		made, ids, err := q.createJobs(ctx, b, expected, jobs, &numbers)
		switch at := refusedAt(err); {
		case err == nil:
			return made, ids, nil
		case at == b.ID.Status() || at == b.ID.Lock() || at == "":
			return nil, nil, err
		}
		if err := q.s.Sync(ctx); err != nil { // another client took a number or made the directory
			return nil, nil, err
		}
	}
}

func (q *Queue) createJobs(ctx context.Context, b *Batch, expected int, jobs []NewJob,
	numbers *numbering) (*Batch, []layout.JobID, error) {
	first, err := numbers.next(ctx, q, layout.Jobs)
	if err != nil {
		return nil, nil, err
	}
	ops := []session.Op{holding(b.ID.Lock())}
	_, err = q.s.Stat(ctx, b.ID.Dir(layout.InProcess))
	if isMissing(err) {
		ops = append(ops, session.Create(b.ID.Dir(layout.InProcess), nil))
	} else if err != nil {
		return nil, nil, err
	}
	ids := make([]layout.JobID, len(jobs))
	for i := range jobs {
		ids[i] = layout.JobID(layout.Sequence(layout.JobPrefix, first+int64(i)))
		ops = append(ops, q.newJob(b, ids[i], &jobs[i])...)
	}
	next := b.Status
	next.Other = next.Other.Clone()
	next.Other.Set(layout.KeyExpected, expected)
	made, err := q.changeBatch(ctx, b, next, ops...)
	return made, ids, err
}

// newJob returns the operations that create a job.
func (q *Queue) newJob(b *Batch, id layout.JobID, n *NewJob) []session.Op {
	status := layout.JobStatus{Status: layout.Pending, Modified: q.now()}
	priority := layout.ClampPriority(n.Priority)
	ops := []session.Op{
		session.Create(id.Path(), nil),
		session.Create(id.Batch(), []byte(b.ID)),
		session.Create(id.Priority(), layout.FormatInt(int64(priority))),
		session.Create(id.Space(), layout.FormatInt(0)),
		session.Create(id.Configuration(), n.Configuration.Encode()),
		session.Create(id.Identifiers(), n.Identifiers.Encode()),
	}
	if n.Metadata != nil {
		ops = append(ops, session.Create(id.Metadata(), n.Metadata.Encode()))
	}
	return append(ops, session.Create(id.Status(), status.Encode()),
		session.Create(layout.Pending.Entry(priority, id), nil),
		session.Create(b.ID.Reference(layout.InProcess, id), nil))
}

// MostJobs returns how many of the jobs, from the first on, one call of CreateJobs can create: at least one.
func (q *Queue) MostJobs(jobs []NewJob) int {
	const most = session.MostBytes - 64<<10 // the status of the batch
	b := &Batch{ID: layout.BatchID(layout.Sequence(layout.BatchPrefix, 0))}
	size := 0
	for i := range jobs {
		size += session.Size(q.newJob(b, layout.JobID(layout.Sequence(layout.JobPrefix, int64(i))), &jobs[i]))
		if size > most {
			return max(i, 1)
		}
	}
	return len(jobs)
}

// AcquireJob locks the next job of a state that is not locked: that of the best priority, of these the oldest. It
// returns nil if there is none, and the entries that no job can be acquired by. Jobs in Pending whose collection is
// locked are held. The error is ErrPaused while ingest is paused, except for Recording: the original inventory does
// not stop either.
func (q *Queue) AcquireJob(ctx context.Context, state layout.Status) (*Job, []Bad, error) {
	names, _, err := q.children(ctx, state.Queue())
	if err != nil {
		return nil, nil, err
	}
	layout.SortEntries(names)
	var bad []Bad
	for part := 1; len(names) > 0; part = min(4*part, atOnce) {
		n := min(part, len(names))
		j, faults, err := q.acquireOf(ctx, state, names[:n])
		bad = append(bad, faults...)
		if err != nil || j != nil {
			return j, bad, err
		}
		names = names[n:]
	}
	return nil, bad, nil
}

// acquireOf locks the first job of some entries that can be acquired. Jobs that are locked are found at once.
func (q *Queue) acquireOf(ctx context.Context, state layout.Status, names []string) (*Job, []Bad, error) {
	locked := make([]bool, len(names))
	err := each(len(names), func(i int) error {
		_, id, ok := layout.ParseEntry(names[i])
		if !ok {
			return nil
		}
		_, err := q.s.Stat(ctx, id.Lock())
		locked[i] = err == nil
		if isMissing(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	var bad []Bad
	for i, name := range names {
		if locked[i] {
			continue
		}
		j, fault, err := q.candidate(ctx, state, name)
		if fault != nil {
			bad = append(bad, *fault)
		}
		if err != nil {
			return nil, bad, err
		}
		if j == nil || j.Locked {
			continue
		}
		if got, err := q.acquireJob(ctx, j); err != nil || got != nil {
			return got, bad, err
		}
	}
	return nil, bad, nil
}

// candidate reads the job of an entry. It returns why the job cannot be acquired by the entry, if that is so.
func (q *Queue) candidate(ctx context.Context, state layout.Status, name string) (*Job, *Bad, error) {
	entry := state.Queue() + "/" + name
	_, id, ok := layout.ParseEntry(name)
	if !ok {
		return nil, &Bad{entry, fmt.Errorf("%w: not an entry", ErrMalformed)}, nil
	}
	j, err := q.Job(ctx, id)
	switch {
	case unusable(err):
		return nil, &Bad{entry, err}, nil
	case err != nil:
		return nil, nil, err
	case j.Status.Status != state:
		return nil, &Bad{entry, fmt.Errorf("%w: the job is %s", ErrMalformed, j.Status.Status)}, nil
	}
	j.entry = entry
	return j, nil, nil
}

// acquireJob locks a job. It returns nil if another client has it, or its collection is locked and it is held.
func (q *Queue) acquireJob(ctx context.Context, j *Job) (*Job, error) {
	ops := lockOps(j.ID.Lock())
	if j.Status.Status != layout.Recording {
		ops = append(ops, session.Absent(layout.IngestPaused)...)
	}
	if p := j.Profile(); j.Status.Status == layout.Pending && p != "" {
		ops = append(ops, session.Absent(layout.CollectionLock(p))...)
	}
	got, err := q.setJob(ctx, j, j.Status, ops)
	switch {
	case refusedAt(err) == layout.IngestPaused:
		return nil, ErrPaused
	case err != nil && refusedAt(err) == layout.CollectionLock(j.Profile()):
		return nil, q.holdByCollection(ctx, j)
	case errors.Is(err, ErrChanged):
		return nil, nil
	}
	return got, err
}

// setJob sets the status of a job at its version, with further operations. It is a change of the status only.
func (q *Queue) setJob(ctx context.Context, j *Job, next layout.JobStatus, ops []session.Op) (*Job, error) {
	op := q.operation()
	next.Other = next.Other.Clone()
	next.Other.Set(layout.KeyOperation, op)
	all := append([]session.Op{session.Set(j.ID.Status(), next.Encode(), j.Version)}, ops...)
	if err := q.s.Apply(ctx, all, q.foundIn(j.ID.Status(), op, j.Version, true)); err != nil {
		if refusedAt(err) != "" {
			return nil, fmt.Errorf("job %s: %w: %w", j.ID, ErrChanged, err)
		}
		return nil, err
	}
	after := *j
	after.Status, after.Version = next, j.Version+1
	return &after, nil
}

// ReleaseJob removes the lock of a job that the caller holds.
func (q *Queue) ReleaseJob(ctx context.Context, j *Job) error {
	return q.unlock(ctx, j.ID.Lock(), j.ID.Status(), j.Version)
}
