package collect

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// mostSyncs is how many files and directories are synced one by one. A sync for each of 100,000 takes minutes; more are brought to the disk with all that
// its file system has to write.
const mostSyncs = 256

var errMany = errors.New("many files")

// Sync brings a directory to the disk: all files and directories in it, and itself. Nothing may write there meanwhile. Links are not followed, and
// what is no file or directory is left alone.
func Sync(dir *os.Root) error {
	var dirs []string
	n := 0
	err := fs.WalkDir(dir.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if n++; n > mostSyncs {
			return errMany
		}
		switch {
		case d.IsDir():
			dirs = append(dirs, name)
		case d.Type().IsRegular():
			return syncEntry(dir, name)
		}
		return nil
	})
	for i := len(dirs) - 1; i >= 0 && err == nil; i-- { // a directory after what is in it
		err = syncEntry(dir, dirs[i])
	}
	if errors.Is(err, errMany) || errors.Is(err, fs.ErrPermission) {
		return syncAll(dir)
	}
	return err
}

func syncEntry(dir *os.Root, name string) error {
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
