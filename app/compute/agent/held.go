package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// held are the descriptors of a payload's directory and of what the agent reads and writes in it. Those of a run are
// opened before its command begins: what a command puts instead of its directory, or of its outputs, is not
// followed. Several readers may have one.
type held struct {
	mu   sync.Mutex // guards the rest
	refs int        // 0: closed
	top  *os.Root
	job  *os.Root            // nil: it is not there any more
	out  map[string]*os.File // outputs, for reading and writing
	old  []io.Closer         // of what was replaced, for readers that began before
}

// Inodes names the files of a payload that began, so that other files under their names after a crash are not taken for
// them.
type Inodes struct {
	Top    uint64 `json:"top"`
	Job    uint64 `json:"job"`
	Stdout uint64 `json:"stdout"`
	Stderr uint64 `json:"stderr"`
}

// hold gives the descriptors of a payload: those of its run, or new ones. The caller drops them. The error is
// [fs.ErrNotExist] if its directory is not there.
func (a *App) hold(j *job.Job) (*held, error) {
	if t := a.trial(j.ID); t != nil && t.held != nil && t.held.use() {
		return t.held, nil
	}
	return a.open(j)
}

// open opens a payload's directory by its path. No link is followed, and what is not the payload's own is left out.
func (a *App) open(j *job.Job) (h *held, err error) {
	payloads, err := os.OpenRoot(filepath.Join(a.options.Dir, payloadsName))
	if err != nil {
		return nil, err
	}
	defer payloads.Close()
	begun := dataOf(j).Inodes
	if j.Ended { // what ran put nothing there any more, and its directory may have moved to another disk since
		begun = nil
	}
	h = &held{refs: 1, out: map[string]*os.File{}}
	if h.top, err = openDir(payloads, string(j.ID)); err != nil {
		return nil, err
	}
	if begun != nil && inode(h.top) != begun.Top {
		h.drop()
		return nil, fs.ErrNotExist
	}
	if h.job, err = openDir(h.top, jobName); err == nil && begun != nil && inode(h.job) != begun.Job {
		_ = h.job.Close()
		h.job = nil
	}
	for name, want := range map[string]func(*Inodes) uint64{
		stdoutName: func(i *Inodes) uint64 { return i.Stdout }, stderrName: func(i *Inodes) uint64 { return i.Stderr },
	} {
		f, err := openPlain(h.top, name)
		if err != nil {
			continue
		}
		if info, err := f.Stat(); err != nil || begun != nil && numberOf(info) != want(begun) {
			_ = f.Close()
			continue
		}
		h.out[name] = f
	}
	return h, nil
}

// use notes one more reader; false if it is closed.
func (h *held) use() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refs == 0 {
		return false
	}
	h.refs++
	return true
}

// drop notes one reader less, and closes when there is none.
func (h *held) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refs--; h.refs > 0 {
		return
	}
	for _, f := range h.out {
		_ = f.Close()
	}
	for _, root := range []*os.Root{h.top, h.job} {
		if root != nil {
			_ = root.Close()
		}
	}
	for _, c := range h.old {
		_ = c.Close()
	}
}

// directory gives the payload's own directory as it is open; nil if there is none.
func (h *held) directory() *os.Root {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.job
}

// above gives the directory around it, which is the agent's.
func (h *held) above() *os.Root {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.top
}

// output gives an output; nil if there is none.
func (h *held) output(name string) *os.File {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.out[name]
}

// makeOutputs makes the files of the outputs. What lies under their names is removed: nothing has run yet.
func (h *held) makeOutputs() error {
	for _, name := range []string{stdoutName, stderrName} {
		f, err := create(h.above(), name)
		if err != nil {
			return err
		}
		h.mu.Lock()
		if was := h.out[name]; was != nil {
			h.old = append(h.old, was)
		}
		h.out[name] = f
		h.mu.Unlock()
	}
	return nil
}

// inodes gives the numbers of what is open.
func (h *held) inodes() *Inodes {
	n := &Inodes{Top: inode(h.above()), Job: inode(h.directory())}
	for name, to := range map[string]*uint64{stdoutName: &n.Stdout, stderrName: &n.Stderr} {
		if f := h.output(name); f != nil {
			if info, err := f.Stat(); err == nil {
				*to = numberOf(info)
			}
		}
	}
	return n
}

// restore puts what is held back under its name, where a command removed or exchanged it: the directory around the
// command's own, and the outputs. All processes of the command are gone. changed reports that something was not there.
func (a *App) restore(id job.ID, h *held) (changed bool, err error) {
	payloads, err := os.OpenRoot(filepath.Join(a.options.Dir, payloadsName))
	if err != nil {
		return false, err
	}
	defer payloads.Close()
	if !isDir(payloads, string(id), h.above()) {
		changed = true
		if err := errors.Join(a.remove(id), payloads.Mkdir(string(id), 0o700),
			payloads.Chmod(string(id), a.wayMode())); err != nil {
			return true, err
		}
		top, err := payloads.OpenRoot(string(id))
		if err != nil {
			return true, err
		}
		h.mu.Lock()
		if h.top != nil {
			h.old = append(h.old, h.top)
		}
		h.top = top
		h.mu.Unlock()
	}
	for _, name := range []string{stdoutName, stderrName} {
		f := h.output(name)
		if f == nil || isFile(h.above(), name, f) {
			continue
		}
		changed = true
		again, err := create(h.above(), name)
		if err != nil {
			return true, err
		}
		_, err = io.Copy(again, io.NewSectionReader(f, 0, 1<<62))
		h.mu.Lock()
		h.old, h.out[name] = append(h.old, f), again
		h.mu.Unlock()
		if err != nil {
			return true, err
		}
	}
	if isDir(h.above(), jobName, h.directory()) {
		return changed, nil
	}
	err = h.above().Rename(jobName, exchangedName) // no one takes it for the payload's
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return true, err
}

// openDir opens a directory that is no link.
func openDir(in *os.Root, name string) (*os.Root, error) {
	info, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is no directory: %w", name, fs.ErrNotExist)
	}
	root, err := in.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if now, err := root.Stat("."); err != nil || !os.SameFile(info, now) {
		return nil, errors.Join(fmt.Errorf("%s was exchanged: %w", name, fs.ErrNotExist), root.Close())
	}
	return root, nil
}

// openPlain opens a regular file for reading: no link, and nothing that could be waited for.
func openPlain(in *os.Root, name string) (*os.File, error) {
	info, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file: %w", name, fs.ErrNotExist)
	}
	f, err := in.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) {
		return nil, errors.Join(fmt.Errorf("%s was exchanged: %w", name, fs.ErrNotExist), f.Close())
	}
	return f, nil
}

// create makes a file that was not there, instead of whatever has its name.
func create(in *os.Root, name string) (*os.File, error) {
	if err := in.RemoveAll(name); err != nil {
		return nil, err
	}
	return in.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
}

// isDir reports whether a name stands for a directory that is open.
func isDir(in *os.Root, name string, root *os.Root) bool {
	if in == nil || root == nil {
		return false
	}
	info, err := in.Lstat(name)
	now, err2 := root.Stat(".")
	return err == nil && err2 == nil && os.SameFile(info, now)
}

// isFile reports whether a name stands for a file that is open.
func isFile(in *os.Root, name string, f *os.File) bool {
	info, err := in.Lstat(name)
	now, err2 := f.Stat()
	return err == nil && err2 == nil && os.SameFile(info, now)
}

// removed reports whether a directory that is open has no name any more.
func removed(root *os.Root) bool {
	info, err := root.Stat(".")
	if err != nil {
		return true
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 0
}

// inode gives the number of a directory; 0 if there is none.
func inode(root *os.Root) uint64 {
	if root == nil {
		return 0
	}
	info, err := root.Stat(".")
	if err != nil {
		return 0
	}
	return numberOf(info)
}

func numberOf(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}

// writeJSON leaves a file of the agent's whole or not at all, on the disk when it returns.
func writeJSON[T any](in *os.Root, name string, v *T) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if text = append(text, '\n'); durable.ReplaceIn(in, name, text) == nil {
		return nil
	}
	return errors.Join(in.RemoveAll(name), durable.ReplaceIn(in, name, text)) // a directory may have the name
}

// readJSON reads a file of the agent's; nil if there is none.
func readJSON[T any](in *os.Root, name string) *T {
	f, err := openPlain(in, name)
	if err != nil {
		return nil
	}
	defer f.Close()
	v := new(T)
	if json.NewDecoder(io.LimitReader(f, mostJSON)).Decode(v) != nil {
		return nil
	}
	return v
}

// mostJSON bounds what is read of exit.json and of results.json.
const mostJSON = 4 << 20

// exit reads how a payload's run ended; nil if that was never written.
func (h *held) exit() *compute.Ending { return readJSON[compute.Ending](h.above(), exitName) }

// packed reads what is known of a payload's results; nil if they were never made.
func (h *held) packed() *compute.Results { return readJSON[compute.Results](h.above(), resultsName) }
