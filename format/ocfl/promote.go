package ocfl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// step is one change of a promotion. Its sync orders it before the next step.
type step struct {
	name string
	do   func() error
}

// promote moves the staged version into the object, in the order of the package overview. It returns the name of a
// version if another attempt with the same key committed first.
func (a *addition) promote(ctx context.Context) (string, error) {
	lock, err := a.root.lockObject(ctx, a.dir)
	if err != nil {
		return "", err
	}
	if lock == nil {
		if a.base != nil {
			return "", fmt.Errorf("%w: another writer removed the object", ErrConflict)
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
	if err := a.syncStaged(); err != nil {
		return "", err
	}
	return "", run(a.root.order(a.versionSteps()))
}

// syncStaged brings what is staged to the disk, and then what [Options.Before] brings there.
func (a *addition) syncStaged() error {
	if err := a.set.Sync(); err != nil || a.options.Before == nil {
		return err
	}
	return a.options.Before()
}

// overtaken decides about an object that another writer changed during the intake.
func (a *addition) overtaken(now *Object) (string, error) {
	if made, err := a.decide(now); made != "" || err != nil {
		return made, err
	}
	return "", fmt.Errorf("%w: another writer created %s concurrently", ErrConflict, now.inv.Head)
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

// promoteObject commits a new object: one rename, which fails if the object exists by now.
func (a *addition) promoteObject(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	err := a.renameObject()
	if err == nil {
		return "", a.syncUp(path.Dir(a.dir))
	}
	lock, lockErr := a.root.lockObject(ctx, a.dir)
	if lockErr != nil || lock == nil {
		return "", errors.Join(fmt.Errorf("promote object: %w", err), lockErr)
	}
	defer lock.Close()
	now, err := a.reload()
	if err != nil {
		return "", err
	}
	return a.overtaken(now)
}

// syncUp syncs a directory and its parents: another attempt may have created some of them without a sync yet.
func (a *addition) syncUp(dir string) error {
	for ; ; dir = path.Dir(dir) {
		if err := a.set.Dir(dir); err != nil {
			return err
		}
		if dir == "." {
			return a.set.Sync()
		}
	}
}

// renameObject moves the object in, together with the missing directories of the layout above it, so that none of
// them is ever without an object (E073). Everything is synced before. Another attempt may create or remove one of the
// directories concurrently; then it retries.
func (a *addition) renameObject() error {
	var err error
	for range 20 {
		top, missing := a.highestMissing()
		if missing != nil {
			return missing
		}
		if top == a.dir {
			if err := a.syncStaged(); err != nil {
				return err
			}
			err = a.root.ops.Rename(a.home(), a.dir)
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue
		}
		if err = a.renameWith(top); err == nil || !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

// highestMissing returns the highest missing directory above the object, or the object's own if all exist.
func (a *addition) highestMissing() (string, error) {
	top := a.dir
	for dir := path.Dir(a.dir); dir != "."; dir = path.Dir(dir) {
		_, err := a.root.dir.Lstat(dir)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		top = dir
	}
	return top, nil
}

// renameWith creates the missing directories with the object in them in the stage, syncs them, and moves them in.
// After an error the object is in the stage as before.
func (a *addition) renameWith(top string) error {
	ops, tree := a.ops, a.stage.path("layout")
	object := path.Join(tree, strings.TrimPrefix(a.dir, top+"/"))
	if err := mkdirAll(ops, path.Dir(object)); err != nil {
		return err
	}
	if err := ops.Rename(a.home(), object); err != nil {
		return err
	}
	var err error
	for dir := path.Dir(object); err == nil && dir != a.stage.dir; dir = path.Dir(dir) {
		err = a.set.Dir(dir)
	}
	if err == nil {
		err = a.syncStaged()
	}
	if err == nil {
		err = ops.Rename(tree, top)
	}
	if err != nil {
		return errors.Join(err, ops.Rename(object, a.home()), ops.RemoveAll(tree))
	}
	return nil
}
