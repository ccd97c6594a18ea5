package location

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/format/ocfl"
)

// Names in a storage root.
const (
	ObjectMark  = "0=ocfl_object_" // begins the name of the file that declares an object
	Extensions  = "extensions"     // of a storage root: no objects lie there
	StagingName = Extensions + "/stagepost-staging"
)

// HasObjects reports whether a directory has other directories than a storage root without objects has.
func HasObjects(path string) (bool, error) {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != Extensions {
			return true, nil
		}
	}
	return false, err
}

// EachObject calls do with the directory of each object below a storage root.
func EachObject(ctx context.Context, base string, do func(home string) error) error {
	return filepath.WalkDir(base, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return workdir.IgnoreMissing(err)
		case ctx.Err() != nil:
			return ctx.Err()
		case d.IsDir() && d.Name() == Extensions && filepath.Dir(file) == base:
			return fs.SkipDir
		case d.IsDir() || !strings.HasPrefix(d.Name(), ObjectMark):
			return nil
		}
		if err := do(filepath.Dir(file)); err != nil {
			return err
		}
		return fs.SkipDir // what else lies in the object is its own
	})
}

// ObjectID reads the id of an object from its inventory, as far as that goes.
func ObjectID(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	d := json.NewDecoder(io.LimitReader(f, 64<<20))
	if _, err := d.Token(); err != nil {
		return "", err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return "", err
		}
		if name != "id" {
			var skipped json.RawMessage
			if err := d.Decode(&skipped); err != nil {
				return "", err
			}
			continue
		}
		var id string
		err = d.Decode(&id)
		return id, err
	}
	return "", errors.New("it names no id")
}

// Mark identifies a version in any location: by the job that made it, or by time and message if no job of this
// installation did.
func Mark(o *ocfl.Object, version string) string {
	block := o.Inventory().Versions[version]
	if key := block.Key(); key != "" {
		return key
	}
	return block.Created + "\n" + block.Message
}

// Number reads the name of a version; "" is 0.
func Number(version string) (int, error) {
	if version == "" {
		return 0, nil
	}
	return strconv.Atoi(strings.TrimPrefix(version, "v"))
}

// MadeBy names the maker of a version, by its key in storage.
func MadeBy(key string) string {
	if key == "" {
		return "made by another program"
	}
	return "made by job " + key
}
