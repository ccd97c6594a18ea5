package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Scheduled begins the names of sets that a schedule makes; only they are removed by it.
const Scheduled = "scheduled-"

// NameAt names a set by its time.
func NameAt(prefix string, at time.Time) string {
	return prefix + at.UTC().Format("20060102T150405.000Z")
}

// Found is a set in a backup directory.
type Found struct {
	Name     string
	Manifest *Manifest
}

// List returns the sets of an installation in a directory, oldest first; "" means those of all installations. What is
// no set, or cannot be read, is passed over.
func List(dir, installation string) ([]Found, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []Found
	for _, d := range names {
		if !d.IsDir() || strings.HasPrefix(d.Name(), partial) {
			continue
		}
		if m, err := ReadManifest(filepath.Join(dir, d.Name())); err == nil &&
			(installation == "" || m.Installation == installation) {
			all = append(all, Found{d.Name(), m})
		}
	}
	slices.SortStableFunc(all, func(a, b Found) int { return a.Manifest.Moment.Compare(b.Manifest.Moment) })
	return all, nil
}

// Prune removes the oldest scheduled sets of an installation beyond so many, and names them.
func Prune(dir, installation string, keep int) (gone []string, err error) {
	all, err := List(dir, installation)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(f Found) bool { return !strings.HasPrefix(f.Name, Scheduled) })
	for len(all) > keep {
		name := all[0].Name
		aside := filepath.Join(dir, partial+installation+"-"+name) // what is half removed has no name of a set
		if err := os.Rename(filepath.Join(dir, name), aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return gone, err
		}
		if err := os.RemoveAll(aside); err != nil {
			return gone, err
		}
		gone, all = append(gone, name), all[1:]
	}
	return gone, nil
}
