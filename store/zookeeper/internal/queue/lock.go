package queue

import (
	"context"
	"fmt"
	"strings"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// LockObject takes the lock of an object, in storage or in the inventory, or of a local id. The error is ErrLocked if
// another client has it. mark is the data of the node: a lock with the same mark is that of the caller, also one that
// was taken before. A lock in storage is persistent: it remains when the process ends, because the state of the object
// is not known then. The others end with the session.
func (q *Queue) LockObject(ctx context.Context, path, mark string) error {
	create := session.CreateEphemeral(path, []byte(mark))
	persistent := strings.HasPrefix(path, layout.StorageLocks+"/")
	if persistent {
		create = session.Create(path, []byte(mark))
	}
	for {
		ops := []session.Op{create}
		n, err := q.s.Get(ctx, path)
		switch {
		case isMissing(err):
		case err != nil:
			return err
		case string(n.Data) != mark:
			return fmt.Errorf("%s: %w", path, ErrLocked)
		case persistent || n.Stat.Owner == q.s.ID():
			return nil
		default: // of a session before
			ops = append([]session.Op{session.Delete(path, n.Stat.Version)}, ops...)
		}
		if err = q.s.Multi(ctx, ops...); err == nil || !another(ctx, err) {
			return err
		}
	}
}

// UnlockObject removes a lock with the mark. One that is gone, or that another client has, remains as it is.
func (q *Queue) UnlockObject(ctx context.Context, path, mark string) error {
	for {
		n, err := q.s.Get(ctx, path)
		if isMissing(err) || err == nil && string(n.Data) != mark {
			return nil
		}
		if err == nil {
			err = q.s.Multi(ctx, session.Delete(path, n.Stat.Version))
		}
		if err == nil || !another(ctx, err) {
			return err
		}
	}
}

// another reports whether a change of a lock is to be tried again: the node has changed since it was read, or it is not
// known whether the change was made.
func another(ctx context.Context, err error) bool {
	return (refusedAt(err) != "" || session.KindOf(err) == session.Unknown) && ctx.Err() == nil
}

// ObjectLocks returns the locks of objects and local ids with their marks, by path. Those of the original programs have
// none.
func (q *Queue) ObjectLocks(ctx context.Context) (map[string]string, error) {
	marks := map[string]string{}
	for _, dir := range []string{layout.StorageLocks, layout.InventoryLocks, layout.LocalIDLocks} {
		names, _, err := q.s.Children(ctx, dir)
		if isMissing(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		paths := make([]string, len(names))
		for i, name := range names {
			paths[i] = dir + "/" + name
		}
		all, err := q.nodes(ctx, paths...)
		if err != nil {
			return nil, err
		}
		for i, n := range all {
			if n.exists {
				marks[paths[i]] = string(n.Data)
			}
		}
	}
	return marks, nil
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
