package backup

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/format/ocfl"
)

const (
	objectMark    = "0=ocfl_object_"
	inventoryFile = "inventory.json"
)

// stagingDir has the work of versions that are being stored.
var stagingDir = filepath.Join("extensions", "stagepost-staging")

// stored copies storage roots.
func (w *writer) stored(m *Manifest) (err error) {
	known, err := w.Open(filepath.Join(w.dir, dataName))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, known.Close()) }()
	m.Schemas = known.Schemas()
	for _, name := range w.farm.stored {
		info, err := os.Stat(filepath.Join(w.Data, name))
		if err == nil && !info.IsDir() {
			err = w.copyLate(name, info)
		} else if err == nil {
			err = w.storageDir(known, name, "", info)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// storageDir copies a directory of a storage root; inner is its name in there.
func (w *writer) storageDir(known Databases, root, inner string, info fs.FileInfo) error {
	if inner == stagingDir {
		return nil
	}
	name := filepath.Join(root, inner)
	entries, err := os.ReadDir(filepath.Join(w.Data, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(entries, func(d fs.DirEntry) bool { return strings.HasPrefix(d.Name(), objectMark) }) {
		return w.object(known, name, entries)
	}
	for _, d := range entries {
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && d.IsDir() {
			err = w.storageDir(known, root, filepath.Join(inner, d.Name()), info)
		} else if err == nil {
			err = w.copyLate(filepath.Join(name, d.Name()), info)
		}
		if err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(w.dir, dataName, name)); inner != "" && errors.Is(err, fs.ErrNotExist) {
		return nil // nothing in it belongs to the set, and a storage root has no empty directories
	}
	return w.copyLate(name, info)
}

// object copies an object without the versions that were stored after the moment. Each version directory has the
// inventory of its time.
func (w *writer) object(known Databases, name string, entries []fs.DirEntry) error {
	keep, whole, err := w.versions(known, name)
	if err != nil || !whole && len(keep) == 0 {
		return err
	}
	info, err := os.Stat(filepath.Join(w.Data, name))
	if err == nil {
		err = w.copyLate(name, info)
	}
	if err != nil {
		return err
	}
	for _, d := range entries {
		inner := filepath.Join(name, d.Name())
		switch {
		case whole || slices.Contains(keep, d.Name()):
		case strings.HasPrefix(d.Name(), inventoryFile) || d.IsDir() && isVersion(d.Name()):
			continue
		}
		if err := walk(w.Data, inner, w.copyLate); err != nil {
			return err
		}
	}
	if whole {
		return nil
	}
	return w.headOf(name, keep[len(keep)-1])
}

// headOf makes the inventory of a version that of the object.
func (w *writer) headOf(name, version string) error {
	dir := filepath.Join(w.Data, name, version)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, d := range entries {
		if !strings.HasPrefix(d.Name(), inventoryFile) {
			continue
		}
		info, err := d.Info()
		// its content may be another version's, its mode and time do
		if now, gone := os.Stat(filepath.Join(w.Data, name, d.Name())); gone == nil {
			info = now
		}
		if err == nil {
			err = w.one(filepath.Join(dir, d.Name()), inData(filepath.ToSlash(filepath.Join(name, d.Name()))), info,
				-1, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// versions names the versions of an object up to the first that the databases do not know. whole: all that is there
// is to be copied, as it cannot be read, or not by this program; a backup does not check it.
func (w *writer) versions(known Databases, name string) (keep []string, whole bool, err error) {
	text, err := os.ReadFile(filepath.Join(w.Data, name, inventoryFile))
	if err != nil {
		return nil, true, nil
	}
	var inv ocfl.Inventory
	if json.Unmarshal(text, &inv) != nil {
		return nil, true, nil
	}
	for _, v := range inv.VersionNames() {
		if _, err := os.Stat(filepath.Join(w.Data, name, v, inventoryFile)); err != nil || inv.Versions[v] == nil {
			return nil, true, nil
		}
		if key := inv.Versions[v].Key(); key != "" {
			yes, err := known.Has(key)
			if err != nil {
				return nil, false, err
			}
			if !yes {
				return keep, false, nil
			}
		}
		keep = append(keep, v)
	}
	return keep, false, nil
}

// isVersion reports whether a name is that of a version: v1, v0002.
func isVersion(name string) bool {
	digits, ok := strings.CutPrefix(name, "v")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}
