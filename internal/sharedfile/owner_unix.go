//go:build unix

package sharedfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// keepOwner sets the owner, group and mode of a file to those of the file that it replaces.
func keepOwner(f *os.File, name string) error {
	old, err := os.Stat(name)
	mode := fs.FileMode(0o600)
	switch {
	case err == nil:
		mode = old.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case os.Geteuid() != 0:
		return nil
	default:
		if old, err = os.Stat(filepath.Dir(name)); err != nil {
			return err
		}
	}
	want, ok := old.Sys().(*syscall.Stat_t)
	now, err := f.Stat()
	if err != nil || !ok {
		return err
	}
	if have, ok := now.Sys().(*syscall.Stat_t); !ok || have.Uid != want.Uid || have.Gid != want.Gid {
		if err := f.Chown(int(want.Uid), int(want.Gid)); err != nil {
			return fmt.Errorf("%s belongs to user %d and group %d, which this user cannot keep: change it "+
				"as that user, or as root: %w", name, want.Uid, want.Gid, err)
		}
	}
	return f.Chmod(mode)
}
