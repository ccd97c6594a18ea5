//go:build !linux

package unpack

import (
	"errors"
	"io/fs"
	"os"
)

// syncTree brings all files of the tree to the disk.
func syncTree(tree *os.Root) error {
	return fs.WalkDir(tree.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := tree.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}
