package ingest

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// Peers are programs of another system that work on the same objects, and respect locks of their own.
type Peers interface {
	// Lock takes the lock that is theirs for one of the inventory, which the job has. A blocker without times is
	// returned if a program has it. A job that has it already keeps it.
	Lock(ctx context.Context, l inventory.Lock) (*job.Blocker, error)
	// Unlock releases theirs after those of the inventory. It does not wait.
	Unlock(locks ...inventory.Lock)
}

// lockPeers takes the locks of peers for those that the job has; it waits if a peer has one.
func (t *task) lockPeers(ctx context.Context, locks []inventory.Lock) error {
	peers := t.app.options.Peers
	if peers == nil {
		return nil
	}
	for _, l := range locks {
		b, err := peers.Lock(ctx, l)
		if err != nil {
			return err
		}
		if b != nil {
			b.Since, b.Until = t.Now(), t.Now().Add(t.app.peersPause())
			return engine.Wait(*b)
		}
	}
	return nil
}

// peersPause is how long a job waits for a peer, which announces nothing, before it tries again.
func (a *App) peersPause() time.Duration { return 10 * a.pause() }

// freed reports that locks of the inventory were released.
func (a *App) freed(locks ...inventory.Lock) {
	if a.options.Peers != nil {
		a.options.Peers.Unlock(locks...)
	}
	a.line.freed(locks...)
}

// InventoryLocks returns all locks of the inventory.
func (a *App) InventoryLocks(ctx context.Context) ([]inventory.Lock, error) {
	return a.inventory.Locks(ctx)
}
