package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/stagepost/stagepost/internal/sharedfile"
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
		source: s, skip: skip, dir: filepath.Join(s.Data, SnapshotName), pins: map[string]Pinned{},
		noted: map[string][]byte{},
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
		case e == nil && !unfinished(f.source.Entries, name):
			f.unknown = append(f.unknown, name)
		case e == nil:
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

// links links all files of entries. Lists that grow name files that were there before: so all sizes are read, and
// small files copied, before the first link is made, and no more than that is taken.
func (f *farm) links(names []string) error {
	seen := map[string]fs.FileInfo{}
	err := f.walkAll(names, func(name string, info fs.FileInfo) error {
		to := filepath.Join(f.dir, name)
		if info.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		seen[name] = info
		if info.Size() > smallFile {
			return nil
		}
		return f.took(name, copySmall(filepath.Join(f.source.Data, name), to))
	})
	if err != nil {
		return err
	}
	return f.walkAll(names, func(name string, info fs.FileInfo) error {
		from, to := filepath.Join(f.source.Data, name), filepath.Join(f.dir, name)
		before := seen[name]
		same := before != nil && os.SameFile(before, info)
		switch {
		case info.IsDir():
			return os.MkdirAll(to, 0o700)
		case same && before.Size() <= smallFile:
			return nil
		case !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0: // sockets, pipes and the like
			return nil
		}
		if before != nil && !same { // replaced meanwhile
			if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		f.sizes[name] = info.Size()
		if same {
			f.sizes[name] = before.Size()
		}
		return f.took(name, os.Link(from, to))
	})
}

// took notes how a file was taken. What cannot be linked is on another file system, another user's, or there are no
// links here.
func (f *farm) took(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
		delete(f.sizes, name)
	} else if err != nil {
		f.direct = append(f.direct, name)
	}
	return nil
}

// smallFile is the size up to which files are copied at the moment instead of linked: locks and counters are written
// in place, and a link would show what was written later.
const smallFile = 512

// copySmall copies a small file. Its time is that of the file, for the set.
func copySmall(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		return err
	}
	return errors.Join(os.Chmod(to, info.Mode().Perm()), os.Chtimes(to, info.ModTime(), info.ModTime()))
}

// walkAll calls do for all files of entries that still exist.
func (f *farm) walkAll(names []string, do func(name string, info fs.FileInfo) error) error {
	for _, name := range names {
		if err := walk(f.source.Data, name, do); err != nil {
			return err
		}
	}
	return nil
}

// walk calls do for a file or directory below root and all that is in it. What is removed meanwhile is passed over. A
// symbolic link to a directory is followed where the walk begins, for an operator may have put an entry elsewhere,
// and nowhere else.
func walk(root, name string, do func(name string, info fs.FileInfo) error) error {
	from := filepath.Join(root, name)
	if info, err := os.Stat(from); err == nil && info.IsDir() {
		from += string(filepath.Separator)
	}
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
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

// unfinished reports whether a file is an entry whose replacement was interrupted: it is not needed, and the next
// replacement removes it.
func unfinished(entries []Entry, name string) bool {
	for i := range entries {
		if name == sharedfile.Unfinished(entries[i].Name) {
			return true
		}
	}
	return false
}
