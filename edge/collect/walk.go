package collect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

const (
	// maxDepth bounds the open directories: two descriptors for each level.
	maxDepth = 128
	// held bounds the names that all levels together keep to sort them; each level may have fewest at least.
	held   = 1 << 16
	fewest = 256
)

// walker goes through a directory that changes under its feet. The names of a directory come sorted if it has fewer than some
// 60,000.
type walker struct {
	ctx   context.Context
	dev   uint64
	held  int
	most  int // visits; a script could add files faster than they are read
	count int
	names func(name string) bool // false: skip it without a word
	seen  func(at place, name string, info fs.FileInfo) error
	dir   func(at place, name string, info fs.FileInfo) (stored string, err error) // errSkip: do not go in
	leave func(r Reason, name, why string, args ...any)
}

// place is one open directory of the walk.
type place struct {
	root   *os.Root
	name   string // of the directory as it is there, with a slash at the end; empty at the top
	stored string // the same for the ZIP
	depth  int
}

var (
	errSkip    = errors.New("skip this directory")
	errChanged = errors.New("changed while it was collected")
	errMost    = errors.New("looked at as many entries as may be")
)

// walk visits everything below top. It ends early only with an error of a callback, of the context, or of top itself.
func (w *walker) walk(top *os.Root) error {
	info, err := top.Stat(".")
	if err != nil {
		return err
	}
	w.dev, _ = device(info)
	if err = w.list(place{root: top}); err == errMost {
		return nil
	}
	return err
}

func (w *walker) list(at place) error {
	f, err := at.root.Open(".")
	if err != nil {
		return w.unreadable(at, err)
	}
	defer f.Close()
	for {
		batch := max(fewest, held-w.held)
		names, err := f.Readdirnames(batch)
		w.held += len(names)
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if err := w.visit(at, name); err != nil {
				return err
			}
		}
		w.held -= len(names)
		if err == io.EOF || err == nil && len(names) == 0 {
			return nil
		}
		if err != nil {
			return w.unreadable(at, err)
		}
	}
}

// unreadable leaves a directory out; only the top one must be readable.
func (w *walker) unreadable(at place, err error) error {
	if at.name == "" {
		return err
	}
	w.leave(Unreadable, at.name, "unreadable directory: %v", cause(err))
	return nil
}

func (w *walker) visit(at place, base string) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	name := at.name + base
	if w.count++; w.count > w.most {
		w.leave(TooMany, name, "this and all that follows: too many entries to look at")
		return errMost
	}
	if !w.names(name) {
		return nil
	}
	info, err := at.root.Lstat(base)
	if err != nil {
		w.leave(reasonOf(err), name, "%s", gone(err))
		return nil
	}
	if dev, ok := device(info); ok && dev != w.dev {
		w.leave(Mounted, name, "on another file system")
		return nil
	}
	if !info.IsDir() {
		return w.seen(at, base, info)
	}
	if at.depth+1 >= maxDepth {
		w.leave(TooDeep, name, "more than %d directories deep", maxDepth)
		return nil
	}
	// The "/." makes the open of the name one of a directory: an open of what has become a FIFO would wait for ever.
	sub, err := at.root.OpenRoot(base + "/.")
	if err != nil {
		w.leave(reasonOf(err), name, "%s", gone(err))
		return nil
	}
	defer sub.Close()
	if now, err := sub.Stat("."); err != nil || !os.SameFile(info, now) {
		w.leave(Changed, name, "changed while it was collected")
		return nil
	}
	stored, err := w.dir(at, base, info)
	if err == errSkip {
		return nil
	}
	if err != nil {
		return err
	}
	return w.list(place{root: sub, name: name + "/", stored: stored, depth: at.depth + 1})
}

// open opens a regular file of which info is known. It never waits, and what it gives is what info told of; the
// new info has the length at this moment.
func open(at *os.Root, base string, info fs.FileInfo) (*os.File, fs.FileInfo, error) {
	f, err := at.OpenFile(base, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, nil, err
	}
	now, err := f.Stat()
	if err == nil && (!now.Mode().IsRegular() || !os.SameFile(info, now)) {
		err = errChanged
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, now, nil
}

// Open opens one regular file of a directory for reading, under the rules of Zip, for a page that shows it while the script
// runs: links on the way are followed inside dir only; a link at the end, a FIFO, a device or a directory is fs.ErrInvalid.
func Open(dir *os.Root, name string) (*os.File, fs.FileInfo, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, &fs.PathError{Op: "open", Path: short(name), Err: fmt.Errorf("%w: %s, not a file", fs.ErrInvalid, kind(info.Mode()))}
	}
	return open(dir, name, info)
}

func kind(m fs.FileMode) string {
	switch m.Type() {
	case 0:
		return "file"
	case fs.ModeDir:
		return "directory"
	case fs.ModeSymlink:
		return "symbolic link"
	case fs.ModeNamedPipe:
		return "FIFO"
	case fs.ModeSocket:
		return "socket"
	case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		return "device"
	}
	return "special file"
}

// reasonOf is gone in a word.
func reasonOf(err error) Reason {
	if errors.Is(err, fs.ErrNotExist) || err == errChanged {
		return Changed
	}
	return Unreadable
}

// reasonFor is kind in a word, for what is neither a file nor a directory.
func reasonFor(m fs.FileMode) Reason {
	switch m.Type() {
	case fs.ModeNamedPipe:
		return FIFO
	case fs.ModeSocket:
		return Socket
	}
	return Device
}

// gone tells a file that has vanished from one that cannot be read.
func gone(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "vanished while it was collected"
	}
	return "unreadable: " + cause(err)
}

// cause leaves out the path, which is told beside it and may hold anything.
func cause(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

func device(info fs.FileInfo) (uint64, bool) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Dev), true
	}
	return 0, false
}
