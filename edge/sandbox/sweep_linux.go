package sandbox

import (
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// tempPrefix begins the names of the private temporary directories of tier none.
const tempPrefix = "stagepost-temp-"

// unlockedFor is how long a temporary directory may be there before it is locked.
const unlockedFor = time.Minute

// lockDir locks a directory for as long as its descriptor is open: the kernel gives it back when the process ends.
func lockDir(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), dir)
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// sweepTemps removes the temporary directories of processes that have ended, whatever their names and wherever they
// ran. Those of others cannot be opened, and those in use cannot be locked.
func sweepTemps(in string, now time.Time) {
	left, _ := filepath.Glob(filepath.Join(in, tempPrefix+"*"))
	for _, dir := range left {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || now.Sub(info.ModTime()) < unlockedFor {
			continue
		}
		if lock, err := lockDir(dir); err == nil {
			removeTree(dir)
			_ = lock.Close()
		}
	}
}
