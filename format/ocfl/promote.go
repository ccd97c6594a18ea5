package ocfl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
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

// syncUp brings the names of a directory and of all above it to the disk: another attempt may have brought some of
// them, and not have synced them yet.
func (a *addition) syncUp(dir string) error {
	for ; dir != "."; dir = path.Dir(dir) {
		if err := a.root.ops.SyncDir(dir); err != nil {
			return err
		}
	}
	return a.root.ops.SyncDir(".")
}

// renameObject moves the object in, together with the directories of the layout that are missing above it, so that
// none of them is ever without an object (E073). Another attempt may bring or remove one of them at the same moment,
// hence the repetition.
func (a *addition) renameObject() error {
	var err error
	for range 20 {
		top, missing := a.highestMissing()
		if missing != nil {
			return missing
		}
		if top == a.dir {
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

// highestMissing gives the highest directory on the way to the object that does not exist, the object's own if all do.
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

// renameWith builds the missing directories with the object in them in the stage, syncs them, and moves them in. After
// an error the object is in the stage as before.
func (a *addition) renameWith(top string) error {
	ops, tree := a.root.ops, a.stage.path("layout")
	object := path.Join(tree, strings.TrimPrefix(a.dir, top+"/"))
	if err := mkdirSynced(ops, path.Dir(object)); err != nil {
		return err
	}
	if err := ops.Rename(a.home(), object); err != nil {
		return err
	}
	err := ops.SyncDir(path.Dir(object))
	if err == nil {
		err = ops.Rename(tree, top)
	}
	if err != nil {
		return errors.Join(err, ops.Rename(object, a.home()), ops.RemoveAll(tree))
	}
	return nil
}
