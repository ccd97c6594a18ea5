//go:build unix

package ocfl

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock takes the advisory lock of an open directory, and reports whether it succeeded. Closing f, or the end of
// the process, releases it; no lock file remains.
func tryLock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return err == nil, err
}
