package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// RestoringName is the file in a data directory that marks a restore that has not ended. No store opens such a
// directory.
const RestoringName = "restoring"

// Restore checks a set and then makes a data directory of it, in target, which must not exist or be empty. Until
// everything is on the disk the directory has the file [RestoringName]. Kinds of error: those of [Check], Conflict
// (the target is not empty), Unavailable.
func Restore(ctx context.Context, set, target string, r Reader) (*Manifest, error) {
	if err := vacant(target); err != nil {
		return nil, err
	}
	m, err := Check(ctx, set, r)
	if err != nil {
		return nil, err
	}
	if err := restore(ctx, set, target, m); err != nil {
		var known *job.Error
		if errors.As(err, &known) {
			return nil, err
		}
		return nil, &job.Error{Op: "restore", Kind: job.Unavailable,
			Err: fmt.Errorf("%w; %s is not whole: remove it and restore again", err, target)}
	}
	return m, nil
}

// vacant returns an error unless a directory can take a restore.
func vacant(target string) error {
	names, err := os.ReadDir(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return &job.Error{Op: "restore", Kind: job.Unavailable, Err: err}
	case slices.ContainsFunc(names, func(d fs.DirEntry) bool { return d.Name() == RestoringName }):
		return job.Errorf(job.Conflict, "restore", "",
			"an earlier restore into %s did not end: remove the directory, then restore again", target)
	case len(names) > 0:
		return job.Errorf(job.Conflict, "restore", "",
			"%s is not empty (it has %s): name a new directory with --data", target, names[0].Name())
	}
	return nil
}

// restore copies a set that was checked.
func restore(ctx context.Context, set, target string, m *Manifest) error {
	if err := os.MkdirAll(target, 0o700); err != nil {
		return err
	}
	marker := filepath.Join(target, RestoringName)
	text := fmt.Sprintf("A restore of %s has not ended. If none is at work, remove this directory and "+
		"restore again.\n", set)
	if err := putFile(marker, []byte(text)); err != nil {
		return err
	}
	if err := errors.Join(durable.Sync(target), durable.Sync(filepath.Dir(target))); err != nil {
		return err
	}
	var dirs []File
	err := eachFile(set, m, func(f *File) error {
		to, err := pathIn(target, f)
		if err != nil {
			return err
		}
		if f.Mode.IsDir() {
			dirs = append(dirs, *f)
			return os.MkdirAll(to, 0o700)
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		return put(ctx, filepath.Join(set, filepath.FromSlash(f.Path)), to, f)
	})
	if err != nil {
		return err
	}
	for _, d := range slices.Backward(dirs) { // what is in them first: it changes their times
		to, err := pathIn(target, &d)
		if err != nil {
			return err
		}
		if err := errors.Join(os.Chmod(to, d.Mode.Perm()), os.Chtimes(to, d.Time, d.Time)); err != nil {
			return err
		}
	}
	if err := syncDirs(target); err != nil {
		return err
	}
	if err := os.Remove(marker); err != nil {
		return err
	}
	return durable.Sync(target)
}

// pathIn returns the path to which a file of a set is restored.
func pathIn(target string, f *File) (string, error) {
	if inner, ok := strings.CutPrefix(f.Path, dataName+"/"); ok && inner != RestoringName {
		return filepath.Join(target, filepath.FromSlash(inner)), nil
	}
	if strings.HasPrefix(f.Path, outsideName+"/") {
		return filepath.Join(target, filepath.FromSlash(f.Path)), nil
	}
	return "", job.Errorf(job.Invalid, "restore", "", "%s is no file of a data directory; choose another backup",
		f.Path)
}

// put copies a file or link, and compares the copy with the list once more.
func put(ctx context.Context, from, to string, f *File) error {
	if f.Mode&fs.ModeSymlink != 0 {
		return os.Symlink(f.To, to)
	}
	_, sum, err := copyFile(ctx, from, to, -1, f.Mode, f.Time)
	if err == nil && sum != f.SHA256 {
		err = fmt.Errorf("%s was changed while it was restored", from)
	}
	return err
}
