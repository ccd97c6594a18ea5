package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// begin asks the system to write a part of a file to the disk, and does not wait for it. Sync reports its errors.
func begin(f *os.File, from, size int64) {
	_ = unix.SyncFileRange(int(f.Fd()), from, size, unix.SYNC_FILE_RANGE_WRITE)
}
