// Package disk reports the space of a file system, whether it accepts writes, and the bytes below a directory.
package disk

import (
	"errors"
	"os"
)

// MaxDepth bounds the nesting of directories that Usage measures, and so the open files of the process.
const MaxDepth = 200

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
