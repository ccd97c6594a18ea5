package queue

import (
	"context"
	"slices"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// Plan collects the operations of one change of several records, for a caller that makes further operations in the same
// multi. The operations require the versions that were read. A refused multi is planned anew, after a Sync.
type Plan struct {
	q       *Queue
	ops     []session.Op
	numbers map[string]int64 // of the next child, by node
	dirs    map[string]bool  // directories that the plan creates
}

// Plan returns an empty plan.
func (q *Queue) Plan() *Plan {
	return &Plan{q: q, numbers: map[string]int64{}, dirs: map[string]bool{}}
}

// Ops returns the operations.
func (p *Plan) Ops() []session.Op { return p.ops }

func (p *Plan) add(ops ...session.Op) { p.ops = append(p.ops, ops...) }

// Hold is what a change does with the lock of a record.
type Hold int

// The changes of a lock.
const (
	Free   Hold = iota // no client has it
	Taken              // no client has it; the caller takes it
	Kept               // the caller has it
	Given              // the caller has it and removes it
	Broken             // it is removed, if a client has it
	Left               // it stays, with whatever client has it
)

// hold adds the operations on a lock. locked reports whether it was found.
func (p *Plan) hold(lock string, locked bool, h Hold) {
	switch h {
	case Free:
		p.add(session.Absent(lock)...)
	case Taken:
		p.add(lockOps(lock)...)
	case Kept:
		p.add(holding(lock))
	case Given:
		p.add(holding(lock), session.Delete(lock, lockVersion))
	case Broken:
		if locked {
			p.add(session.Delete(lock, session.AnyVersion))
		}
	}
}

// Absent requires that a node does not exist.
func (p *Plan) Absent(path string) { p.add(session.Absent(path)...) }

// Put creates a node that should exist, and Drop removes one, as far as that is not so.
func (p *Plan) Put(ctx context.Context, path string) error {
	all, err := p.q.nodes(ctx, path)
	if err == nil && !all[0].exists {
		p.add(session.Create(path, nil))
	}
	return err
}

// Drop removes a node, if it exists.
func (p *Plan) Drop(ctx context.Context, path string) error {
	all, err := p.q.nodes(ctx, path)
	if err == nil && all[0].exists {
		p.add(session.Delete(path, session.AnyVersion))
	}
	return err
}

// number returns the name of the next child of a node.
func (p *Plan) number(ctx context.Context, path, prefix string) (string, error) {
	n, known := p.numbers[path]
	if !known {
		st, err := p.q.s.Stat(ctx, path)
		if err != nil {
			return "", err
		}
		n = st.Made
	}
	for ; ; n++ { // a restored tree may have names that no count explains
		name := layout.Sequence(prefix, n)
		all, err := p.q.nodes(ctx, path+"/"+name)
		if err != nil {
			return "", err
		}
		if !all[0].exists {
			p.numbers[path] = n + 1
			return name, nil
		}
	}
}

// directory creates a node if it is missing and the plan does not create it yet.
func (p *Plan) directory(ctx context.Context, path string) error {
	if p.dirs[path] {
		return nil
	}
	all, err := p.q.nodes(ctx, path)
	if err != nil || all[0].exists {
		return err
	}
	p.dirs[path] = true
	p.add(session.Create(path, nil))
	return nil
}

// NewBatch creates a batch in Pending, with its lock if taken is set.
func (p *Plan) NewBatch(ctx context.Context, submission layout.Object, taken bool) (layout.BatchID, error) {
	name, err := p.number(ctx, layout.Batches, layout.BatchPrefix)
	if err != nil {
		return "", err
	}
	id := layout.BatchID(name)
	status := layout.BatchStatus{Status: layout.Pending, Modified: p.q.now()}
	p.add(session.Create(id.Path(), nil), session.Create(id.Submission(), submission.Encode()),
		session.Create(id.Status(), status.Encode()))
	if uuid := submission.Text(layout.KeyBatchID); uuid != "" {
		p.add(session.Create(layout.UUID(uuid), []byte(id)))
	}
	if taken {
		p.add(lockOps(id.Lock())...)
	}
	return id, nil
}

// NewJob creates a job in Pending of a batch that is not pending, with its lock if taken is set.
func (p *Plan) NewJob(ctx context.Context, batch layout.BatchID, n *NewJob, taken bool) (layout.JobID, error) {
	name, err := p.number(ctx, layout.Jobs, layout.JobPrefix)
	if err != nil {
		return "", err
	}
	id := layout.JobID(name)
	if err := p.directory(ctx, batch.Dir(layout.InProcess)); err != nil {
		return "", err
	}
	p.add(p.q.newJob(&Batch{ID: batch}, id, n)...)
	if taken {
		p.add(lockOps(id.Lock())...)
	}
	return id, nil
}

// NewRequest creates an access request in Pending, with its lock if taken is set.
func (p *Plan) NewRequest(ctx context.Context, in layout.Queue, token layout.Token, taken bool) (layout.AccessID,
	error) {
	name, err := p.number(ctx, in.Path(), layout.AccessPrefix)
	if err != nil {
		return "", err
	}
	id := layout.AccessID(name)
	status := layout.BatchStatus{Status: layout.Pending, Modified: p.q.now()}
	p.add(session.Create(in.Request(id), nil), session.Create(in.Token(id), token.Encode()),
		session.Create(in.Status(id), status.Encode()))
	if taken {
		p.add(lockOps(in.Lock(id))...)
	}
	return id, nil
}

// Job changes a job as it was read: its status, the results of its work, its lock.
func (p *Plan) Job(ctx context.Context, j *Job, next layout.JobStatus, r Results, h Hold) error {
	next.Modified = p.q.now()
	_, ops, err := p.q.moved(ctx, j, next, r)
	if err != nil {
		return err
	}
	p.add(session.Set(j.ID.Status(), next.Encode(), j.Version))
	p.hold(j.ID.Lock(), j.Locked, h)
	for _, op := range ops {
		if slices.Contains(layout.BatchDirPaths(j.Batch), op.Path) { // several jobs may enter it first
			if p.dirs[op.Path] {
				continue
			}
			p.dirs[op.Path] = true
		}
		p.add(op)
	}
	return nil
}

// Batch changes a batch as it was read: its status, the directories that the status needs, its lock.
func (p *Plan) Batch(ctx context.Context, b *Batch, next layout.BatchStatus, h Hold) error {
	from := b.Status.Status
	next.Modified = p.q.now()
	p.add(session.Set(b.ID.Status(), next.Encode(), b.Version))
	p.hold(b.ID.Lock(), b.Locked, h)
	if next.Status == from {
		return nil
	}
	switch next.Status {
	case layout.Pending:
		ops, err := p.q.removal(ctx, b.ID.States())
		p.add(ops...)
		return err
	case layout.Held:
		p.add(session.Create(b.ID.States(), nil), session.Create(b.ID.HeldMark(), nil))
		return nil
	case layout.Processing:
		return p.directory(ctx, b.ID.States())
	}
	if err := p.directory(ctx, b.ID.States()); err != nil {
		return err
	}
	if err := p.Drop(ctx, b.ID.HeldMark()); err != nil {
		return err
	}
	return p.directory(ctx, b.ID.Dir(layout.InProcess)) // so that the cleanup of other programs finds it
}

// Request changes an access request as it was read: its status, its token, its lock.
func (p *Plan) Request(r *Request, next layout.BatchStatus, token *layout.Token, h Hold) {
	next.Modified = p.q.now()
	p.add(session.Set(r.Queue.Status(r.ID), next.Encode(), r.Version))
	p.hold(r.Queue.Lock(r.ID), r.Locked, h)
	if token != nil {
		p.add(session.Set(r.Queue.Token(r.ID), token.Encode(), session.AnyVersion))
	}
}

// RemoveJob removes the nodes of a job as it was read, which no client has locked.
func (p *Plan) RemoveJob(ctx context.Context, j *Job) error {
	entries, err := p.q.allEntries(ctx, j.ID)
	if err != nil {
		return err
	}
	refs, err := p.q.references(ctx, j)
	if err != nil {
		return err
	}
	p.add(session.Check(j.ID.Status(), j.Version))
	for _, path := range append(entries, refs...) {
		p.add(session.Delete(path, session.AnyVersion))
	}
	return p.remove(ctx, j.ID.Path())
}

// RemoveBatch removes the nodes of a batch as it was read, whose jobs are removed.
func (p *Plan) RemoveBatch(ctx context.Context, b *Batch) error {
	p.add(session.Check(b.ID.Status(), b.Version))
	if uuid := b.Submission.Text(layout.KeyBatchID); uuid != "" {
		if found, err := p.q.FindBatch(ctx, uuid); err == nil && found == b.ID {
			p.add(session.Delete(layout.UUID(uuid), session.AnyVersion))
		} else if err != nil && !unusable(err) {
			return err
		}
	}
	return p.remove(ctx, b.ID.Path())
}

// RemoveRequest removes the nodes of an access request as it was read.
func (p *Plan) RemoveRequest(ctx context.Context, r *Request) error {
	p.add(session.Check(r.Queue.Status(r.ID), r.Version))
	return p.remove(ctx, r.Queue.Request(r.ID))
}

func (p *Plan) remove(ctx context.Context, path string) error {
	ops, err := p.q.removal(ctx, path)
	p.add(ops...)
	return err
}

// Mend makes the queue entry and the references of a job those of its status, after another program has ended between
// two of its writes.
func (q *Queue) Mend(ctx context.Context, j *Job) error { return q.repairJob(ctx, j) }
