package durable

import (
	"os"
	"syscall"
)

// startWrite is SYNC_FILE_RANGE_WRITE of sync_file_range(2).
const startWrite = 2

// begin asks the system to write a part of a file to the disk, and does not wait for it. Sync reports its errors.
func begin(f *os.File, from, size int64) {
	_ = syscall.SyncFileRange(int(f.Fd()), from, size, startWrite)
}
