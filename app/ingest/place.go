package ingest

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/location"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
)

// kept is an object in one storage location as it was seen under the object's lock.
type kept struct {
	dir    string // as the profile names the place
	root   *location.Root
	object *ocfl.Object // nil: there is none yet
}

// look sees what a storage location has of the object.
func (t *task) look(ctx context.Context, dir string) (*kept, error) {
	root, err := t.app.locations.Open(ctx, dir, true)
	if err != nil {
		return nil, err
	}
	k := &kept{dir: dir, root: root}
	k.object, err = root.Object(t.data.Identity.ARK)
	if errors.Is(err, ocfl.ErrNotFound) {
		return k, nil
	}
	return k, err
}

// head names the newest version, "" if there is none.
func (k *kept) head() string {
	if k.object == nil {
		return ""
	}
	return k.object.Head()
}

// older names the versions on which a job builds, oldest first: those before its own if that is there already, else all.
func (k *kept) older(id job.ID) []string {
	if k.object == nil {
		return nil
	}
	all := k.object.Versions()
	own := slices.IndexFunc(all, func(name string) bool { return k.object.Inventory().Versions[name].Key() == string(id) })
	if own >= 0 {
		return all[:own]
	}
	return all
}

// has tells whether the job's version is there already.
func (k *kept) has(id job.ID) bool {
	return k.object != nil && len(k.older(id)) < len(k.object.Versions())
}

// before names the newest version on which a job builds, "" if there is none.
func (k *kept) before(id job.ID) string {
	all := k.older(id)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// moved tells whether the place has another head by now than was seen: somebody wrote who had no lock, or had lost it.
func (k *kept) moved(ark string) bool {
	now, err := k.root.Object(ark)
	switch {
	case errors.Is(err, ocfl.ErrNotFound):
		return k.object != nil
	case err != nil:
		return false
	}
	return now.Head() != k.head()
}

// catchUp adds to a place the versions that the leading place has beyond it: a job stored them there and failed before it came here, the place is new
// to the profile, or it lost them. Afterwards the job's own version follows on the same ones everywhere.
func (t *task) catchUp(ctx context.Context, locks []inventory.Lock, lead, k *kept) (*kept, error) {
	for _, name := range missing(lead, k, t.Job().ID) {
		if err := t.app.locks.Check(ctx, locks...); err != nil {
			return k, err
		}
		block := lead.object.Inventory().Versions[name]
		created, err := time.Parse(time.RFC3339, block.Created)
		if err != nil {
			return k, err
		}
		v := ocfl.Version{Created: created, Message: block.Text()}
		if block.User != nil {
			v.User = *block.User
		}
		files, err := lead.object.Files(name)
		if err != nil {
			return k, err
		}
		for _, f := range files {
			open := func() (io.ReadCloser, error) { return lead.object.Open(name, f.Path) }
			v.Files = append(v.Files, ocfl.File{Path: f.Path, Digest: f.Digest, Size: -1, Open: open})
		}
		o := ocfl.Options{Stage: t.Fence(), Key: block.Key(), ExpectHead: t.app.expect(k.head())}
		if _, err := t.add(ctx, k, v, o); err != nil {
			return k, err
		}
		t.Log().Info("caught up", "ark", t.data.Identity.ARK, "place", k.dir, "version", name, "from", lead.dir)
		if k, err = t.look(ctx, k.dir); err != nil {
			return k, err
		}
	}
	return k, nil
}

// missing names the versions of the leading place that another lacks, oldest first, up to the job's own. The other's are the first of the leader's.
func missing(lead, k *kept, id job.ID) []string {
	return lead.older(id)[min(len(k.older(id)), len(lead.older(id))):]
}

// add adds a version to a place. A conflict because the place has another head by now is ErrStale: the lock was of no use, and
// what was built under it is built on the wrong version.
func (t *task) add(ctx context.Context, k *kept, v ocfl.Version, o ocfl.Options) (ocfl.Added, error) {
	ark := t.data.Identity.ARK
	added, err := k.root.AddVersion(ctx, ark, v, o)
	if errors.Is(err, ocfl.ErrConflict) && k.moved(ark) {
		return added, job.Errorf(job.Stale, "store", t.Job().ID, "%w: %s has a newer version than %q", inventory.ErrStale, k.dir, k.head())
	}
	return added, err
}
