package ingest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/format/noid"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
)

// What the inventory has about stored objects.
type (
	Object      = inventory.Object
	ObjectQuery = inventory.Query
	StoredFile  = inventory.File
	Permit      = inventory.Permit
)

// Objects gives stored objects in order of their ARKs. An ARK may be in any form.
func (a *App) Objects(ctx context.Context, q ObjectQuery) ([]Object, error) {
	if q.ARK != "" {
		ark, err := noid.ParseARK(q.ARK)
		if err != nil {
			return nil, job.Errorf(job.Invalid, "objects", "", "%w", err)
		}
		q.ARK = ark.String()
	}
	return a.inventory.Objects(ctx, q)
}

// Files returns at most limit files of a version (0: the newest) after a path, in order of their paths.
func (a *App) Files(ctx context.Context, ark string, version int, after string, limit int) ([]StoredFile, error) {
	return a.inventory.Files(ctx, ark, version, after, limit)
}

// What the inventory has about versions.
type (
	Version = inventory.Version
	Place   = inventory.Place
)

// Content returns the paths of the files of a version in one storage location: path in the object to path below the
// location, for [App.OpenContent]. It reads the object's inventory there. A location that does not exist, or does not
// have the version, is fs.ErrNotExist; none is made.
func (a *App) Content(ctx context.Context, ark string, place Place) (map[string]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	missing := func(err error) error {
		if errors.Is(err, ocfl.ErrNotFound) {
			err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
		}
		return fmt.Errorf("storage location %s: %w", place.Dir, err)
	}
	root, err := ocfl.OpenRoot(a.locations.Path(place.Dir))
	if err != nil {
		return nil, missing(err)
	}
	defer root.Close()
	o, err := root.Object(ark)
	if err != nil {
		return nil, missing(err)
	}
	files, err := o.Files(place.Name)
	if err != nil {
		return nil, missing(err)
	}
	paths := make(map[string]string, len(files))
	for _, f := range files {
		paths[f.Path] = o.Dir() + "/" + f.Content
	}
	return paths, nil
}

// OpenContent opens a file of a storage location by the path that Content gave. It checks only that it is a file in the
// location.
func (a *App) OpenContent(place, path string) (*os.File, error) {
	root, err := os.OpenRoot(a.locations.Path(place))
	if err != nil {
		var where *fs.PathError
		if errors.As(err, &where) {
			err = where.Err // who fetches a package need not know where storage is
		}
		return nil, fmt.Errorf("storage location %s: %w", place, err)
	}
	defer root.Close()
	info, err := root.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	return root.Open(path)
}

// record is the step of Recording: it enters the version in the inventory, once, under the locks of object and
// inventory, which end with it. There is nothing to enter if the object was stored already.
func (t *task) record(ctx context.Context) error {
	p, err := t.app.profile(t.spec.Profile)
	if err != nil {
		return err
	}
	if t.data.Same != nil {
		return nil
	}
	who := t.data.Identity
	if who == nil || len(t.data.Places) == 0 {
		return job.Errorf(job.Internal, "record", t.Job().ID, "nothing was stored")
	}
	if t.data.Unchanged {
		t.data.Same = &record.SameObject{Identity: *who, Version: t.data.Version}
		t.data.Unchanged, t.data.Identity, t.data.Version, t.data.Places = false, nil, 0, nil
		return nil
	}
	j := t.Job()
	list, err := t.storedList()
	if err != nil {
		return err
	}
	locks, err := t.take(ctx,
		inventory.Want{Kind: inventory.ObjectLock, Name: who.ARK, Note: "adding a version"},
		inventory.Want{Kind: inventory.InventoryLock, Name: who.ARK, Note: "entering a version"})
	if err != nil {
		return t.again(err)
	}
	err = t.app.locks.Record(ctx, inventory.Entry{
		Object: inventory.Object{
			ARK: who.ARK, Owner: p.Owner, Collection: p.Collection, Profile: p.ID,
			Title: who.Title, Creator: who.Creator, Date: who.Date, LocalIDs: who.LocalIDs,
		},
		Job: string(j.ID), Batch: string(j.Parent), Submitter: t.spec.Submitter, Note: t.spec.Note,
		Version: t.data.Version, At: j.Created, Places: t.data.Places, Locks: locks,
	}, t.counted(list))
	if err == nil {
		t.app.freed(locks...)
	}
	return t.again(err)
}

// storedList gives the list that the version was stored from.
func (t *task) storedList() (string, error) {
	if t.data.List == "" || !t.dir.Has(t.data.List) {
		return "", fmt.Errorf("the list of the version's files is gone")
	}
	return t.data.List, nil
}

// counted reads the list and reports how far it came.
func (t *task) counted(list string) iter.Seq2[inventory.File, error] {
	return func(yield func(inventory.File, error) bool) {
		n := int64(0)
		for f, err := range workdir.Lines[listed](t.dir.Root, list) {
			if !yield(f.File, err) {
				return
			}
			n++
			t.Progress(n, max(n, int64(t.data.Files)), "files")
		}
	}
}
