package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/location"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
)

// store is the step of Storing: under the object's lock it adds the version to every storage location and reads it back from each. What is stored
// already is not stored again. The job is the
// version's key, so that a second attempt finds what the first one stored; its epoch names the stage.
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
	if t.data.Version, err = location.Number(t.data.Places[0].Name); err != nil {
		return job.Errorf(job.Internal, "store", t.Job().ID, "version %q: %w", t.data.Places[0].Name, err)
	}
	t.app.room.spend(t.Job().ID, 0)
	return nil
}

// storeAll adds the version to the places one after the other, once all of them can be written to and those that are behind have caught up. Before each
// the lock is checked once more; what fences the commit itself is the head that was seen under the lock, which the place compares when it commits.
func (t *task) storeAll(ctx context.Context, dirs []string, locks []inventory.Lock) error {
	places, lead, err := t.places(ctx, dirs)
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

// placeError gives an error its place, and the cause storage unless it is known to be another.
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

// storeIn adds the version to one place and reads it back. Files that stay come from the leading place, where the version before was looked up.
func (t *task) storeIn(ctx context.Context, k, lead *kept, list string) (string, error) {
	j := t.Job()
	v := ocfl.Version{Created: j.Created.UTC().Truncate(time.Second), User: ocfl.User{Name: t.spec.Submitter}, Message: t.spec.Note}
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
		open := func() (io.ReadCloser, error) { return t.dir.Open(f.Path) }
		if f.Kept {
			open = func() (io.ReadCloser, error) { return lead.object.Open(lead.before(j.ID), f.Path) }
		}
		v.Files = append(v.Files, ocfl.File{Path: f.Path, Digest: f.SHA512, Size: f.Size, Open: open})
	}
	added, err := t.add(ctx, k, v, ocfl.Options{Stage: t.Fence(), Key: string(j.ID), ExpectHead: t.app.expect(k.head())})
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
