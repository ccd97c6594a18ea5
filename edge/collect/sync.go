package collect

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// mostSyncs is the greatest number of files and directories that are synced individually. 100,000 syncs take minutes;
// beyond the limit the whole file system is synced.
const mostSyncs = 256

var errMany = errors.New("many files")

// Sync syncs a directory with all files and directories in it. There must be no concurrent writes. Links are not
// followed, and other types of files are ignored.
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
	for i := len(dirs) - 1; i >= 0 && err == nil; i-- { // a directory after its content
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
