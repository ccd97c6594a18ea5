package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// farm holds the state of one moment: pinned databases, small files, and hard links of all others.
type farm struct {
	source  *Source
	skip    []string // parts
	dir     string   // of the links
	pins    map[string]Pinned
	noted   map[string][]byte
	sizes   map[string]int64 // of the files at that moment, by their names in the data directory
	direct  []string         // files that cannot be linked: they are copied from where they are
	late    []string         // entries that are copied afterwards
	stored  []string
	unknown []string
}

// newFarm makes an empty one in place of what an earlier backup left.
func newFarm(s *Source, skip []string) (*farm, error) {
	f := &farm{
		source: s, skip: skip, dir: filepath.Join(s.Data, SnapshotName), pins: map[string]Pinned{}, noted: map[string][]byte{},
		sizes: map[string]int64{}, unknown: []string{},
	}
	if err := Sweep(s.Data); err != nil {
		return nil, err
	}
	return f, os.Mkdir(f.dir, 0o700)
}

// Sweep removes the links that a backup left in a data directory when its process ended. No backup may be under way.
func Sweep(data string) error { return os.RemoveAll(filepath.Join(data, SnapshotName)) }

// close ends the snapshot.
func (f *farm) close() error {
	err := os.RemoveAll(f.dir)
	for _, p := range f.pins {
		err = errors.Join(err, p.Close())
	}
	return err
}

// take takes the state of this moment. Commits wait for it.
func (f *farm) take() error {
	names, err := os.ReadDir(f.source.Data)
	if err != nil {
		return err
	}
	if err := f.pin(names); err != nil {
		return err
	}
	var linked []string
	for _, d := range names {
		name := d.Name()
		e := Find(f.source.Entries, name)
		switch {
		case e == nil:
			f.unknown = append(f.unknown, name)
		case e.How == Left || e.How == Database || e.Part != "" && slices.Contains(f.skip, e.Part):
		case e.How == Linked:
			linked = append(linked, name)
		case e.How == Noted:
			if f.noted[name], err = os.ReadFile(filepath.Join(f.source.Data, name)); err != nil {
				return err
			}
		case e.How == Late:
			f.late = append(f.late, name)
		case e.How == Stored:
			f.stored = append(f.stored, name)
		}
	}
	return f.links(linked)
}

// pin pins the databases, in the order of the entries.
func (f *farm) pin(names []fs.DirEntry) error {
	for _, e := range f.source.Entries {
		there := slices.ContainsFunc(names, func(d fs.DirEntry) bool { return d.Name() == e.Name })
		if e.How != Database || !there {
			continue
		}
		p, err := f.source.Pin(filepath.Join(f.source.Data, e.Name))
		if err != nil {
			return err
		}
		f.pins[e.Name] = p
	}
	return nil
}

// links links all files of entries. Lists that grow name files that were there before: so all sizes are read before the first link is made, and
// no more than that is copied.
func (f *farm) links(names []string) error {
	seen := map[string]fs.FileInfo{}
	err := f.walk(names, func(name string, info fs.FileInfo) error {
		if info.Mode().IsRegular() {
			seen[name] = info
		}
		return nil
	})
	if err != nil {
		return err
	}
	return f.walk(names, func(name string, info fs.FileInfo) error {
		from, to := filepath.Join(f.source.Data, name), filepath.Join(f.dir, name)
		switch {
		case info.IsDir():
			return os.MkdirAll(to, 0o700)
		case !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0: // sockets, pipes and the like
			return nil
		}
		f.sizes[name] = info.Size()
		if before := seen[name]; before != nil && os.SameFile(before, info) {
			f.sizes[name] = before.Size()
		}
		if err := os.Link(from, to); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				delete(f.sizes, name)
				return nil
			}
			f.direct = append(f.direct, name) // on another file system, somebody else's, or there are no links here
		}
		return nil
	})
}

// walk calls do for everything in entries of the data directory that is still there when it comes to it.
func (f *farm) walk(names []string, do func(name string, info fs.FileInfo) error) error {
	for _, name := range names {
		if err := walk(f.source.Data, name, do); err != nil {
			return err
		}
	}
	return nil
}

// walk calls do for a file or directory below root and all that is in it. What is removed meanwhile is passed over.
func walk(root, name string, do func(name string, info fs.FileInfo) error) error {
	return filepath.WalkDir(filepath.Join(root, name), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		inner, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return do(inner, info)
	})
}
