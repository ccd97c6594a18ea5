package merritt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/zookeeper"
	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/queue"
)

// holds shows holds that were put or released as locks of Merritt. A hold that ends by itself is none: no program would
// remove its lock.
func (w *showing) holds(ctx context.Context, c *zookeeper.Changes) error {
	for i := range c.Put {
		if !c.Put[i].Until.IsZero() {
			continue
		}
		for _, lock := range w.l.m.Holds(c.Put[i].Scope) {
			if err := w.plan.Put(ctx, string(lock)); err != nil {
				return err
			}
		}
	}
	for _, scope := range c.Released {
		for _, lock := range w.l.m.Holds(scope) {
			if err := w.plan.Drop(ctx, string(lock)); err != nil {
				return err
			}
		}
	}
	return nil
}

// LockedCause is the cause of a job that waits because a program of Merritt has locked or changed it; ElsewhereCause is
// that of one on which Merritt's programs work.
const (
	LockedCause    = "merritt-lock"
	ElsewhereCause = "merritt-work"
)

// How long a job waits that a program of Merritt has locked, or on which Merritt's programs work: until it is read
// again. A change of its nodes ends the wait.
const (
	lockedPause    = 2 * time.Second
	elsewherePause = time.Hour
)

// Busy is part of zookeeper.Mirror.
func (l *Link) Busy(ctx context.Context, jobs []zookeeper.Shown, now time.Time) (map[job.ID]job.Blocker, bool, error) {
	_, q := l.now()
	var paths []string
	for _, s := range jobs {
		status, lock, paused := l.paths(s)
		paths = append(paths, status, lock, paused)
	}
	found, err := q.Found(ctx, paths...)
	if err != nil {
		return nil, false, err
	}
	busy := map[job.ID]job.Blocker{}
	for i, s := range jobs {
		status, lock, paused := found[3*i], found[3*i+1], found[3*i+2]
		if paused.Exists && s.Job.State != lifecycle.State(layout.Recording) {
			return nil, true, nil
		}
		b := job.Blocker{Code: LockedCause, Since: now, Until: now.Add(lockedPause), Holder: s.Node}
		if b.Sentence = l.moved(s, status.Status, lock.Exists); b.Sentence == "" {
			b.Code, b.Until = ElsewhereCause, now.Add(elsewherePause)
			if b.Sentence, err = l.unworkable(ctx, s); err != nil {
				return nil, false, err
			}
		}
		if b.Sentence != "" {
			busy[s.Job.ID] = b
		}
	}
	return busy, false, nil
}

// moved returns which program of Merritt has locked or changed a record, or "".
func (l *Link) moved(s zookeeper.Shown, status layout.Status, locked bool) string {
	isBatch := s.Job.Kind == l.m.Batch
	same := status == state(s.Job.State) || isBatch && status == layout.Reporting &&
		state(s.Job.State) == layout.Processing
	switch {
	case locked:
		return fmt.Sprintf("a worker of Merritt has locked %s", s.Node)
	case !same && status == "":
		return fmt.Sprintf("%s does not exist in Merritt, or cannot be read: stagepost admin health", s.Node)
	case !same:
		return fmt.Sprintf("%s is %s in Merritt: the record follows", s.Node, status)
	}
	return ""
}

// unworkable returns why no worker of this store can work on a record, or "". A job that Merritt's programs have begun
// is theirs, but for Storing after they have processed it.
func (l *Link) unworkable(ctx context.Context, s zookeeper.Shown) (string, error) {
	switch at := state(s.Job.State); {
	case !s.Elsewhere || at == layout.Pending:
		return l.m.Workable(s.Job), nil
	case at == layout.Storing && l.m.Continues != nil:
		p, err := l.Processed(ctx, s.Node)
		if err != nil {
			return "", err
		}
		return l.m.Continues(s.Job, p), nil
	case at == layout.Recording || at == layout.Notify:
		return fmt.Sprintf("Merritt's storage has stored the object of %s: Merritt's programs continue with it",
			s.Node), nil
	}
	return fmt.Sprintf("Merritt's programs work on %s and continue with it", s.Node), nil
}

// paths returns the status, the lock and the pause of a record.
func (l *Link) paths(s zookeeper.Shown) (status, lock, paused string) {
	switch s.Job.Kind {
	case l.m.Batch:
		b := layout.BatchID(s.Node)
		return b.Status(), b.Lock(), layout.IngestPaused
	case l.m.Job:
		j := layout.JobID(s.Node)
		return j.Status(), j.Lock(), layout.IngestPaused
	}
	in, id := requestOf(s.Node)
	return in.Status(id), in.Lock(id), in.Paused()
}

// Locks returns the locks of queues and collections that exist.
func (l *Link) Locks(ctx context.Context) ([]Lock, error) {
	_, q := l.now()
	if q == nil {
		return nil, errDetached
	}
	paths, err := q.Locks(ctx)
	all := make([]Lock, len(paths))
	for i, path := range paths {
		all[i] = Lock(path)
	}
	slices.Sort(all)
	return all, err
}

// LockObject takes a lock of an object or local id for the client with a mark, which must not be empty. It reports
// false if another client has it.
func (l *Link) LockObject(ctx context.Context, lock Lock, mark string) (bool, error) {
	_, q := l.now()
	if q == nil {
		return false, errDetached
	}
	err := q.LockObject(ctx, string(lock), mark)
	if errors.Is(err, queue.ErrLocked) {
		return false, nil
	}
	return err == nil, err
}

// UnlockObject releases a lock of an object or local id, if the client with the mark has it.
func (l *Link) UnlockObject(ctx context.Context, lock Lock, mark string) error {
	_, q := l.now()
	if q == nil {
		return errDetached
	}
	return q.UnlockObject(ctx, string(lock), mark)
}

// ObjectLocks returns the locks of objects and local ids with their marks; those of Merritt's programs have none.
func (l *Link) ObjectLocks(ctx context.Context) (map[Lock]string, error) {
	_, q := l.now()
	if q == nil {
		return nil, errDetached
	}
	paths, err := q.ObjectLocks(ctx)
	all := map[Lock]string{}
	for path, mark := range paths {
		all[Lock(path)] = mark
	}
	return all, err
}
