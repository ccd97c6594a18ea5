// Package disk asks the file system of a directory for its space, and whether it accepts writes.
package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stagepost/stagepost/internal/durable"
)

// probeBytes is the size of the file that Write writes: one block of the common file systems.
const probeBytes = 4096

// Write writes a small file in dir, syncs and removes it. The error is the operating system's.
// It may be called concurrently.
func Write(dir string) (err error) {
	f, err := os.CreateTemp(dir, ".probe-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	if _, err = f.Write(make([]byte, probeBytes)); err != nil {
		return err
	}
	return f.Sync()
}

// MkdirAll makes a directory and those above it that are missing, and brings their names to the disk: what is synced
// below a directory whose name is lost is lost with it.
func MkdirAll(dir string, mode fs.FileMode) error {
	err := os.Mkdir(dir, mode)
	if above := filepath.Dir(dir); errors.Is(err, fs.ErrNotExist) && above != dir {
		if err := MkdirAll(above, mode); err != nil {
			return err
		}
		err = os.Mkdir(dir, mode)
	}
	if errors.Is(err, fs.ErrExist) {
		return os.MkdirAll(dir, mode) // an error if it is no directory
	}
	if err != nil {
		return err
	}
	return durable.Sync(filepath.Dir(dir))
}
