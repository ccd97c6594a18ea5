package merritt

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/zookeeper/merritt"
)

// Merritt's programs work on an object only while they have its lock, and Stagepost has locks of its own in the
// inventory. A job that has one of these takes Merritt's too, before it begins. Merritt's are released after them: by
// Unlock, or by the next reading if that was not possible.

var _ ingest.Peers = (*Follower)(nil)

// mark begins the data of locks that Stagepost has; the id of the job follows.
const mark = "stagepost:"

// owned splits the name of the lock of a local id, OWNER/LOCALID. The owner may be an ARK.
var owned = regexp.MustCompile(`^(ark:/?[0-9]+/[^/]+|[^/]*)/(.*)$`)

// objectLock returns the lock of Merritt for one of the inventory, and what is done under it.
func objectLock(l inventory.Lock) (lock merritt.Lock, doing string) {
	switch l.Kind {
	case inventory.ObjectLock:
		return merritt.StorageLock(l.Name), "adds a version to " + l.Name
	case inventory.InventoryLock:
		return merritt.InventoryLock(l.Name), "enters a version of " + l.Name
	}
	if parts := owned.FindStringSubmatch(l.Name); parts != nil {
		return merritt.LocalIDLock(parts[2], parts[1]), "gets an identifier for local id " + parts[2]
	}
	return merritt.LocalIDLock(l.Name, ""), "gets an identifier for local id " + l.Name
}

// Lock is part of ingest.Peers.
func (f *Follower) Lock(ctx context.Context, l inventory.Lock) (*job.Blocker, error) {
	f.objects.Lock()
	defer f.objects.Unlock()
	lock, doing := objectLock(l)
	free, err := f.link.LockObject(ctx, lock, mark+l.Job)
	if err != nil {
		return nil, job.Errorf(job.Unavailable, "lock", job.ID(l.Job), "%s: %w", lock, err)
	}
	if free {
		return nil, nil
	}
	return &job.Blocker{
		Code: merritt.LockedCause, Sentence: fmt.Sprintf("a program of Merritt %s", doing),
		Holder:   string(lock),
		Remedy:   "nothing: it goes on when that program releases the lock",
		Remedies: []job.Remedy{job.Running("zk dump "+job.Quoted(string(lock)), "shows the lock")},
	}, nil
}

// Unlock is part of ingest.Peers.
func (f *Follower) Unlock(locks ...inventory.Lock) {
	for _, l := range locks {
		select {
		case f.released <- l:
		default: // the next reading finds it
		}
	}
}

// unlock releases what Unlock was called for, until ctx ends.
func (f *Follower) unlock(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case l := <-f.released:
			lock, _ := objectLock(l)
			if err := f.link.UnlockObject(ctx, lock, mark+l.Job); err != nil && ctx.Err() == nil {
				f.o.Log.Warn("lock of Merritt", "lock", lock, "error", err)
			}
		}
	}
}

// objectLocks makes the locks with the mark those of the inventory: what was released is removed, and what ended with a
// session is taken again.
func (p *pass) objectLocks(ctx context.Context) error {
	p.objects.Lock()
	defer p.objects.Unlock()
	theirs, err := p.link.ObjectLocks(ctx)
	if err != nil {
		return err
	}
	ours, err := p.app.InventoryLocks(ctx)
	if err != nil {
		return err
	}
	held := map[merritt.Lock]string{}
	for _, l := range ours {
		lock, _ := objectLock(l)
		held[lock] = mark + l.Job
		if _, exists := theirs[lock]; !exists {
			if _, err := p.link.LockObject(ctx, lock, held[lock]); err != nil {
				return err
			}
		}
	}
	for lock, by := range theirs {
		if strings.HasPrefix(by, mark) && held[lock] != by {
			if err := p.link.UnlockObject(ctx, lock, by); err != nil {
				return err
			}
		}
	}
	return nil
}
