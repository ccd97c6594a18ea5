package collect

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncAll syncs the file system of a directory with one call.
func syncAll(dir *os.Root) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}
