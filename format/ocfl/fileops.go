package ocfl

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/stagepost/stagepost/internal/durable"
)

// fileOps are the operations that change a storage root. All writes use them, so that a test can stop before and
// after each one. Names are relative to the root, with slashes.
type fileOps interface {
	Mkdir(name string) error
	Create(name string) (syncFile, error) // refuses an existing name
	Rename(from, to string) error
	Exchange(a, b string) error // two existing directories, in one step
	Remove(name string) error
	RemoveAll(name string) error
	SyncDir(name string) error
	// Within gives the operations for a series of names below dir, until Leave. Other names can be used too.
	Within(dir string) (fileOps, error)
	Leave()
	// Set gives a set of files and directories that are synced together.
	Set() syncSet
}

// syncSet is a [durable.Set]: File takes over a file that was written, Dir adds a directory after its names have
// changed, and Sync returns when all of them are on the disk. Close ends a set, synced or not.
type syncSet interface {
	File(f syncFile, size int64) error
	Dir(name string) error
	Sync() error
	Close() error
}

// syncFile is a file that is being written.
type syncFile interface {
	io.Writer
	Sync() error
	Close() error
}

// diskOps are fileOps on the directory itself.
type diskOps struct{ root *os.Root }

func (d diskOps) Mkdir(name string) error { return d.root.Mkdir(name, 0o755) }

func (d diskOps) Create(name string) (syncFile, error) {
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|durable.Plain, 0o644)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d diskOps) Rename(from, to string) error { return d.root.Rename(from, to) }

func (d diskOps) Exchange(a, b string) error {
	from, err := openPlain(d.root, path.Dir(a))
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := openPlain(d.root, path.Dir(b))
	if err != nil {
		return err
	}
	defer to.Close()
	return exchangeAt(int(from.Fd()), path.Base(a), int(to.Fd()), path.Base(b))
}

func (d diskOps) Remove(name string) error { return d.root.Remove(name) }

func (d diskOps) RemoveAll(name string) error { return d.root.RemoveAll(name) }

func (d diskOps) SyncDir(name string) error {
	f, err := openPlain(d.root, name)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

func (d diskOps) Within(dir string) (fileOps, error) {
	below, err := d.root.OpenRoot(dir)
	return &nearOps{diskOps: d, prefix: dir + "/", below: recent{root: below}}, err
}

func (d diskOps) Leave() {}

// nearOps are diskOps that open names in one directory from there: os.Root opens each directory on the way. They are
// for one goroutine, and directories below are not renamed meanwhile.
type nearOps struct {
	diskOps
	prefix string
	below  recent
}

func (n *nearOps) Mkdir(name string) error {
	if rest, ok := strings.CutPrefix(name, n.prefix); ok {
		return diskOps{n.below.root}.Mkdir(rest)
	}
	return n.diskOps.Mkdir(name)
}

func (n *nearOps) Create(name string) (syncFile, error) {
	rest, ok := strings.CutPrefix(name, n.prefix)
	if !ok {
		return n.diskOps.Create(name)
	}
	at, base, err := n.below.in(rest)
	if err != nil {
		return nil, err
	}
	return diskOps{at}.Create(base)
}

func (n *nearOps) Rename(from, to string) error {
	old, ok := strings.CutPrefix(from, n.prefix)
	if fresh, both := strings.CutPrefix(to, n.prefix); ok && both {
		return n.below.root.Rename(old, fresh)
	}
	return n.diskOps.Rename(from, to)
}

func (n *nearOps) Leave() {
	n.below.leave()
	_ = n.below.root.Close()
}

// recent opens names below a root from the directory of the last one, which stays open until leave.
type recent struct {
	root *os.Root
	dir  string
	at   *os.Root // dir; nil: none
}

// in returns the directory of a name, and the name there.
func (r *recent) in(name string) (at *os.Root, base string, err error) {
	dir, base := path.Dir(name), path.Base(name)
	if dir == "." {
		return r.root, base, nil
	}
	if r.at == nil || dir != r.dir {
		r.leave()
		if r.at, err = r.root.OpenRoot(dir); err != nil {
			return nil, "", err
		}
		r.dir = dir
	}
	return r.at, base, nil
}

func (r *recent) leave() {
	if r.at != nil {
		_ = r.at.Close()
		r.at = nil
	}
}

func (d diskOps) Set() syncSet { return diskSet{durable.NewSet(d.root)} }

// diskSet is the set of files of diskOps.
type diskSet struct{ *durable.Set }

func (s diskSet) File(f syncFile, size int64) error {
	if file, ok := f.(*os.File); ok {
		return s.Set.File(file, size)
	}
	return errors.Join(f.Sync(), f.Close())
}

// writeIn creates a file that the set syncs.
func writeIn(ops fileOps, set syncSet, name string, data []byte) error {
	f, err := ops.Create(name)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	return set.File(f, int64(len(data)))
}

// writeSynced creates a file whose bytes are on disk afterwards (its directory entry is not, until SyncDir).
func writeSynced(ops fileOps, name string, data []byte) error {
	f, err := ops.Create(name)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// mkdirSynced creates dir and its missing parents; afterwards all their entries are on disk.
func mkdirSynced(ops fileOps, dir string) error {
	err := ops.Mkdir(dir)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist) && dir != ".":
		if err := mkdirSynced(ops, path.Dir(dir)); err != nil {
			return err
		}
		if err := ops.Mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	case err != nil:
		return err
	}
	return ops.SyncDir(path.Dir(dir))
}

// mkdirAll creates dir and its missing parents. Nothing is synced.
func mkdirAll(ops fileOps, dir string) error {
	err := ops.Mkdir(dir)
	if errors.Is(err, fs.ErrNotExist) && dir != "." {
		if err := mkdirAll(ops, path.Dir(dir)); err != nil {
			return err
		}
		err = ops.Mkdir(dir)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// openRegular opens a regular file. It refuses other types before opening: a named pipe would block indefinitely, and
// a storage root must not have symbolic links (E090).
func openRegular(root *os.Root, name string) (*os.File, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	}
	return openPlain(root, name)
}

// openPlain opens a regular file or a directory for reading.
func openPlain(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, os.O_RDONLY|durable.Plain, 0)
}

// readLimited reads a whole small file and refuses one that is larger than limit bytes.
func readLimited(root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := openRegular(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = &fs.PathError{Op: "read", Path: name, Err: errors.New("file is too large")}
	}
	return data, err
}

func readDir(root *os.Root, name string) ([]fs.DirEntry, error) {
	f, err := openPlain(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	return entries, err
}
