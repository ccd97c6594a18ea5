package ingest

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
)

// kept is an object in one storage place as it was seen under the object's lock.
type kept struct {
	dir    string // as the profile names the place
	root   *ocfl.Root
	object *ocfl.Object // nil: there is none yet
}

// look sees what a storage place has of the object.
func (t *task) look(dir string) (*kept, error) {
	root, err := t.app.root(dir)
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

// before names the version on which a job builds: the one before its own if that is there already, else the head.
func (k *kept) before(id job.ID) string {
	before := ""
	if k.object == nil {
		return before
	}
	for _, name := range k.object.Versions() {
		if k.object.Inventory().Versions[name].Key() == string(id) {
			return before
		}
		before = name
	}
	return before
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

// number reads the name of a version; "" is 0.
func number(version string) (int, error) {
	if version == "" {
		return 0, nil
	}
	return strconv.Atoi(strings.TrimPrefix(version, "v"))
}

// catchUp adds to a place the versions that the first place has beyond their newest common one: a job stored them there and failed before it came
// here, or the place is new to the profile. Afterwards the job's own version follows on the same ones everywhere.
func (t *task) catchUp(ctx context.Context, locks []inventory.Lock, first, k *kept) (*kept, error) {
	for _, name := range missing(first, k, t.Job().ID) {
		if err := t.app.locks.Check(ctx, locks...); err != nil {
			return k, err
		}
		block := first.object.Inventory().Versions[name]
		created, err := time.Parse(time.RFC3339, block.Created)
		if err != nil {
			return k, err
		}
		v := ocfl.Version{Created: created, Message: block.Text()}
		if block.User != nil {
			v.User = *block.User
		}
		files, err := first.object.Files(name)
		if err != nil {
			return k, err
		}
		for _, f := range files {
			open := func() (io.ReadCloser, error) { return first.object.Open(name, f.Path) }
			v.Files = append(v.Files, ocfl.File{Path: f.Path, Digest: f.Digest, Size: -1, Open: open})
		}
		o := ocfl.Options{Stage: t.Fence(), Key: block.Key(), ExpectHead: t.app.expect(k.head())}
		if _, err := t.add(ctx, k, v, o); err != nil {
			return k, err
		}
		t.Log().Info("caught up", "ark", t.data.Identity.ARK, "place", k.dir, "version", name, "from", first.dir)
		if k, err = t.look(k.dir); err != nil {
			return k, err
		}
	}
	return k, nil
}

// missing names the versions of the first place that another lacks, oldest first, up to the job's own.
func missing(first, k *kept, id job.ID) []string {
	if first.object == nil || first == k {
		return nil
	}
	has := map[string]bool{}
	if k.object != nil {
		for _, name := range k.object.Versions() {
			has[mark(k.object, name)] = true
		}
	}
	all := first.object.Versions()
	if own := slices.IndexFunc(all, func(name string) bool { return first.object.Inventory().Versions[name].Key() == string(id) }); own >= 0 {
		all = all[:own]
	}
	for i := len(all) - 1; i >= 0; i-- {
		if has[mark(first.object, all[i])] {
			return all[i+1:]
		}
	}
	return all
}

// mark tells versions apart wherever they are: by the job that made them, or by time and message when no job of ours did.
func mark(o *ocfl.Object, version string) string {
	block := o.Inventory().Versions[version]
	if key := block.Key(); key != "" {
		return key
	}
	return block.Created + "\n" + block.Message
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
