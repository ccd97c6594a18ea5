// Package fsck compares the records of jobs, the inventory and the storage locations with each other, and makes the
// inventory again from the other two.
package fsck

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/location"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
)

// checker reads what is stored from the records of jobs, the inventory and the storage locations.
type checker struct {
	records   Records
	inventory *inventory.Inventory
	profiles  profile.Source
	data      string // the data directory
	open      map[string]*ocfl.Root
}

// dirOf returns the directory of a storage location.
func (b *checker) dirOf(dir string) string {
	return location.Path(b.data, dir)
}

// dirs lists the storage locations of profiles and of an inventory.
func (b *checker) dirs(ctx context.Context, of *inventory.Inventory) ([]string, error) {
	var dirs []string
	if of != nil {
		used, err := of.Dirs(ctx)
		if err != nil {
			return nil, err
		}
		entered, err := of.Locations(ctx)
		if err != nil {
			return nil, err
		}
		dirs = append(used, entered...)
	}
	for _, id := range b.profiles.IDs() {
		if p, ok := b.profiles.Get(id); ok {
			dirs = append(dirs, p.Storage...)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs), nil
}

// openAll opens the storage locations. Those that may not be used, each with the reason, are kept apart from those that
// were never used.
func (b *checker) openAll(ctx context.Context, dirs []string, of *inventory.Inventory,
	installation string) (refused map[string]error, err error) {
	b.open, refused = map[string]*ocfl.Root{}, map[string]error{}
	for _, dir := range dirs {
		known, used := "", false
		if of != nil {
			if known, err = of.Location(ctx, dir); err == nil {
				used, err = of.HasVersionsIn(ctx, dir)
			}
			if err != nil {
				return refused, err
			}
		}
		_, err := location.Usable(dir, b.dirOf(dir), known, installation)
		if errors.Is(err, fs.ErrNotExist) && !used {
			has, err := location.HasObjects(b.dirOf(dir))
			if err == nil && has {
				err = location.Unnamed(dir)
			}
			if err != nil {
				refused[dir] = err
			}
			continue
		}
		var root *ocfl.Root
		if err == nil {
			root, err = ocfl.OpenRoot(b.dirOf(dir))
		}
		if err != nil {
			refused[dir] = err
			continue
		}
		b.open[dir] = root
	}
	return refused, nil
}

func (b *checker) close() error {
	var errs []error
	for _, r := range b.open {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// inOrder names the locations that are open.
func (b *checker) inOrder() []string {
	dirs := make([]string, 0, len(b.open))
	for dir := range b.open {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	return dirs
}

// eachRecord goes through the records of all ingest jobs, oldest first.
func (b *checker) eachRecord(ctx context.Context, do func(*job.Job) error) error {
	q := job.Query{Kinds: []job.Kind{record.JobKind}, Oldest: true, Limit: 1000}
	for {
		page, err := b.records.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			if err := do(&page.Jobs[i]); err != nil {
				return err
			}
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}

// record gives the record of a job, nil if there is none (any more).
func (b *checker) record(ctx context.Context, id string) (*job.Job, error) {
	if id == "" {
		return nil, nil
	}
	j, err := b.records.Get(ctx, job.ID(id))
	switch kind := job.KindOf(err); {
	case kind == job.NotFound || kind == job.Gone:
		return nil, nil
	case err != nil:
		return nil, err
	case j.Kind != record.JobKind:
		return nil, nil
	}
	return &j, nil
}
