package ocfl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"time"
)

// stagingDir holds the stages of attempts. A storage root may have no directories besides objects and extensions
// (E088), and the stages must be on the file system of the objects.
const stagingDir = extensionsDir + "/stagepost-staging"

var stageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// stage is the directory of one attempt, locked while the attempt runs.
type stage struct {
	ops  fileOps
	dir  string
	lock *os.File
}

// openStage creates an empty stage and takes its lock. ErrBusy: an attempt of the same name is running. The stage is
// synced if its content matters after a power cut.
func (r *Root) openStage(name string, synced bool) (*stage, error) {
	if !stageName.MatchString(name) {
		return nil, fmt.Errorf("%w stage %q: letters, digits, '.', '_' and '-' only, at most 128", ErrInvalid, name)
	}
	dir := path.Join(stagingDir, name)
	for range 100 {
		lock, err := r.lockStage(dir, synced)
		if err != nil {
			return nil, fmt.Errorf("stage %s: %w", name, err)
		}
		if lock == nil {
			continue // a sweep, or the end of another attempt, removed the directory
		}
		s := &stage{ops: r.ops, dir: dir, lock: lock}
		if err := s.clear(r); err != nil {
			return nil, errors.Join(fmt.Errorf("stage %s: %w", name, err), lock.Close())
		}
		return s, nil
	}
	return nil, fmt.Errorf("stage %s: %w", name, ErrBusy)
}

// lockStage returns nil without an error if the directory was removed between its creation and its lock.
func (r *Root) lockStage(dir string, synced bool) (*os.File, error) {
	mkdir := mkdirAll
	if synced {
		mkdir = mkdirSynced
	}
	if err := mkdir(r.ops, dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	lock, held, err := lockDir(r.dir, dir)
	if held {
		return nil, ErrBusy
	}
	return lock, err
}

// lockDir opens and locks a directory. held: another process or goroutine has the lock. A nil file without held and
// error: the directory does not exist, or the locked directory no longer has this name.
func lockDir(root *os.Root, dir string) (lock *os.File, held bool, err error) {
	f, err := openPlain(root, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	got, err := tryLock(f)
	if err != nil || !got {
		return nil, err == nil, errors.Join(err, f.Close())
	}
	opened, err := f.Stat()
	if err != nil {
		return nil, false, errors.Join(err, f.Close())
	}
	now, err := root.Lstat(dir)
	if err != nil || !os.SameFile(opened, now) {
		return nil, false, f.Close()
	}
	return f, false, nil
}

// clear removes what a crashed attempt of the same name left.
func (s *stage) clear(r *Root) error {
	if err := s.prune(r); err != nil {
		return err
	}
	entries, err := s.lock.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := s.ops.RemoveAll(path.Join(s.dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) path(elements ...string) string {
	return path.Join(append([]string{s.dir}, elements...)...)
}

// close removes the stage, and the directory of stages with the last one. Sweep removes what close cannot; it affects
// no object.
func (s *stage) close() error {
	removed := s.ops.Remove(s.dir) // nothing is left in it after a promotion
	if removed != nil {
		removed = s.ops.RemoveAll(s.dir)
	}
	if removed == nil {
		_ = s.ops.Remove(stagingDir) // fails while other stages exist
	}
	return errors.Join(removed, s.lock.Close())
}

// Stages returns the names of the existing stages, of running and of crashed attempts.
func (r *Root) Stages() ([]string, error) {
	entries, err := readDir(r.dir, stagingDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// Sweep removes the stages of crashed attempts and returns their names. Stages of running attempts (of any process on
// this machine) remain. It may be called at any time.
func (r *Root) Sweep() ([]string, error) {
	names, err := r.Stages()
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	var removed []string
	for _, name := range names {
		dir := path.Join(stagingDir, name)
		lock, _, err := lockDir(r.dir, dir)
		if err != nil {
			return removed, fmt.Errorf("sweep %s: %w", name, err)
		}
		if lock == nil {
			continue
		}
		s := &stage{ops: r.ops, dir: dir, lock: lock}
		if err := errors.Join(s.prune(r), s.close()); err != nil {
			return removed, fmt.Errorf("sweep %s: %w", name, err)
		}
		removed = append(removed, name)
	}
	if len(names) == 0 {
		// an attempt may have crashed between the removals of its stage and of this directory
		_ = r.ops.Remove(stagingDir)
	}
	return removed, nil
}

// lockPoll is the interval at which a writer polls the lock of an object.
const lockPoll = 5 * time.Millisecond

// lockObject waits for the lock of an existing object. A nil file: the object does not exist.
func (r *Root) lockObject(ctx context.Context, dir string) (*os.File, error) {
	for {
		lock, held, err := lockDir(r.dir, dir)
		if err != nil || lock != nil {
			return lock, err
		}
		if !held { // it is gone, or was exchanged for another one (RemoveVersions)
			if _, err := r.dir.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
				return nil, nil
			} else if err != nil {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: the object is being changed by another writer: %w", ErrBusy, ctx.Err())
		case <-time.After(lockPoll):
		}
	}
}
