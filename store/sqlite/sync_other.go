//go:build !linux

package sqlite

import "os"

// syncData brings a file's content to the disk.
func syncData(f *os.File) error { return f.Sync() }
