package orphans

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/location"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
)

var versionName = regexp.MustCompile(`^v[0-9]+$`)

// kept finds versions of the inventory that a storage location lacks. It reads the version's inventory, not each file:
// fixity checks those.
func (o *search) kept(ctx context.Context) error {
	var after inventory.Kept
	for looked := 0; ; {
		all, err := o.Inventory.Kept(ctx, after, orphanPages)
		if err != nil || len(all) == 0 {
			return err
		}
		for _, k := range all {
			after = k
			root, there, err := o.Locations.Existing(ctx, k.Place.Dir)
			if err != nil {
				return err
			}
			if there {
				_, err = os.Stat(filepath.Join(o.Locations.Path(k.Place.Dir), filepath.FromSlash(root.Path(k.ARK)),
					k.Place.Name, "inventory.json"))
			}
			if !there || errors.Is(err, fs.ErrNotExist) {
				o.found(api.Orphan{Rule: "version-missing", Name: path.Join(k.Place.Dir, k.ARK, k.Place.Name),
					Job: job.ID(k.Job), Since: k.Created,
					What: fmt.Sprintf("version %d of %s is not in %s", k.Version, k.ARK, k.Place.Dir)}, nil)
			} else if err != nil {
				return err
			}
		}
		if looked += len(all); looked >= orphanReads {
			o.cut(fmt.Sprintf("only the first %d versions of the inventory were compared", looked))
			return nil
		}
	}
}

// storage finds objects and versions in the storage locations that the inventory does not know, and what attempts left
// there.
func (o *search) storage(ctx context.Context) error {
	dirs, err := o.Locations.All(ctx)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		root, there, err := o.Locations.Existing(ctx, dir)
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		if err := o.stages(ctx, dir, root); err != nil {
			return err
		}
		if err := o.objects(ctx, dir, root); err != nil {
			return err
		}
	}
	return nil
}

// stages finds the stages of attempts that are over.
func (o *search) stages(ctx context.Context, dir string, root *ocfl.Root) error {
	names, err := root.Stages()
	if err != nil {
		return err
	}
	for _, name := range names {
		id, _, _ := strings.Cut(name, "-e")
		live := func(ctx context.Context) (bool, error) {
			j, err := o.Engine.Store().Get(ctx, job.ID(id))
			if job.KindOf(err) == job.NotFound {
				return false, nil
			}
			return err == nil && j.Claimed() && name == fmt.Sprintf("%s-e%d", id, j.Epoch), err
		}
		yes, err := live(ctx)
		if err != nil {
			return err
		}
		stage := filepath.Join(o.Locations.Path(dir), filepath.FromSlash(location.StagingName), name)
		info, statErr := os.Stat(stage)
		if yes || statErr != nil {
			continue
		}
		o.found(api.Orphan{Rule: "temporary", Name: path.Join(dir, location.StagingName, name), Job: job.ID(id),
			Since: info.ModTime(), What: "stage of an attempt that is over"},
			func(ctx context.Context) error {
				if yes, err := live(ctx); err != nil || yes {
					return errors.Join(err, job.Errorf(job.Conflict, "orphans", job.ID(id), "the attempt lives"))
				}
				return os.RemoveAll(stage)
			})
	}
	return nil
}

// errEnough ends a walk.
var errEnough = errors.New("enough")

// objects goes through the objects of a storage location.
func (o *search) objects(ctx context.Context, dir string, root *ocfl.Root) error {
	base, looked := o.Locations.Path(dir), 0
	err := filepath.WalkDir(base, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return workdir.IgnoreMissing(err)
		case ctx.Err() != nil:
			return ctx.Err()
		case d.IsDir() && d.Name() == location.Extensions && filepath.Dir(file) == base:
			return fs.SkipDir
		case d.IsDir() || !strings.HasPrefix(d.Name(), location.ObjectMark):
			return nil
		}
		if looked++; looked > orphanReads {
			o.cut(fmt.Sprintf("only the first %d objects in %s were examined", orphanReads, dir))
			return errEnough
		}
		if err := o.object(ctx, dir, root, filepath.Dir(file)); err != nil {
			return err
		}
		return fs.SkipDir // what else lies in the object is its own
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// object compares the versions of an object with the inventory.
func (o *search) object(ctx context.Context, dir string, root *ocfl.Root, home string) error {
	name, err := filepath.Rel(o.Locations.Path(dir), home)
	if err != nil {
		return err
	}
	info, err := os.Stat(home)
	if err != nil {
		return workdir.IgnoreMissing(err)
	}
	f := api.Orphan{Rule: "version-unknown", Name: path.Join(dir, filepath.ToSlash(name)), Since: info.ModTime()}
	ark, err := location.ObjectID(filepath.Join(home, "inventory.json"))
	if err != nil {
		f.What = "object whose inventory cannot be read: " + err.Error()
		o.found(f, nil)
		return nil
	}
	known, err := o.Inventory.NamesIn(ctx, ark, dir)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(home)
	if err != nil {
		return workdir.IgnoreMissing(err)
	}
	for _, e := range entries {
		if !e.IsDir() || !versionName.MatchString(e.Name()) || slices.Contains(known, e.Name()) {
			continue
		}
		if err := o.version(ctx, root, ark, f, e); err != nil {
			return err
		}
	}
	return nil
}

// version handles a version that the inventory does not have. As long as the job that stored it is there and has not
// completed, it will enter it.
func (o *search) version(ctx context.Context, root *ocfl.Root, ark string, f api.Orphan, e fs.DirEntry) error {
	if info, err := e.Info(); err == nil {
		f.Since = info.ModTime()
	}
	f.Name = path.Join(f.Name, e.Name())
	object, err := root.Object(ark)
	if err != nil {
		f.What = fmt.Sprintf("version of %s, which cannot be opened: %v", ark, err)
		o.found(f, nil)
		return nil
	}
	block := object.Inventory().Versions[e.Name()]
	if block == nil {
		return o.half(ctx, root, ark, f)
	}
	f.Job = job.ID(block.Key())
	f.What = fmt.Sprintf("version of %s that the inventory does not know", ark)
	if f.Job != "" {
		j, err := o.job(ctx, f.Job)
		if err != nil {
			return err
		}
		if j != nil && !j.Gone {
			return nil
		}
		f.What += "; the job that stored it was deleted"
	}
	o.found(f, nil)
	return nil
}

// half handles a version directory that the object itself does not list: an attempt crashed while it moved it there.
func (o *search) half(ctx context.Context, root *ocfl.Root, ark string, f api.Orphan) error {
	lock, held, err := o.Inventory.LockOf(ctx, inventory.ObjectLock, ark)
	if err != nil {
		return err
	}
	if held {
		if j, err := o.job(ctx, job.ID(lock.Job)); err != nil || j != nil && !j.Ended {
			return err
		}
	}
	f.Rule, f.What = "temporary", fmt.Sprintf("version directory of %s that its object does not know", ark)
	o.found(f, func(ctx context.Context) error {
		_, err := root.Recover(ctx, ark, "orphans")
		return err
	})
	return nil
}
