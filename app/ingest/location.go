package ingest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stagepost/stagepost/app/ingest/location"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/format/ocfl"
)

// causeLocation is the code of the wait for a storage location that may not be used as it is.
const causeLocation = "storage-location"

// locationError says why a storage location may not be used, and what to do.
type locationError struct {
	dir      string // as the profile names it
	sentence string
	remedy   string
}

func (e *locationError) Error() string { return e.sentence + "; " + e.remedy }

// storageRoot is an open storage location.
type storageRoot struct {
	*ocfl.Root
	id   string      // of the location
	info os.FileInfo // of its directory when it was opened
}

// root opens a storage location. One that is new is made; one that may not be used is a *locationError. Its identity is read each time: a file system that is
// mounted or unmounted later shows another one.
func (a *App) root(ctx context.Context, dir string) (*storageRoot, error) {
	return a.openRoot(ctx, dir, true)
}

// openRoot is root; without fresh it makes no new place, and one that is not there is fs.ErrNotExist.
func (a *App) openRoot(ctx context.Context, dir string, fresh bool) (*storageRoot, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, err := a.inventory.Location(ctx, dir)
	if err != nil {
		return nil, err
	}
	path := a.place(dir)
	id, err := usable(dir, path, known, a.inventory.Installation())
	if errors.Is(err, fs.ErrNotExist) && fresh {
		if id, err = a.makeLocation(ctx, dir, path); err == nil {
			err = judgeLocation(dir, known, id, a.inventory.Installation())
		}
	}
	if err != nil {
		return nil, err
	}
	if known == "" {
		if err := a.inventory.EnterLocation(ctx, dir, id.Location, a.now()); err != nil {
			return nil, err
		}
	}
	return a.openOCFL(dir, path, id)
}

// usable reads the identity of a storage location and refuses one that an installation may not use; known is its id in the inventory. One without a file
// that was never used is fs.ErrNotExist.
func usable(dir, path, known, installation string) (location.Identity, error) {
	id, err := location.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && known == "":
		return id, fmt.Errorf("storage location %s: %w", dir, fs.ErrNotExist)
	case errors.Is(err, fs.ErrNotExist):
		return id, &locationError{dir, fmt.Sprintf("the storage location %s is not mounted: %s is missing in %s", dir, location.Name, path),
			"mount its file system; if another directory is to take its place, run: " + adoptCommand(dir)}
	case errors.Is(err, location.ErrDamaged):
		return id, &locationError{dir, err.Error(), "restore the file from a backup, or run: " + adoptCommand(dir)}
	case err != nil:
		return id, err
	}
	return id, judgeLocation(dir, known, id, installation)
}

// judgeLocation refuses a location that belongs to another installation, or is another one than the inventory knows under this name.
func judgeLocation(dir, known string, id location.Identity, installation string) error {
	switch {
	case id.Installation != installation:
		return &locationError{dir, fmt.Sprintf("the storage location %s belongs to another installation (%s; this one is %s)", dir, id.Installation, installation),
			"name another directory in the profile; if the other installation must not write there any more, run: " + adoptCommand(dir)}
	case known != "" && known != id.Location:
		return &locationError{dir, fmt.Sprintf("the storage location %s is another one (%s) than the inventory knows by that name (%s)", dir, id.Location, known),
			"mount the right file system; if this one is to take its place, run: " + adoptCommand(dir)}
	}
	return nil
}

// adoptCommand is the command by which an operator gives a directory to the installation.
func adoptCommand(dir string) string {
	return fmt.Sprintf("stagepost ingest storage adopt %q --note REASON", dir)
}

// makeLocation makes a directory a storage location of this installation. One that has objects already, or versions in the inventory, is none: it
// belonged to somebody, or something else is mounted there.
func (a *App) makeLocation(ctx context.Context, dir, path string) (location.Identity, error) {
	id := location.New(a.inventory.Installation(), a.now())
	used, err := a.inventory.HasVersionsIn(ctx, dir)
	if err != nil {
		return id, err
	}
	objects, err := hasObjects(path)
	if err != nil {
		return id, err
	}
	if used || objects {
		return id, unnamed(dir)
	}
	root, err := ocfl.InitRoot(path, ocfl.DefaultLayout())
	if err != nil {
		return id, err
	}
	err = errors.Join(location.Create(path, id), root.Close())
	if errors.Is(err, fs.ErrExist) {
		return location.Read(path)
	}
	return id, err
}

// unnamed refuses a location that was used and does not say whose it is.
func unnamed(dir string) error {
	return &locationError{dir, fmt.Sprintf("it is not known to whom the storage location %s belongs: it has been used and has no %s", dir, location.Name),
		"mount the right file system; if the objects in it are of this installation, run: " + adoptCommand(dir)}
}

// hasObjects tells whether a directory has other directories than a storage root without objects has.
func hasObjects(path string) (bool, error) {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != extensions {
			return true, nil
		}
	}
	return false, err
}

// openOCFL opens the storage root of a location, or gives the one that is open if it is that of the same directory still.
func (a *App) openOCFL(dir, path string, id location.Identity) (*storageRoot, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	r := a.roots[dir]
	if r != nil && os.SameFile(r.info, info) && r.id == id.Location {
		return r, nil
	}
	if r != nil {
		a.retired = append(a.retired, r) // somebody may still read from it
	}
	root, err := ocfl.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	a.roots[dir] = &storageRoot{Root: root, id: id.Location, info: info}
	return a.roots[dir], nil
}

// place gives the directory of a storage location.
func (a *App) place(dir string) string {
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(a.options.Dir, dir)
}

// now is the time of the engine, or of the system before there is an engine.
func (a *App) now() time.Time {
	if a.engine == nil {
		return time.Now()
	}
	return a.engine.Clock().Now()
}

// waitFor makes a wait of a storage location that may not be used: a person has to do something, and the job goes on by itself afterwards.
func (t *task) waitFor(err error) error {
	var e *locationError
	if !errors.As(err, &e) {
		return err
	}
	t.Log().Warn("storage location refused", "error", err)
	return engine.Wait(engine.Blocker{ // the record keeps no remedy: the sentence has it
		Code: causeLocation, Sentence: e.Error(), Until: t.Now().Add(6 * t.app.options.Look), Holder: "storage location " + e.dir,
	})
}

// storedAnywhere tells whether a storage location has an object of that name: those of the profile, and all others. A location of the profile that
// may not be used is a *locationError. One that cannot be read is passed over: what it has is seen before anything is written to it.
func (t *task) storedAnywhere(dirs []string) func(context.Context, string) (bool, error) {
	return func(ctx context.Context, ark string) (bool, error) {
		others, err := t.app.storagePlaces(ctx)
		if err != nil {
			return false, err
		}
		for i, dir := range append(slices.Clone(dirs), others...) {
			own := i < len(dirs)
			root, err := t.app.openRoot(ctx, dir, own)
			var refused *locationError
			switch {
			case own && errors.As(err, &refused):
				return false, err
			case err == nil:
				if has, err := root.Has(ark); err == nil && has {
					return true, nil
				}
			}
		}
		return false, ctx.Err()
	}
}
