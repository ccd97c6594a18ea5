package archiveserve

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/app/archive/workdir"
	"github.com/stagepost/stagepost/job"
)

// list gives the names in a directory; none if it does not exist.
func list(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// sweepDownloads removes unfinished downloads that were last written before a time. The directories of sources stay:
// sources have them open.
func (a *App) sweepDownloads(before time.Time) error {
	base := filepath.Join(a.dir, downloadsName)
	sources, err := list(base)
	errs := []error{err}
	for _, source := range sources {
		parts, err := list(filepath.Join(base, source))
		errs = append(errs, err)
		for _, part := range parts {
			name := filepath.Join(base, source, part)
			if info, err := os.Lstat(name); err == nil && info.ModTime().Before(before) {
				errs = append(errs, os.RemoveAll(name))
			}
		}
	}
	return errors.Join(errs...)
}

// Clear is part of [module.Clearer]: the working directory of a job ends with its record, as do the files
// of a PDF job. Archives stay.
func (a *App) Clear(ctx context.Context, j *job.Job) error {
	if j.Kind == pdf.Kind {
		return a.printers.Clear(ctx, j)
	}
	if j.Kind != archive.Kind {
		return nil
	}
	return workdir.Remove(filepath.Join(a.dir, archive.WorkName), j.ID)
}
