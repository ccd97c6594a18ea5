package disk

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

const (
	// EntryBytes is the least that a file or directory counts, so that a limit of bytes bounds their number as well.
	EntryBytes = 512
)

// ErrTooDeep is what Usage returns for directories that are nested beyond MaxDepth.
var ErrTooDeep = errors.New("directories are nested too deeply to be measured")

// Usage gives the bytes that files below a directory take on disk: holes of sparse files take none. No link is
// followed, and nothing outside the directory is inspected, whatever the command exchanges meanwhile; dir itself must
// be the agent's, or a name in /proc/self/fd. The walk stops once more than most is found, unless that is zero.
func Usage(ctx context.Context, dir string, most int64) (int64, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrPermission) { // as in entry
		_ = os.Chmod(dir, 0o700)
		root, err = os.OpenRoot(dir)
	}
	if err != nil {
		return 0, err
	}
	defer root.Close()
	w := walk{ctx: ctx, most: most}
	err = w.below(root, 0)
	return w.bytes, err
}

type walk struct {
	ctx         context.Context // ends the walk early
	bytes, most int64
}

func (w *walk) full() bool { return w.ctx.Err() != nil || w.most > 0 && w.bytes > w.most }

// below adds what is in a directory. What vanishes meanwhile is no error.
func (w *walk) below(root *os.Root, depth int) error {
	if depth > MaxDepth {
		return ErrTooDeep
	}
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	for !w.full() {
		names, err := dir.ReadDir(256)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range names {
			if err := w.entry(root, e, depth); err != nil || w.full() {
				return err
			}
		}
	}
	return nil
}

func (w *walk) entry(root *os.Root, e fs.DirEntry, depth int) error {
	info, err := root.Lstat(e.Name())
	if err != nil {
		return nil // it has gone
	}
	w.bytes += max(EntryBytes, allocated(info))
	if !info.IsDir() {
		return nil
	}
	sub, err := root.OpenRoot(e.Name())
	if errors.Is(err, fs.ErrPermission) {
		// A directory that was closed to its owner must not hide bytes. The name is taken inside of the root only, and
		// it is the command's own.
		_ = root.Chmod(e.Name(), 0o700)
		sub, err = root.OpenRoot(e.Name())
	}
	if err != nil {
		return nil // it has gone, or something else has its name now and is counted the next time
	}
	defer sub.Close()
	switch now, err := sub.Stat("."); {
	case err != nil:
		return nil
	case !os.SameFile(now, info):
		return nil // a link inside of the root has its name now; what it shows is counted where it is
	}
	return w.below(sub, depth+1)
}

// allocated gives the bytes that a file takes on disk.
func allocated(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}
