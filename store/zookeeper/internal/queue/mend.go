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

// Repaired is a node that was repaired.
type Repaired struct {
	Path string
	What string
}

// mending collects what a repair has done.
type mending struct {
	q     *Queue
	t     *tree
	older time.Time // only nodes that were made before
	done  []Repaired
	left  []Bad
}

// Repair mends what another library leaves when it crashes between two of its writes. It changes only records that are
// not locked and whose nodes are older than age, because younger ones may be a change that is being made. The status of
// a record decides; all else follows from it:
//
//   - The queue entries and the references of a job become those of its status and priority. A missing priority,
//     working space or list of identifiers of such a job is created.
//   - A job without a status, and a completed or deleted one without entry and reference, was not created or not
//     removed to its end: its nodes are removed.
//   - A batch without a status that has a submission becomes Pending; one without both is removed.
//   - A pending batch with an empty directory of references loses that directory: it would never be acquired.
//   - A batch in Processing that never had a job, and that no worker has, becomes Pending: its worker crashed before it
//     created them.
//   - Entries, references and ids of batches whose record does not exist are removed.
//
// It reads all lists, four nodes of each job that has not ended, and whole jobs only if these do not fit together. Each
// repair is one multi that requires what was read. It returns what was repaired, and what needs a person: a batch
// in Processing whose jobs were all removed, and nodes that cannot be read.
func (q *Queue) Repair(ctx context.Context, age time.Duration) ([]Repaired, []Bad, error) {
	t, err := q.scanDoubtful(ctx)
	if err != nil {
		return nil, nil, err
	}
	m := &mending{q: q, t: t, older: q.now().Add(-age)}
	for _, f := range []func(context.Context) error{
		m.batches, m.jobs, m.entries, m.references, m.uuids, m.restarts,
	} {
		if err := f(ctx); err != nil {
			return m.done, m.left, err
		}
	}
	return m.done, append(m.left, t.other...), nil
}

// apply makes one repair. One that another client has prevented by a change is left out: the next call finds it.
func (m *mending) apply(ctx context.Context, path, what string, ops ...session.Op) error {
	err := m.q.s.Multi(ctx, ops...)
	if session.KindOf(err) == session.Unknown {
		err = m.q.s.Multi(ctx, ops...) // refused if it was made
	}
	switch {
	case err == nil:
		m.done = append(m.done, Repaired{path, what})
	case refusedAt(err) == "":
		return err
	}
	return nil
}

func (m *mending) young(made time.Time) bool { return made.After(m.older) }

func (m *mending) batches(ctx context.Context) error {
	for id, b := range m.t.batches {
		var err error
		switch {
		case b.lock.exists || m.young(b.made) || m.young(b.status.Stat.Modified):
		case !b.status.exists:
			err = m.unfinishedBatch(ctx, id, b)
		case !b.readable:
			m.left = append(m.left, Bad{id.Status(), ErrMalformed})
		case b.parsed.Status == layout.Pending && b.states.exists && len(b.refs) == 0:
			var ops []session.Op
			if ops, err = m.q.removal(ctx, id.States()); err == nil {
				ops = append(ops, session.Check(id.Status(), b.status.Stat.Version))
				err = m.apply(ctx, id.States(), "removed: the batch is pending",
					append(ops, session.Absent(id.Lock())...)...)
			}
		case b.parsed.Status == layout.Processing && len(b.refs) == 0 && b.dirs > 1:
			m.left = append(m.left, Bad{id.Path(), errors.New("no worker has it, and its jobs were removed")})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unfinishedBatch completes or removes a batch without a status.
func (m *mending) unfinishedBatch(ctx context.Context, id layout.BatchID, b *scannedBatch) error {
	o, err := layout.ParseObject(b.submission.Data)
	if err == nil && !b.states.exists {
		status := layout.BatchStatus{Status: layout.Pending, Modified: m.q.now()}
		ops := []session.Op{session.Create(id.Status(), status.Encode())}
		if uuid := o.Text(layout.KeyBatchID); uuid != "" {
			if _, found := m.t.uuids[uuid]; !found {
				ops = append(ops, session.Create(layout.UUID(uuid), []byte(id)))
			}
		}
		return m.apply(ctx, id.Path(), "completed: it is pending", append(ops, session.Absent(id.Lock())...)...)
	}
	for _, ref := range b.refs {
		if m.t.names[ref.job] {
			m.left = append(m.left, Bad{id.Path(), errors.New("it has jobs and no status")})
			return nil
		}
	}
	ops, err := m.q.removal(ctx, id.Path())
	if err != nil {
		return err
	}
	for uuid, n := range m.t.uuids {
		if string(n.Data) == string(id) {
			ops = append(ops, session.Delete(layout.UUID(uuid), session.AnyVersion))
			delete(m.t.uuids, uuid)
		}
	}
	if err := m.apply(ctx, id.Path(), "removed: it has no status", ops...); err != nil {
		return err
	}
	delete(m.t.batches, id)
	return nil
}

// restarts moves batches that have no worker, and never had a whole job, to Pending. It follows the repairs that remove
// jobs whose creation was not finished, and references to them.
func (m *mending) restarts(ctx context.Context) error {
	for id, b := range m.t.batches {
		if b.lock.exists || m.young(b.made) || m.young(b.status.Stat.Modified) || !b.readable ||
			b.parsed.Status != layout.Processing || b.dirs > 1 || m.hasJobs(b) || m.creates(id) {
			continue
		}
		_, err := m.q.RestartBatch(ctx, id)
		switch {
		case err == nil:
			m.done = append(m.done, Repaired{id.Path(), "pending: its worker ended before it created a job"})
		case !errors.Is(err, ErrLocked) && !errors.Is(err, ErrChanged) && !errors.Is(err, ErrNotAllowed) &&
			!errors.Is(err, ErrNotFound): // those are batches that another client has changed
			return err
		}
	}
	return nil
}

// hasJobs reports whether a batch has jobs, besides those whose creation was not finished.
func (m *mending) hasJobs(b *scannedBatch) bool {
	return slices.ContainsFunc(b.refs, func(ref reference) bool {
		j := m.t.jobs[ref.job] // nil if it is whole
		return m.t.names[ref.job] && (j == nil || j.status.exists)
	})
}

// creates reports whether jobs of a batch are so young that a worker may be creating them.
func (m *mending) creates(id layout.BatchID) bool {
	for _, j := range m.t.jobs {
		if j.batch == id && m.young(j.made) {
			return true
		}
	}
	return false
}

func (m *mending) jobs(ctx context.Context) error {
	for id, j := range m.t.jobs {
		b := m.t.batches[j.batch]
		switch {
		case j.lock.exists || m.young(j.made) || m.young(j.status.Stat.Modified):
		case b != nil && b.lock.exists && !j.status.exists: // it may be created now
		case !j.status.exists:
			if err := m.unfinishedJob(ctx, id, j, "removed: it has no status"); err != nil {
				return err
			}
		case j.readable && j.parsed.Status.Deletable() && !m.listed(id):
			if err := m.unfinishedJob(ctx, id, j, "removed: its removal was not finished"); err != nil {
				return err
			}
		case !j.readable || !j.batch.Valid():
			m.left = append(m.left, Bad{id.Path(), ErrMalformed})
		default:
			if err := m.job(ctx, id, j); err != nil {
				return err
			}
		}
	}
	return nil
}

// listed reports whether a job has a queue entry or a reference. Of a change of the status, at most one of both is
// missing; of a removal, both.
func (m *mending) listed(id layout.JobID) bool {
	for _, b := range m.t.batches {
		if len(b.of[id]) > 0 {
			return true
		}
	}
	return len(m.t.of[id]) > 0
}

// unfinishedJob removes a job that was not created, or not removed, to its end, with its entries and references.
func (m *mending) unfinishedJob(ctx context.Context, id layout.JobID, j *scannedJob, what string) error {
	ops, err := m.q.removal(ctx, id.Path())
	if err != nil {
		return err
	}
	for _, e := range m.t.of[id] {
		ops = append(ops, session.Delete(e.path, session.AnyVersion))
	}
	if b := m.t.batches[j.batch]; b != nil {
		for _, ref := range b.of[id] {
			ops = append(ops, session.Delete(ref.path, session.AnyVersion))
		}
	}
	if err := m.apply(ctx, id.Path(), what, ops...); err != nil {
		return err
	}
	delete(m.t.jobs, id)
	delete(m.t.names, id)
	return nil
}

// job repairs what belongs to a job with a status.
func (m *mending) job(ctx context.Context, id layout.JobID, j *scannedJob) error {
	if err := m.missing(ctx, id, j); err != nil {
		return err
	}
	want := j.wanted(id)
	entries, refs := 0, 0
	for _, e := range m.t.of[id] {
		if entries++; e.path != want {
			entries++ // a wrong one
		}
	}
	b := m.t.batches[j.batch]
	if b == nil {
		refs = 1 // no batch, no reference
	} else {
		for _, ref := range b.of[id] {
			if refs++; ref.dir != j.parsed.Status.BatchDir() {
				refs++
			}
		}
	}
	if entries == 1 && refs == 1 {
		return nil
	}
	current, err := m.q.Job(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound) || err == nil && (current.Version != j.status.Stat.Version || current.Locked):
		return nil
	case unusable(err):
		m.left = append(m.left, Bad{id.Path(), err})
		return nil
	case err != nil:
		return err
	}
	if err := m.q.repairJob(ctx, current); err != nil {
		if refusedAt(err) != "" {
			return nil
		}
		return err
	}
	m.done = append(m.done, Repaired{id.Path(), fmt.Sprintf("entry and reference: it is %s", current.Status.Status)})
	return nil
}

// missing creates the nodes that every job has.
func (m *mending) missing(ctx context.Context, id layout.JobID, j *scannedJob) error {
	for _, one := range []struct {
		path string
		node node
		data []byte
	}{
		{id.Priority(), j.priority, layout.FormatInt(defaultPriority)},
		{id.Space(), j.space, layout.FormatInt(0)},
		{id.Identifiers(), j.idents, (&layout.Identifiers{}).Encode()},
	} {
		if !one.node.exists {
			if err := m.apply(ctx, one.path, "created", session.Create(one.path, one.data)); err != nil {
				return err
			}
		}
	}
	if p, err := layout.ParseInt(j.priority.Data); err == nil && p != int64(layout.ClampPriority(int(p))) {
		return m.apply(ctx, id.Priority(), "set to a number within 0..99", session.Set(id.Priority(),
			layout.FormatInt(int64(layout.ClampPriority(int(p)))), j.priority.Stat.Version))
	}
	return nil
}

func (m *mending) entries(ctx context.Context) error {
	for _, e := range m.t.entries {
		if !e.valid || m.t.names[e.job] || m.young(e.made) {
			continue
		}
		ops := append(session.Absent(e.job.Path()), session.Delete(e.path, session.AnyVersion))
		if err := m.apply(ctx, e.path, "removed: the job does not exist", ops...); err != nil {
			return err
		}
	}
	return nil
}

func (m *mending) references(ctx context.Context) error {
	for _, b := range m.t.batches {
		for _, ref := range b.refs {
			if m.t.names[ref.job] || m.young(ref.made) || !ref.job.Valid() {
				continue
			}
			ops := append(session.Absent(ref.job.Path()), session.Delete(ref.path, session.AnyVersion))
			if err := m.apply(ctx, ref.path, "removed: the job does not exist", ops...); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *mending) uuids(ctx context.Context) error {
	for uuid, n := range m.t.uuids {
		id := layout.BatchID(n.Data)
		if m.t.batches[id] != nil || m.young(n.Stat.Created) || !id.Valid() {
			continue
		}
		ops := append(session.Absent(id.Path()), session.Delete(layout.UUID(uuid), session.AnyVersion))
		if err := m.apply(ctx, layout.UUID(uuid), "removed: the batch does not exist", ops...); err != nil {
			return err
		}
	}
	return nil
}

// RestartBatch moves a batch in Processing that has no jobs, and no worker, to Pending: its worker crashed before it
// created them.
func (q *Queue) RestartBatch(ctx context.Context, id layout.BatchID) (*Batch, error) {
	b, err := q.Batch(ctx, id)
	if err != nil {
		return nil, err
	}
	c, err := q.Count(ctx, id)
	if err != nil {
		return nil, err
	}
	if b.Status.Status != layout.Processing || c.All() > 0 {
		return nil, notAllowed(string(id), b.Status.Status, layout.Pending)
	}
	ops, err := q.removal(ctx, id.States())
	if err != nil {
		return nil, err
	}
	next := b.Status
	next.Status, next.Message = layout.Pending, ""
	after, err := q.changeBatch(ctx, b, next, append(session.Absent(id.Lock()), ops...)...)
	if refusedAt(err) == id.Lock() {
		return nil, fmt.Errorf("batch %s: %w", id, ErrLocked)
	}
	return after, err
}
