package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// Move moves a set, to another file system too. It has its new name when it is whole there; then the old one goes.
// What exists is not replaced.
func Move(ctx context.Context, from, to string) (err error) {
	if _, err := os.Lstat(to); err == nil {
		return job.Errorf(job.Conflict, "backup", "", "%s exists already", to)
	}
	if os.Rename(from, to) == nil {
		return durable.Sync(filepath.Dir(to))
	}
	half := filepath.Join(filepath.Dir(to), partial+strings.ToLower(rand.Text()))
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(half))
		}
	}()
	err = walk(from, ".", func(name string, info fs.FileInfo) error {
		at, source := filepath.Join(half, name), filepath.Join(from, name)
		switch {
		case info.IsDir():
			return os.MkdirAll(at, 0o700)
		case info.Mode()&fs.ModeSymlink != 0:
			link, err := os.Readlink(source)
			if err != nil {
				return err
			}
			return os.Symlink(link, at)
		}
		_, _, err := copyFile(ctx, source, at, -1, info.Mode(), info.ModTime())
		return err
	})
	if err != nil {
		return err
	}
	if err := syncDirs(half); err != nil {
		return err
	}
	if err := os.Rename(half, to); err != nil {
		return err
	}
	return errors.Join(durable.Sync(filepath.Dir(to)), os.RemoveAll(from))
}
