package collect

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

const (
	// maxDepth bounds the open directories: two descriptors for each level.
	maxDepth = 128
	// held bounds the number of names that all levels keep for sorting; each level may have at least fewest.
	held   = 1 << 16
	fewest = 256
)

// walker traverses a directory that may change concurrently. The names of a directory are sorted if it has fewer than
// some 60,000.
type walker struct {
	ctx   context.Context
	dev   uint64
	held  int
	most  int // visits; a script could add files faster than they are read
	count int
	names func(name string) bool // false: skip it silently
	seen  func(at level, name string, info fs.FileInfo) error
	dir   func(at level, name string, info fs.FileInfo) (stored string, err error) // errSkip: do not descend
	leave func(r Reason, name, why string, args ...any)
}

// level is one open directory of the walk.
type level struct {
	root   *os.Root
	name   string // of the directory, with a slash at the end; empty at the top
	stored string // the same for the ZIP
	depth  int
}

var (
	errSkip    = errors.New("skip this directory")
	errChanged = errors.New("changed while it was collected")
	errMost    = errors.New("too many entries")
)

// walk visits everything below top. It ends early only with an error of a callback, of the context, or of top itself.
func (w *walker) walk(top *os.Root) error {
	info, err := top.Stat(".")
	if err != nil {
		return err
	}
	w.dev, _ = device(info)
	if err = w.list(level{root: top}); err == errMost {
		return nil
	}
	return err
}

func (w *walker) list(at level) error {
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

// unreadable omits a directory; only the top one must be readable.
func (w *walker) unreadable(at level, err error) error {
	if at.name == "" {
		return err
	}
	w.leave(Unreadable, at.name, "unreadable directory: %v", cause(err))
	return nil
}

func (w *walker) visit(at level, base string) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	name := at.name + base
	if w.count++; w.count > w.most {
		w.leave(TooMany, name, "this and all that follows: too many entries")
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
	// The "/." makes the open fail for anything but a directory: an open of a name that became a FIFO would block
	// indefinitely.
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
	return w.list(level{root: sub, name: name + "/", stored: stored, depth: at.depth + 1})
}

// open opens the regular file of info. It never blocks, and the open file is the one of info; the new info has the
// current length.
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

// reasonOf is gone as a Reason.
func reasonOf(err error) Reason {
	if errors.Is(err, fs.ErrNotExist) || err == errChanged {
		return Changed
	}
	return Unreadable
}

// reasonFor is kind as a Reason, for entries that are neither files nor directories.
func reasonFor(m fs.FileMode) Reason {
	switch m.Type() {
	case fs.ModeNamedPipe:
		return FIFO
	case fs.ModeSocket:
		return Socket
	}
	return Device
}

// gone distinguishes a file that has vanished from an unreadable one.
func gone(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "vanished while it was collected"
	}
	return "unreadable: " + cause(err)
}

// cause omits the path, which is reported separately and may contain anything.
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
