package ocfl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// step is one change of a promotion, with the sync that keeps it before the next.
type step struct {
	name string
	do   func() error
}

// promote moves the staged version to its place, in the order that the package's overview gives. It returns the name of
// a version when another attempt with the same key was faster.
func (a *addition) promote(ctx context.Context) (string, error) {
	lock, err := a.root.lockObject(ctx, a.dir)
	if err != nil {
		return "", err
	}
	if lock == nil {
		if a.base != nil {
			return "", fmt.Errorf("%w: %s is gone", ErrCorrupt, a.dir)
		}
		return a.promoteObject(ctx)
	}
	defer lock.Close()
	now, err := a.reload()
	if err != nil {
		return "", err
	}
	if a.base == nil || now.home.digest != a.base.home.digest {
		return a.overtaken(now)
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return "", run(a.root.order(a.versionSteps()))
}

// overtaken says what to make of an object that another writer changed while the content was taken in.
func (a *addition) overtaken(now *Object) (string, error) {
	if made, err := a.judge(now); made != "" || err != nil {
		return made, err
	}
	return "", fmt.Errorf("%w: another writer made %s in the meantime", ErrConflict, now.inv.Head)
}

func (r *Root) order(steps []step) []step {
	if r.reorder != nil {
		return r.reorder(steps)
	}
	return steps
}

func run(steps []step) error {
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func (a *addition) versionSteps() []step {
	move := func(name string) step {
		return step{"promote " + name, func() error {
			if err := a.root.ops.Rename(path.Join(a.home(), name), path.Join(a.dir, name)); err != nil {
				return err
			}
			return a.root.ops.SyncDir(a.dir)
		}}
	}
	return []step{move(a.next.Head), move(inventoryFile), move(sidecarName(SHA512))}
}

// promoteObject commits a new object: one rename, which fails when the object has come to exist.
func (a *addition) promoteObject(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	parent := path.Dir(a.dir)
	err := a.renameObject(parent)
	if err == nil {
		return "", a.syncUp(parent)
	}
	lock, lockErr := a.root.lockObject(ctx, a.dir)
	if lockErr != nil || lock == nil {
		a.removeEmpty(parent)
		return "", errors.Join(fmt.Errorf("promote object: %w", err), lockErr)
	}
	defer lock.Close()
	now, err := a.reload()
	if err != nil {
		return "", err
	}
	return a.overtaken(now)
}

// syncUp brings the names of a directory and of all above it to the disk: another attempt may have made some of them, and not have synced them yet.
func (a *addition) syncUp(dir string) error {
	for ; dir != "."; dir = path.Dir(dir) {
		if err := a.root.ops.SyncDir(dir); err != nil {
			return err
		}
	}
	return a.root.ops.SyncDir(".")
}

// renameObject makes the directories of the layout and moves the object in. Another attempt that failed may remove
// empty directories at the same moment, hence the repetition.
func (a *addition) renameObject(parent string) error {
	var err error
	for range 20 {
		if err = mkdirSynced(a.root.ops, parent); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err = a.root.ops.Rename(a.home(), a.dir); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

// removeEmpty takes away directories of the layout that hold nothing (E073).
func (a *addition) removeEmpty(dir string) {
	for ; dir != "."; dir = path.Dir(dir) {
		if a.root.ops.Remove(dir) != nil {
			return
		}
	}
}
