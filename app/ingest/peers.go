package ingest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/format/checkm"
	"github.com/stagepost/stagepost/job"
)

// Peers are programs of another system that work on the same objects, and respect locks of their own.
type Peers interface {
	// Lock takes the lock that is theirs for one of the inventory, which the job has. A blocker without times is
	// returned if a program has it. A job that has it already keeps it.
	Lock(ctx context.Context, l inventory.Lock) (*job.Blocker, error)
	// Unlock releases theirs after those of the inventory. It does not wait.
	Unlock(locks ...inventory.Lock)
	// Files is the URL below which they read the work directories; "": they do not.
	Files() string
	// Processed returns what they left of a job that they have processed; nil: they have not. taken states that their
	// files are the working files already.
	Processed(ctx context.Context, id job.ID, taken bool) (*Processed, error)
}

// handedDir has what peers read besides the files of the depositor, and handedManifest the list of all.
const (
	handedDir      = "handed"
	handedManifest = handedDir + "/mrt-manifest.txt"
)

// mostHanded bounds the names that an update deletes, in bytes: they are in the record, and in a node of ZooKeeper.
const mostHanded = 64 << 10

// handOver lets peers read the files of the object, with a manifest for their storage. An object that such a manifest
// cannot describe is not handed over.
func (t *task) handOver(ctx context.Context) error {
	t.data.Handed = nil
	peers := t.app.options.Peers
	if peers == nil || peers.Files() == "" {
		return nil
	}
	gone, err := t.deleted()
	if err != nil {
		return err
	}
	names := ""
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		names += name + "\n"
	}
	if len(names) > mostHanded {
		return nil
	}
	j := t.Job()
	base := strings.TrimSuffix(peers.Files(), "/") + "/" + string(j.Parent) + "/" + string(j.ID) + "/"
	err = t.dir.Put(handedManifest, func(w io.Writer) error { return t.writeHanded(ctx, w, base) })
	var refused *checkm.Error
	if errors.As(err, &refused) {
		return nil
	}
	if err == nil {
		t.data.Handed = &record.Handed{Manifest: base + handedManifest, Delete: names}
	}
	return err
}

// writeHanded writes the manifest, and the files that are only in the list.
func (t *task) writeHanded(ctx context.Context, w io.Writer, base string) error {
	m := checkm.NewWriter(w, checkm.Add)
	for f, err := range workdir.Lines[listed](t.dir.Root, ownList) {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		name := cmp.Or(f.Source, f.Path)
		if f.Text != nil {
			name = handedDir + "/" + f.Path
			if _, err := t.dir.Make(path.Dir(name)); err != nil {
				return err
			}
			err := t.dir.Put(name, func(w io.Writer) error { _, err := w.Write(f.Text); return err })
			if err != nil {
				return err
			}
		}
		err := m.Write(checkm.Row{URL: base + (&url.URL{Path: name}).EscapedPath(), FileName: f.Path, Size: f.Size,
			Digest: checkm.Digest{Algorithm: checkm.SHA256, Value: f.SHA256}, MIMEType: f.MIME})
		if err != nil {
			return err
		}
	}
	return m.Close()
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
