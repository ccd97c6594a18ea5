package location

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/format/ocfl"
)

// Roots opens the storage locations of an installation by the names that profiles give them.
type Roots struct {
	data      string // the data directory; relative names begin there
	inventory *inventory.Inventory
	profiles  profile.Source
	now       func() time.Time

	mu      sync.Mutex // guards the rest
	roots   map[string]*Root
	retired []*Root // open, of directories that have another file system now
}

func NewRoots(data string, inv *inventory.Inventory, profiles profile.Source, now func() time.Time) *Roots {
	return &Roots{data: data, inventory: inv, profiles: profiles, now: now, roots: map[string]*Root{}}
}

// Close closes what is open.
func (l *Roots) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, r := range l.roots {
		errs = append(errs, r.Close())
	}
	for _, r := range l.retired {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// Root is an open storage location.
type Root struct {
	*ocfl.Root
	ID   string      // of the location
	info os.FileInfo // of its directory when it was opened
}

// Open opens a storage location. Its identity is read each time: a file system that is mounted or unmounted later has
// another one. With fresh, a location that is new is made; else it is fs.ErrNotExist. One that may not be used is a
// *Refusal.
func (l *Roots) Open(ctx context.Context, dir string, fresh bool) (*Root, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, err := l.inventory.Location(ctx, dir)
	if err != nil {
		return nil, err
	}
	path := l.Path(dir)
	id, err := Usable(dir, path, known, l.inventory.Installation())
	if errors.Is(err, fs.ErrNotExist) && fresh {
		if id, err = l.create(ctx, dir, path); err == nil {
			err = checkOwner(dir, known, id, l.inventory.Installation())
		}
	}
	if err != nil {
		return nil, err
	}
	if known == "" {
		if err := l.inventory.EnterLocation(ctx, dir, id.Location, l.now()); err != nil {
			return nil, err
		}
	}
	return l.openOCFL(dir, path, id)
}

// openOCFL opens the storage root of a location, or returns the open one if the directory is still the same.
func (l *Roots) openOCFL(dir, path string, id Identity) (*Root, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	r := l.roots[dir]
	if r != nil && os.SameFile(r.info, info) && r.ID == id.Location {
		return r, nil
	}
	if r != nil {
		l.retired = append(l.retired, r) // a download may still read from it
	}
	root, err := ocfl.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	l.roots[dir] = &Root{Root: root, ID: id.Location, info: info}
	return l.roots[dir], nil
}

// create makes a directory a storage location of this installation. A directory that has objects, or versions in the
// inventory, is refused: it belonged to another installation, or another file system is mounted there.
func (l *Roots) create(ctx context.Context, dir, path string) (Identity, error) {
	id := New(l.inventory.Installation(), l.now())
	used, err := l.inventory.HasVersionsIn(ctx, dir)
	if err != nil {
		return id, err
	}
	objects, err := HasObjects(path)
	if err != nil {
		return id, err
	}
	if used || objects {
		return id, Unnamed(dir)
	}
	root, err := ocfl.InitRoot(path, ocfl.DefaultLayout())
	if err != nil {
		return id, err
	}
	err = errors.Join(Create(path, id), root.Close())
	if errors.Is(err, fs.ErrExist) {
		return Read(path)
	}
	return id, err
}

// Existing opens a storage location that exists and may be used; it makes none.
func (l *Roots) Existing(ctx context.Context, dir string) (*ocfl.Root, bool, error) {
	root, err := l.Open(ctx, dir, false)
	var refused *Refusal
	if errors.As(err, &refused) || errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return root.Root, true, nil
}

// All lists the storage locations of profiles and inventory.
func (l *Roots) All(ctx context.Context) ([]string, error) {
	dirs, err := l.inventory.Dirs(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range l.profiles.IDs() {
		if p, ok := l.profiles.Get(id); ok {
			dirs = append(dirs, p.Storage...)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs), nil
}

// Path gives the directory of a storage location.
func (l *Roots) Path(dir string) string {
	return Path(l.data, dir)
}

// Path gives the directory of a storage location: relative names begin in the data directory.
func Path(data, dir string) string {
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(data, dir)
}

// Adopt gives a directory to this installation. It writes the file first: without the inventory's entry the location is
// refused as another one, and the operator repeats the command.
func (l *Roots) Adopt(ctx context.Context, dir, actor, note string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	path, at := l.Path(dir), l.now()
	if err := Adopt(path, l.inventory.Installation(), actor, note, at); err != nil {
		return err
	}
	id, err := Read(path)
	if err != nil {
		return err
	}
	return l.inventory.EnterLocation(ctx, dir, id.Location, at)
}
