//go:build !linux

package sqlite

import "os"

// syncData syncs a file's content.
func syncData(f *os.File) error { return f.Sync() }
