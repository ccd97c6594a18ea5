package access

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
)

// sweepEvery is the pause between sweeps, and youngest the age below which a directory without a job may belong to one
// that is just being made.
const (
	sweepEvery = time.Hour
	youngest   = time.Hour
)

// hinted removes the packages of jobs that were deleted. The next sweep replaces a hint that was lost.
func (a *App) hinted(hints []job.Hint) {
	for i := range hints {
		if h := &hints[i]; h.Kind == Kind && h.Ended && h.State == record.Deleted {
			select {
			case a.gone <- h.Job:
			default:
			}
		}
	}
}

// sweeps clears away packages of deleted jobs until ctx ends.
func (a *App) sweeps(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := a.Sweep(ctx); err != nil && ctx.Err() == nil {
			a.log.Error("sweep of the packages", "error", err)
		}
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				waiting = false
			case id := <-a.gone:
				if err := a.sweepJob(ctx, string(id)); err != nil && ctx.Err() == nil {
					a.log.Error("removal of a package", "job", id, "error", err)
				}
			}
		}
	}
}

// Sweep removes the packages of deleted jobs, and files of attempts that crashed. It may be called at any time.
func (a *App) Sweep(ctx context.Context) error {
	if a.engine.Clock().State().Doubt != "" {
		return nil
	}
	entries, err := fs.ReadDir(a.root.FS(), ".")
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if e.Name() != keyName {
			errs = append(errs, a.sweepJob(ctx, e.Name()))
		}
	}
	return errors.Join(errs...)
}

func (a *App) sweepJob(ctx context.Context, name string) error {
	j, err := a.engine.Store().Get(ctx, job.ID(name))
	if job.KindOf(err) == job.NotFound {
		info, err := a.root.Lstat(name)
		if err != nil || time.Since(info.ModTime()) < youngest {
			return ignoreMissing(err)
		}
		return a.root.RemoveAll(name)
	}
	switch {
	case err != nil:
		return err
	case j.Gone:
		return a.root.RemoveAll(name)
	case !j.Ended:
		return nil
	}
	return a.sweepAttempts(name)
}

// sweepAttempts removes what attempts have left in the directory of a job that has ended.
func (a *App) sweepAttempts(name string) error {
	dir, err := a.root.OpenRoot(name)
	if err != nil {
		return ignoreMissing(err)
	}
	defer dir.Close()
	entries, err := fs.ReadDir(dir.FS(), ".")
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), newSuffix) {
			err = errors.Join(err, dir.RemoveAll(e.Name()))
		}
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Clear removes what belongs to a job whose record is about to be purged.
func (a *App) Clear(_ context.Context, j *job.Job) error {
	if j.Kind != Kind {
		return nil
	}
	return a.root.RemoveAll(string(j.ID))
}
