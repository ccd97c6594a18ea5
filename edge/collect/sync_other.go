//go:build !linux

package collect

import (
	"errors"
	"io/fs"
	"os"
)

// syncAll brings all that can be read of a directory to the disk.
func syncAll(dir *os.Root) error {
	return fs.WalkDir(dir.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() && !d.Type().IsRegular() {
			return err
		}
		if err = syncEntry(dir, name); errors.Is(err, fs.ErrPermission) {
			return nil
		}
		return err
	})
}
