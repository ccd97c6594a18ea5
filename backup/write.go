package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// Pinned is a database at one moment; *sqlite.Snapshot is one.
type Pinned interface {
	CopyTo(ctx context.Context, file string) error
	Close() error
}

// Databases are the copied databases of a set that is being made.
type Databases interface {
	// Has reports whether they contain the job of a stored version.
	Has(maker string) (bool, error)
	// Schemas returns the versions of their schemas by file.
	Schemas() map[string]int
	Close() error
}

// Source is a data directory.
type Source struct {
	Data    string // absolute
	Entries []Entry
	// configuration outside the data directory that is copied: its name in the set, and where it lies
	Elsewhere    map[string]string
	Locations    []Location // what lies outside and is not copied
	Installation string
	Version      string // of the program
	Freeze       func(ctx context.Context, do func() error) error
	Pin          func(file string) (Pinned, error)
	Open         func(dir string) (Databases, error) // opens the copied databases, for reading only
}

// Options of [Write].
type Options struct {
	Dir     string   // the backup directory, which must exist
	Name    string   // of the set
	Without []string // parts to leave out
	Now     func() time.Time
}

// attempts is how often a moment is taken if a file that could not be linked was removed before it was copied.
const attempts = 3

// errMoved: a file without a link was removed before it was copied.
var errMoved = errors.New("removed while the backup was made")

// partial begins the names of sets that are being made; the installation follows.
const partial = ".partial-"

// Write makes a set. Kinds of error: Conflict (the set exists), Unavailable (no space, no access, ctx ended).
func Write(ctx context.Context, s *Source, o Options) (*Manifest, error) {
	target := filepath.Join(o.Dir, o.Name)
	if _, err := os.Lstat(target); err == nil {
		return nil, job.Errorf(job.Conflict, "backup", "", "%s exists already: choose another name", target)
	}
	err := sweepPartial(o.Dir, s.Installation)
	for range attempts {
		if err != nil {
			break
		}
		var m *Manifest
		if m, err = attempt(ctx, s, &o, target); err == nil {
			return m, nil
		}
		if !errors.Is(err, errMoved) {
			break
		}
		err = nil
	}
	if err == nil {
		err = errMoved
	}
	var known *job.Error
	if errors.As(err, &known) {
		return nil, err
	}
	return nil, &job.Error{Op: "backup", Kind: job.Unavailable, Err: err}
}

// sweepPartial removes what earlier backups of this installation left unfinished.
func sweepPartial(dir, installation string) error {
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, d := range names {
		if strings.HasPrefix(d.Name(), partial+installation) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, d.Name())))
		}
	}
	return err
}

// writer makes one set.
type writer struct {
	*Source
	ctx  context.Context
	dir  string // of the set, under its provisional name
	farm *farm
	list *list
}

// attempt makes the set once, or leaves nothing.
func attempt(ctx context.Context, s *Source, o *Options, target string) (m *Manifest, err error) {
	id := strings.ToLower(rand.Text())
	w := &writer{Source: s, ctx: ctx, dir: filepath.Join(o.Dir, partial+s.Installation+"-"+id)}
	if err := os.MkdirAll(filepath.Join(w.dir, dataName), 0o700); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(w.dir))
		}
	}()
	if w.farm, err = newFarm(s, o.Without); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.farm.close()) }()
	m = &Manifest{Format: Format, ID: id, Installation: s.Installation, Version: s.Version, Data: s.Data,
		Without: o.Without, Outside: s.Locations}
	err = s.Freeze(ctx, func() error {
		m.Moment = o.Now().UTC()
		err := w.farm.take()
		m.Frozen = o.Now().Sub(m.Moment).String()
		return err
	})
	if err != nil {
		return nil, err
	}
	m.Unknown = w.farm.unknown
	if w.list, err = newList(w.dir); err != nil {
		return nil, err
	}
	if err := errors.Join(w.everything(m), w.finish(m)); err != nil {
		return nil, err
	}
	m.Made = o.Now().UTC()
	if err := errors.Join(m.write(w.dir), syncDirs(w.dir)); err != nil {
		return nil, err
	}
	if err := os.Rename(w.dir, target); err != nil {
		return nil, err
	}
	return m, durable.Sync(o.Dir)
}

// finish closes the list.
func (w *writer) finish(m *Manifest) (err error) {
	m.List, err = w.list.finish()
	m.Files, m.Bytes = w.list.files, w.list.bytes
	return err
}

// everything copies what the moment has.
func (w *writer) everything(m *Manifest) error {
	if err := w.databases(); err != nil {
		return err
	}
	for name, text := range w.farm.noted {
		if err := w.note(name, text); err != nil {
			return err
		}
	}
	names, err := os.ReadDir(w.farm.dir)
	if err != nil {
		return err
	}
	for _, d := range names {
		if err := walk(w.farm.dir, d.Name(), w.copyLinked); err != nil {
			return err
		}
	}
	for _, name := range w.farm.direct {
		if err := w.copyDirect(name); err != nil {
			return err
		}
	}
	for _, name := range w.farm.late {
		if err := walk(w.Data, name, w.copyLate); err != nil {
			return err
		}
	}
	if err := w.stored(m); err != nil {
		return err
	}
	for name, from := range w.Elsewhere {
		if err := w.elsewhere(name, from); err != nil {
			return err
		}
	}
	return nil
}

// databases copies the pinned databases.
func (w *writer) databases() error {
	for name, p := range w.farm.pins {
		to := filepath.Join(w.dir, dataName, name)
		if err := p.CopyTo(w.ctx, to); err != nil {
			return err
		}
		info, err := os.Stat(filepath.Join(w.Data, name))
		if err != nil {
			return err
		}
		size, sum, err := digestOf(w.ctx, to)
		if err != nil {
			return err
		}
		if err := w.list.add(File{Path: inData(name), Mode: info.Mode(), Time: info.ModTime(), Size: size,
			SHA256: sum}); err != nil {
			return err
		}
	}
	return nil
}

// note writes a small file that was read at the moment.
func (w *writer) note(name string, text []byte) error {
	to := filepath.Join(w.dir, dataName, name)
	if err := putFile(to, text); err != nil {
		return err
	}
	size, sum, err := digestOf(w.ctx, to)
	if err != nil {
		return err
	}
	return w.list.add(File{Path: inData(name), Mode: 0o600, Time: time.Now(), Size: size, SHA256: sum})
}

// copyLinked copies what has a link. Directories have modes and times of the data directory, as far as they are still
// there.
func (w *writer) copyLinked(name string, info fs.FileInfo) error {
	if info.IsDir() {
		if now, err := os.Stat(filepath.Join(w.Data, name)); err == nil {
			info = now
		}
	}
	return w.one(filepath.Join(w.farm.dir, name), inData(filepath.ToSlash(name)), info, w.size(name), "")
}

// size is how much of a file there was at the moment.
func (w *writer) size(name string) int64 {
	if n, ok := w.farm.sizes[name]; ok {
		return n
	}
	return -1
}

// copyDirect copies a file that could not be linked.
func (w *writer) copyDirect(name string) error {
	from := filepath.Join(w.Data, name)
	info, err := os.Lstat(from)
	if err == nil {
		err = w.one(from, inData(filepath.ToSlash(name)), info, w.size(name), "")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", from, errMoved)
	}
	return err
}

// copyLate copies what is still there.
func (w *writer) copyLate(name string, info fs.FileInfo) error {
	from := filepath.Join(w.Data, name)
	err := w.one(from, inData(filepath.ToSlash(name)), info, -1, "")
	if _, gone := os.Lstat(from); err != nil && errors.Is(gone, fs.ErrNotExist) {
		return nil
	}
	return err
}

// elsewhere copies configuration that lies outside the data directory.
func (w *writer) elsewhere(name, from string) error {
	info, err := os.Stat(from) // it may be a link: what it leads to is meant
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return w.one(from, path.Join(outsideName, name), info, -1, from)
	}
	return walk(from, ".", func(inner string, info fs.FileInfo) error {
		at := filepath.Join(from, inner)
		return w.one(at, path.Join(outsideName, name, filepath.ToSlash(inner)), info, -1, at)
	})
}

// one copies a file, directory or symbolic link into the set and lists it. Anything else is passed over.
func (w *writer) one(from, name string, info fs.FileInfo, limit int64, origin string) error {
	to := filepath.Join(w.dir, filepath.FromSlash(name))
	f := File{Path: name, Mode: info.Mode(), Time: info.ModTime(), From: origin}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	switch {
	case info.IsDir():
		if err := os.MkdirAll(to, 0o700); err != nil {
			return err
		}
	case info.Mode()&fs.ModeSymlink != 0:
		var err error
		if f.To, err = os.Readlink(from); err != nil {
			return err
		}
		if err := os.Symlink(f.To, to); err != nil {
			return err
		}
	case info.Mode().IsRegular():
		var err error
		if f.Size, f.SHA256, err = copyFile(w.ctx, from, to, limit, 0o600, info.ModTime()); err != nil {
			return err
		}
	default:
		return nil
	}
	return w.list.add(f)
}
