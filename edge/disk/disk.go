// Package disk asks the file system of a directory for its space, and whether it accepts writes.
package disk

import (
	"errors"
	"os"
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
