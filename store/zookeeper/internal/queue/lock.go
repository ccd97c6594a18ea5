package queue

import (
	"context"
	"fmt"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// Lock is a lock that the caller holds, of an object or a local id.
type Lock struct {
	q    *Queue
	path string
	own  func(node) bool // the node is this lock
}

// LockStorage takes the lock of an object in storage. It is persistent: it remains when the process ends, because the
// state of the object is not known then; an operator removes it by StopJob. The error is ErrLocked if another job has
// it.
func (q *Queue) LockStorage(ctx context.Context, ark string) (*Lock, error) {
	op := q.operation()
	path := layout.StorageLock(ark)
	return q.lock(ctx, path, []session.Op{session.Create(path, []byte(op)), session.Set(path, []byte(op), 0)},
		func(n node) bool { return string(n.Data) == op })
}

// LockInventory takes the lock of an object in the inventory, which ends with the session. The error is ErrLocked if
// another job has it.
func (q *Queue) LockInventory(ctx context.Context, ark string) (*Lock, error) {
	return q.lockEphemeral(ctx, layout.InventoryLock(ark))
}

// LockLocalID takes the lock under which an identifier is minted for a local id of an owner. It ends with the session.
// The error is ErrLocked if another job has it.
func (q *Queue) LockLocalID(ctx context.Context, localID, ownerARK string) (*Lock, error) {
	return q.lockEphemeral(ctx, layout.LocalIDLock(localID, ownerARK))
}

func (q *Queue) lockEphemeral(ctx context.Context, path string) (*Lock, error) {
	return q.lock(ctx, path, lockOps(path), func(n node) bool { return n.Stat.Owner == q.s.ID() })
}

func (q *Queue) lock(ctx context.Context, path string, ops []session.Op, own func(node) bool) (*Lock, error) {
	err := q.s.Apply(ctx, ops, func(ctx context.Context) (session.Outcome, error) {
		n, err := q.s.Get(ctx, path)
		switch {
		case isMissing(err):
			return session.NotMade, nil
		case err == nil && own(node{n, true}):
			return session.Made, nil
		}
		return session.Changed, err
	})
	if refusedAt(err) != "" {
		return nil, fmt.Errorf("%s: %w", path, ErrLocked)
	}
	if err != nil {
		return nil, err
	}
	return &Lock{q, path, own}, nil
}

// Unlock removes the lock. One that is gone, or that another client has by now, remains as it is.
func (l *Lock) Unlock(ctx context.Context) error {
	for {
		n, err := l.q.s.Get(ctx, l.path)
		if isMissing(err) || err == nil && !l.own(node{n, true}) {
			return nil
		}
		if err == nil {
			err = l.q.s.Multi(ctx, session.Delete(l.path, lockVersion))
		}
		switch {
		case refusedAt(err) != "":
			return nil
		case session.KindOf(err) != session.Unknown || ctx.Err() != nil:
			return err
		}
	}
}

// PauseIngest makes all ingest and storage workers stop acquiring; running work goes on. It may be repeated.
func (q *Queue) PauseIngest(ctx context.Context) error { return q.put(ctx, layout.IngestPaused) }

// ResumeIngest ends a pause. It may be repeated.
func (q *Queue) ResumeIngest(ctx context.Context) error { return q.drop(ctx, layout.IngestPaused) }

// PauseAccess and ResumeAccess are the same for a queue of access requests.
func (q *Queue) PauseAccess(ctx context.Context, in layout.Queue) error {
	return q.put(ctx, in.Paused())
}

// ResumeAccess ends a pause. It may be repeated.
func (q *Queue) ResumeAccess(ctx context.Context, in layout.Queue) error {
	return q.drop(ctx, in.Paused())
}

// LockCollection makes workers hold the pending jobs of a profile. It may be repeated.
func (q *Queue) LockCollection(ctx context.Context, profile string) error {
	return q.put(ctx, layout.CollectionLock(profile))
}

// UnlockCollection ends it. Held jobs remain held. It may be repeated.
func (q *Queue) UnlockCollection(ctx context.Context, profile string) error {
	return q.drop(ctx, layout.CollectionLock(profile))
}

// put creates a node, and drop removes one, if it is not so already.
func (q *Queue) put(ctx context.Context, path string) error {
	return q.until(ctx, session.Create(path, nil), session.NodeExists)
}

func (q *Queue) drop(ctx context.Context, path string) error {
	return q.until(ctx, session.Delete(path, session.AnyVersion), session.NoNode)
}

func (q *Queue) until(ctx context.Context, op session.Op, already session.Kind) error {
	err := q.s.Multi(ctx, op)
	for session.KindOf(err) == session.Unknown && ctx.Err() == nil {
		err = q.s.Multi(ctx, op)
	}
	if session.KindOf(err) == already {
		return nil
	}
	return err
}
