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

// stagingDir holds the work of attempts. A storage root may have no other directories than objects and extensions
// (E088), and it must be on the same file system as the objects.
const stagingDir = extensionsDir + "/stagepost-staging"

var stageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// stage is the directory of one attempt, locked while it lives.
type stage struct {
	ops  fileOps
	dir  string
	lock *os.File
}

// openStage makes the stage empty and takes its lock. ErrBusy: an attempt of the same name is alive.
func (r *Root) openStage(name string) (*stage, error) {
	if !stageName.MatchString(name) {
		return nil, fmt.Errorf("%w stage %q: letters, digits, '.', '_' and '-' only, at most 128", ErrInvalid, name)
	}
	dir := path.Join(stagingDir, name)
	for range 100 {
		lock, err := r.lockStage(dir)
		if err != nil {
			return nil, fmt.Errorf("stage %s: %w", name, err)
		}
		if lock == nil {
			continue // a sweep, or the end of another attempt, took the directory away
		}
		s := &stage{ops: r.ops, dir: dir, lock: lock}
		if err := s.clear(r.dir); err != nil {
			return nil, errors.Join(fmt.Errorf("stage %s: %w", name, err), lock.Close())
		}
		return s, nil
	}
	return nil, fmt.Errorf("stage %s: %w", name, ErrBusy)
}

// lockStage gives nil without an error when the directory vanished between its making and its lock.
func (r *Root) lockStage(dir string) (*os.File, error) {
	if err := mkdirSynced(r.ops, dir); err != nil {
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

// lockDir opens and locks a directory. held: somebody else has the lock. A nil file without held and error: the directory
// is not there, or the one that was locked is no longer at this name.
func lockDir(root *os.Root, dir string) (lock *os.File, held bool, err error) {
	f, err := root.Open(dir)
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

// clear removes what a dead attempt of the same name left.
func (s *stage) clear(root *os.Root) error {
	entries, err := readDir(root, s.dir)
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

// close removes the stage, and the directory of stages when it was the last. What cannot be removed stays for Sweep:
// it has no effect on any object.
func (s *stage) close() error {
	removed := s.ops.RemoveAll(s.dir)
	if removed == nil {
		_ = s.ops.Remove(stagingDir) // refused while other stages are there
	}
	return errors.Join(removed, s.lock.Close())
}

// Stages names the stages that exist, of live and of dead attempts.
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

// Sweep removes the stages of attempts that died, and names them. Stages of live attempts (of any process on this machine)
// stay. It may be called at any time.
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
		if err := s.close(); err != nil {
			return removed, fmt.Errorf("sweep %s: %w", name, err)
		}
		removed = append(removed, name)
	}
	if len(names) == 0 {
		_ = r.ops.Remove(stagingDir) // an attempt may have died between its stage and this directory
	}
	return removed, nil
}

// lockPoll is how often a writer looks whether another has finished with the object.
const lockPoll = 5 * time.Millisecond

// lockObject waits for the lock of an existing object. A nil file: the object does not exist.
func (r *Root) lockObject(ctx context.Context, dir string) (*os.File, error) {
	for {
		lock, held, err := lockDir(r.dir, dir)
		if err != nil || !held {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: the object is being changed by another writer: %w", ErrBusy, ctx.Err())
		case <-time.After(lockPoll):
		}
	}
}
