package durable

import (
	"errors"
	"os"
	"syscall"
)

// SyncData syncs a file's content, without its times.
func SyncData(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		for {
			if failed = syscall.Fdatasync(int(fd)); failed != syscall.EINTR {
				return
			}
		}
	})
	return errors.Join(err, os.NewSyscallError("fdatasync", failed))
}
