package backup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stagepost/stagepost/job"
)

// Reader is what the caller supports of sets.
type Reader struct {
	Schemas map[string]int // newest schema of each database that this program reads
	// Describe describes a database that is not the one of the set, such as "it is of another installation".
	// Empty: it is not known.
	Describe func(file string, m *Manifest) string
}

// mostFaults bounds how much of what is wrong is listed.
const mostFaults = 10

// faults collects what is wrong with a set.
type faults struct {
	dir  string
	all  []error
	more int
}

func (f *faults) add(format string, args ...any) {
	if len(f.all) == mostFaults {
		f.more++
		return
	}
	f.all = append(f.all, job.Errorf(job.Invalid, "restore", "", format, args...))
}

func (f *faults) err() error {
	if f.more > 0 {
		f.all = append(f.all, job.Errorf(job.Invalid, "restore", "", "and %d more", f.more))
	}
	return errors.Join(f.all...)
}

// Check reads a whole set and compares it with its manifest. The error names what is missing, changed, not of this
// set, or from a newer version; kind NotFound or Invalid.
func Check(ctx context.Context, dir string, r Reader) (*Manifest, error) {
	m, err := ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	for name, version := range m.Schemas {
		if newest := r.Schemas[name]; version > newest {
			return nil, job.Errorf(job.Invalid, "restore", "",
				"%s has schema %d, made by stagepost %s; this program reads schema %d: restore it with that "+
					"version or a newer one",
				name, version, m.Version, newest)
		}
	}
	_, sum, err := digestOf(ctx, filepath.Join(dir, listName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, incomplete(dir, "it has no "+listName)
	case err != nil:
		return nil, &job.Error{Op: "restore", Kind: job.Unavailable, Err: err}
	case sum != m.List:
		return nil, job.Errorf(job.Invalid, "restore", "",
			"%s is not the list of this backup: it was changed, or copied from another one; choose another "+
				"backup", filepath.Join(dir, listName))
	}
	wrong := &faults{dir: dir}
	named := map[string]bool{manifestName: true, digestName: true, listName: true, ".": true, dataName: true,
		outsideName: true}
	err = eachFile(dir, m, func(f *File) error {
		named[f.Path] = true
		return wrong.compare(ctx, f, r, m)
	})
	if err != nil {
		return nil, err
	}
	err = walk(dir, ".", func(name string, _ fs.FileInfo) error {
		if !named[filepath.ToSlash(name)] {
			wrong.add("%s is not a file of this backup: it was added, or copied from another one; remove "+
				"it, or choose another backup", filepath.Join(dir, name))
		}
		return nil
	})
	if err != nil {
		return nil, &job.Error{Op: "restore", Kind: job.Unavailable, Err: err}
	}
	return m, wrong.err()
}

// compare compares a file with its line of the list.
func (w *faults) compare(ctx context.Context, f *File, r Reader, m *Manifest) error {
	name := filepath.Join(w.dir, filepath.FromSlash(f.Path))
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		w.add("%s is missing from the backup; choose another one", name)
		return nil
	case err != nil:
		return &job.Error{Op: "restore", Kind: job.Unavailable, Err: err}
	case f.Mode.Type() != info.Mode().Type():
		w.add("%s is not what the backup had there; choose another backup", name)
		return nil
	case f.Mode&fs.ModeSymlink != 0:
		if to, err := os.Readlink(name); err != nil || to != f.To {
			w.add("%s leads to %q, not to %q as in the backup; choose another backup", name, to, f.To)
		}
		return nil
	case !f.Mode.IsRegular():
		return nil
	}
	size, sum := info.Size(), ""
	if size == f.Size {
		if _, sum, err = digestOf(ctx, name); err != nil {
			return &job.Error{Op: "restore", Kind: job.Unavailable, Err: err}
		}
	}
	if sum == f.SHA256 && size == f.Size {
		return nil
	}
	if _, database := m.Schemas[strings.TrimPrefix(f.Path, dataName+"/")]; database && r.Describe != nil {
		if what := r.Describe(name, m); what != "" {
			w.add("%s does not belong to this backup: %s; choose another backup", name, what)
			return nil
		}
	}
	w.add("%s was changed after the backup (%d bytes, %d in the manifest, or another digest); choose another backup",
		name, size, f.Size)
	return nil
}
