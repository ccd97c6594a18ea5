//go:build unix

package sharedfile

import (
	"os"
	"syscall"
)

// flock waits for the lock on an open file; it ends when the file is closed.
func flock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }
