//go:build !linux

package durable

import "os"

// SyncData syncs a file's content.
func SyncData(f *os.File) error { return f.Sync() }
