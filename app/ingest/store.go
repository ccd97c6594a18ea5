package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/location"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
)

// store is the step of Storing: under the object's lock it adds the version to every storage location and reads it back
// from each. What is stored already is not stored again. The job is the version's key, so that a second attempt finds
// what the first one stored; its epoch names the stage.
func (t *task) store(ctx context.Context) error {
	p, err := t.app.profile(t.spec.Profile)
	if err != nil {
		return err
	}
	who := t.data.Identity
	if who == nil {
		return job.Errorf(job.Internal, "store", t.Job().ID, "the object has no identifier")
	}
	locks, err := t.take(ctx, inventory.Want{Kind: inventory.ObjectLock, Name: who.ARK, Note: "adding a version"})
	if err != nil {
		return t.again(err)
	}
	if err := t.storeAll(ctx, p.Storage, locks); err != nil {
		return t.waitFor(t.again(err))
	}
	t.data.Unsynced = ""
	if t.data.Version, err = location.Number(t.data.Places[0].Name); err != nil {
		return job.Errorf(job.Internal, "store", t.Job().ID, "version %q: %w", t.data.Places[0].Name, err)
	}
	t.app.reserved.spend(t.Job().ID, 0)
	return nil
}

// storeAll adds the version to the locations one after the other, once all of them can be written to and those that are
// behind have caught up. Before each the lock is checked once more; what fences the commit itself is the head that was
// read under the lock, which the location compares when it commits.
func (t *task) storeAll(ctx context.Context, dirs []string, locks []inventory.Lock) error {
	places, lead, err := t.survey(ctx, dirs)
	if err != nil {
		return err
	}
	t.data.Unchanged = false
	if v, err := t.unchanged(ctx, places); err != nil || v != nil {
		if err != nil {
			return err
		}
		return t.keepVersion(ctx, v, places, locks)
	}
	list, err := t.versionListOn(ctx, lead)
	if err == nil {
		err = t.warnDeleted(ctx, lead)
	}
	if err != nil {
		return err
	}
	t.data.List, t.data.Places = list, nil
	for i, k := range places {
		if places[i], err = t.catchUp(ctx, locks, lead, k); err != nil {
			return placeError(dirs[i], err)
		}
	}
	for i, k := range places {
		if err := t.app.locks.Check(ctx, locks...); err != nil {
			return err
		}
		name, err := t.storeIn(ctx, k, lead, list)
		if err != nil {
			return placeError(k.dir, err)
		}
		t.data.Places = append(t.data.Places, inventory.Place{Dir: k.dir, Name: name})
		t.Progress(int64(i+1), int64(len(dirs)), "places")
	}
	return nil
}

// placeError gives an error its location, and the cause storage unless it is known to be another.
func placeError(dir string, err error) error {
	var e *errCaused
	var refused *location.Refusal
	if errors.Is(err, inventory.ErrStale) || errors.As(err, &refused) {
		return err
	}
	if err = named(err); final(err) || errors.As(err, &e) {
		return fmt.Errorf("storage location %s: %w", dir, err)
	}
	return &errCaused{cause: CauseStorage, again: true, err: fmt.Errorf("storage location %s: %w", dir, err)}
}

// storeIn adds the version to one location and reads it back. Files that stay come from the leading location, where the
// version before was looked up.
func (t *task) storeIn(ctx context.Context, k, lead *kept, list string) (string, error) {
	j := t.Job()
	v := ocfl.Version{Created: j.Created.UTC().Truncate(time.Second), User: ocfl.User{Name: t.spec.Submitter},
		Message: t.spec.Note}
	if v.User.Name == "" {
		v.User.Name = "stagepost"
	}
	if v.Message == "" {
		v.Message = "ingested"
	}
	ark := t.data.Identity.ARK
	for f, err := range workdir.Lines[listed](t.dir.Root, list) {
		if err != nil {
			return "", err
		}
		open := func() (io.ReadCloser, error) { return f.open(t.dir) }
		if f.Kept {
			open = func() (io.ReadCloser, error) { return lead.object.Open(lead.before(j.ID), f.Path) }
		}
		v.Files = append(v.Files, ocfl.File{Path: f.Path, Digest: f.SHA512, Size: f.Size, Open: open})
	}
	if err := t.adopt(ownList); err != nil {
		return "", err
	}
	added, err := t.add(ctx, k, v, ocfl.Options{Stage: t.Fence(), Key: string(j.ID),
		ExpectHead: t.app.expect(k.head()), Before: t.dir.Flush})
	if err != nil {
		return "", err
	}
	read, err := k.root.VerifyVersion(ctx, ark, added.Version)
	if err != nil {
		return "", fmt.Errorf("read back %s of %s: %w", added.Version, ark, err)
	}
	if added.Created {
		t.app.moved(Stored, added.Bytes)
	}
	t.app.moved(ReadBack, read.Bytes)
	t.Log().Info("stored", "ark", ark, "version", added.Version, "new_files", added.Stored, "read_back", read.Bytes)
	return added.Version, nil
}

// kept is an object in one storage location as it was seen under the object's lock.
type kept struct {
	dir    string // as in the profile
	root   *location.Root
	object *ocfl.Object // nil: there is none yet
}

// inspect reads what a storage location has of the object.
func (t *task) inspect(ctx context.Context, dir string) (*kept, error) {
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

// older names the versions on which a job builds, oldest first: those before its own if that is there already, else
// all.
func (k *kept) older(id job.ID) []string {
	if k.object == nil {
		return nil
	}
	all := k.object.Versions()
	own := slices.IndexFunc(all, func(name string) bool {
		return k.object.Inventory().Versions[name].Key() == string(id)
	})
	if own >= 0 {
		return all[:own]
	}
	return all
}

// has reports whether the job's version is there already.
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

// moved reports whether the location has another head than before: a job wrote without the lock, or after it lost it.
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

// catchUp adds to a location the versions that only the leading one has: a job stored them there and failed before it
// came here, the location is new to the profile, or it lost them. Afterwards the job's own version follows on the same
// ones everywhere.
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
		if k, err = t.inspect(ctx, k.dir); err != nil {
			return k, err
		}
	}
	return k, nil
}

// missing names the versions of the leading location that another lacks, oldest first, up to the job's own. The other's
// are the first of the leader's.
func missing(lead, k *kept, id job.ID) []string {
	return lead.older(id)[min(len(k.older(id)), len(lead.older(id))):]
}

// add adds a version to a location. A conflict because the location has another head is ErrStale: the lock was of no
// use, and what was built under it is built on the wrong version.
func (t *task) add(ctx context.Context, k *kept, v ocfl.Version, o ocfl.Options) (ocfl.Added, error) {
	ark := t.data.Identity.ARK
	added, err := k.root.AddVersion(ctx, ark, v, o)
	if errors.Is(err, ocfl.ErrConflict) && k.moved(ark) {
		return added, job.Errorf(job.Stale, "store", t.Job().ID, "%w: %s has a newer version than %q",
			inventory.ErrStale, k.dir, k.head())
	}
	return added, err
}

// survey reads the object in all storage locations of the profile, before anything is written to one of them, and
// returns the leading one: that which has all versions that any of them has. A location that may not be used is a
// *location.Refusal. Locations that contradict each other or the inventory, and an object that this installation did
// not store, end the job.
func (t *task) survey(ctx context.Context, dirs []string) (all []*kept, lead *kept, err error) {
	ids := map[string]string{}
	for _, dir := range dirs {
		k, err := t.inspect(ctx, dir)
		if err != nil {
			return nil, nil, placeError(dir, err)
		}
		if other, twice := ids[k.root.ID]; twice {
			return nil, nil, fail(CauseStorage, "the profile names one storage location twice: %s and %s are the "+
				"same; correct its list storage", other, dir)
		}
		ids[k.root.ID] = dir
		all = append(all, k)
	}
	id := t.Job().ID
	lead = slices.MaxFunc(all, func(a, b *kept) int { return len(a.older(id)) - len(b.older(id)) })
	for _, k := range all {
		if n := len(k.older(id)); n < len(lead.older(id)) && k.has(id) {
			return nil, nil, fail(CauseStorage, "the storage locations disagree about %s: %s lacks %s of %s, and has "+
				"a later version; run: stagepost admin fsck",
				t.data.Identity.ARK, k.dir, lead.older(id)[n], lead.dir)
		}
		for i, name := range k.older(id) {
			if first := lead.older(id)[i]; location.Mark(k.object, name) != location.Mark(lead.object, first) {
				return nil, nil, fail(CauseStorage,
					"the storage locations disagree about %s: %s of %s is not %s of %s; run: stagepost admin fsck",
					t.data.Identity.ARK, name, k.dir, first, lead.dir)
			}
		}
	}
	return all, lead, t.recognize(ctx, all, lead)
}

// recognize refuses an object of which the inventory has more versions than storage, or that has versions which the
// inventory lacks: another program stored them, or the inventory lost them.
func (t *task) recognize(ctx context.Context, all []*kept, lead *kept) error {
	ark := t.data.Identity.ARK
	known, err := t.app.inventory.Objects(ctx, inventory.Query{ARK: ark})
	if err != nil {
		return err
	}
	newest, recorded := 0, map[inventory.Place]bool{}
	for _, o := range known {
		newest = o.Head
		for _, v := range o.Versions {
			for _, p := range v.Places {
				recorded[p] = true
			}
		}
	}
	stored := 0
	for _, k := range all {
		n, err := location.Number(k.head())
		if err != nil {
			return err
		}
		stored = max(stored, n)
	}
	if stored < newest {
		return fail(CauseStorage, "version %d of %s is recorded, and no storage location has more than %d; run: "+
			"stagepost admin fsck", newest, ark, stored)
	}
	jobs, err := t.app.inventory.JobsOf(ctx, ark)
	if err != nil {
		return err
	}
	ours := map[string]bool{}
	for _, id := range jobs {
		ours[id] = true
	}
	for _, name := range lead.older(t.Job().ID) {
		key := lead.object.Inventory().Versions[name].Key()
		if !ours[key] && !recorded[inventory.Place{Dir: lead.dir, Name: name}] {
			return fail(CauseIdentifiers,
				"%s has the object %s already, and the inventory does not know its version %s (%s): "+
					"submit under another identifier, or if the inventory lost it, stop the server and run: stagepost "+
					"ingest inventory rebuild",
				lead.dir, ark, name, location.MadeBy(key))
		}
	}
	return nil
}
