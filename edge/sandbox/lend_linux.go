package sandbox

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/stagepost/stagepost/edge/disk"
)

// chownTree gives what one user owns in a directory, and the directory, to another. No process of a command may run. No
// link is followed, and a file with several names keeps its owner: one of them may lie elsewhere.
func chownTree(dir string, from, to int) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return chownBelow(root, from, to, 0)
}

func chownBelow(root *os.Root, from, to, depth int) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	for depth < disk.MaxDepth { // what lies deeper is not run at all
		entries, err := dir.ReadDir(256)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := chownEntry(root, e.Name(), from, to, depth); err != nil {
				return err
			}
		}
	}
	if owner(dir) != from {
		return nil
	}
	return dir.Chown(to, to)
}

func chownEntry(root *os.Root, name string, from, to, depth int) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		below, err := root.OpenRoot(name)
		if err != nil {
			return err
		}
		return errors.Join(chownBelow(below, from, to, depth+1), below.Close())
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != from || st.Nlink > 1 {
		return nil
	}
	return root.Lchown(name, to, to)
}

func owner(f fs.File) int {
	info, err := f.Stat()
	if err != nil {
		return -1
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// reachable reports whether every user may pass through all directories above one.
func reachable(dir string) bool {
	for dir != "/" && dir != "." {
		dir = filepath.Dir(dir)
		if info, err := os.Stat(dir); err != nil || info.Mode()&0o001 == 0 {
			return false
		}
	}
	return true
}
