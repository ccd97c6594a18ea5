package slurm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// mark is a file of sentDir, outside of what a confined payload reaches. It reports which directories are the
// payload's: one that a payload put under their name is neither read nor removed.
type mark struct {
	Dir  uint64 `json:"dir"` // inode numbers, which file systems of a cluster give alike to all
	Work uint64 `json:"work"`
}

// errSwapped reports that something else has the name of a payload's directory.
var errSwapped = fmt.Errorf("its directory was replaced: %w", fs.ErrNotExist)

// removed is the end of a payload whose directory went away while Slurm had it.
const removed = "its directory was removed or replaced while it ran, so that it is not known how it ended"

// mark writes down which directories are a payload's, before Slurm may have it.
func (s *Slurm) mark(p *payload) error {
	dir, err := p.root.Lstat(".")
	if err != nil {
		return err
	}
	work, err := p.root.Lstat(workDir)
	if err != nil {
		return err
	}
	text, err := json.Marshal(mark{inode(dir), inode(work)})
	if err != nil {
		return err
	}
	return writeFile(s.root, path.Join(sentDir, p.dir), text)
}

// marked gives the mark of a payload; nil: Slurm has not been given it, or by an earlier version of this program.
func (s *Slurm) marked(dir string) *mark {
	text, err := readFile(s.root, path.Join(sentDir, dir), 1<<12)
	if err != nil {
		return nil
	}
	var m mark
	if json.Unmarshal(text, &m) != nil {
		return nil
	}
	return &m
}

// own opens a payload's directory, or errSwapped.
func (s *Slurm) own(dir string) (*os.Root, error) {
	want := uint64(0)
	if m := s.marked(dir); m != nil {
		want = m.Dir
	}
	return openOwn(s.root, dir, want)
}

// openOwn opens a directory that is no link and has the inode number, if that is not 0.
func openOwn(in *os.Root, name string, want uint64) (*os.Root, error) {
	named, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !named.IsDir() {
		return nil, errSwapped
	}
	root, err := in.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := root.Lstat(".")
	if err == nil && (!os.SameFile(named, opened) || want != 0 && inode(opened) != want) {
		err = errSwapped
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// inode gives 0 where there are none.
func inode(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}

// taken reports whether Slurm was given a payload whose directory is not there any more, or is another one.
func (s *Slurm) taken(dir string) bool {
	if s.marked(dir) == nil {
		return false
	}
	root, err := s.own(dir)
	if err == nil {
		root.Close()
	}
	return errors.Is(err, fs.ErrNotExist)
}

// abandon ends what Slurm runs of a payload whose directory is gone: nothing can come of it.
func (s *Slurm) abandon(ctx context.Context, dir string) {
	rows, err := s.named(ctx, nameOf(dir))
	var ids []string
	for _, r := range rows {
		if !over(r.state) {
			ids = append(ids, r.id)
		}
	}
	if err == nil && len(ids) > 0 {
		err = s.cancel(ctx, dir, ids)
	}
	if err != nil {
		s.log.Warn("a payload whose directory is gone could not be ended", "payload", dir, "error", err)
	}
}
