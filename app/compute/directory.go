package compute

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// Where things lie below the application's directory:
//
//	stage/<random>/in/...     an upload that is not committed; no request sees it
//	jobs/<xy>/<id>/in/...     the files of a job, as they were uploaded
//	jobs/<xy>/<id>/fetch/...  inputs that did not come whole yet
//	jobs/<xy>/<id>/results.zip
//	jobs/<xy>/<id>/results.sums  digests of the single files in it
//	trash/...                 what is being removed
//
// An upload is complete on the disk and has its last name before its job's record is committed; a directory without a
// record is swept (reliability hole J1).
const (
	stageName   = "stage"
	jobsName    = "jobs"
	trashName   = "trash"
	inputsName  = "in"
	resultsName = "results.zip"
	sumsName    = "results.sums"
)

// abandoned is after how long an upload without progress, or a directory without a record, is removed.
const abandoned = 24 * time.Hour

// dirOf gives where a job's files lie, below the application's directory.
func dirOf(id job.ID) string {
	return path.Join(jobsName, strings.ToLower(string(id[max(0, len(id)-2):])), string(id))
}

// directories records which directories are being made: they have no record yet.
type directories struct {
	mu    sync.Mutex // guards fresh
	fresh map[string]bool
}

func newDirectories() *directories { return &directories{fresh: map[string]bool{}} }

func (p *directories) hold(name string) { p.mu.Lock(); p.fresh[name] = true; p.mu.Unlock() }
func (p *directories) drop(name string) { p.mu.Lock(); delete(p.fresh, name); p.mu.Unlock() }
func (p *directories) held(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fresh[name]
}

// tidy removes what earlier processes left: uploads that were never committed, directories without a record, trash. It
// checks once an hour.
func (a *App) tidy(ctx context.Context) {
	for {
		if err := a.sweep(ctx); err != nil && ctx.Err() == nil {
			a.log.Warn("compute: the sweep of files did not come to its end", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Hour):
		}
	}
}

// lockStage reports whether no other process uses the directory: the lock holds until the application is closed, or its
// process ends.
func (a *App) lockStage() error {
	stage, err := a.root.Open(stageName)
	if err != nil {
		return err
	}
	a.stage, a.opened = stage, time.Now()
	a.alone = syscall.Flock(int(stage.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
	return nil
}

// single reports whether no other process can use the directory. The lock alone does not show it where several servers
// share the store: one of them may have begun before, when another one had the lock.
func (a *App) single() bool { return a.alone && a.engine.Store().Properties().Exclusive }

// sweep is one check of tidy. Two do not run at once: what one is removing appears new to the other.
func (a *App) sweep(ctx context.Context) error {
	a.sweeping.Lock()
	defer a.sweeping.Unlock()
	var wrong []error
	wrong = append(wrong, a.each(trashName, func(name string, _ time.Time) error { return a.root.RemoveAll(name) }))
	if _, jumped := a.guard.Jumped(); jumped { // what is old is unknown
		return errors.Join(wrong...)
	}
	limit := time.Now().Add(-abandoned)
	wrong = append(wrong, a.each(stageName, func(name string, at time.Time) error {
		earlier := a.single() && at.Before(a.opened) // the process that began it has ended
		if a.directories.held(name) || at.After(limit) && !earlier {
			return nil
		}
		return a.root.RemoveAll(name)
	}))
	wrong = append(wrong, a.each(jobsName, func(shard string, _ time.Time) error {
		return a.each(shard, func(name string, at time.Time) error { return a.orphan(ctx, name, at, limit) })
	}))
	return errors.Join(wrong...)
}

// orphan removes the directory of a job that has no record, or was cleaned.
func (a *App) orphan(ctx context.Context, name string, at, limit time.Time) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if a.directories.held(name) {
		return nil
	}
	j, err := a.engine.Store().Get(ctx, job.ID(path.Base(name)))
	switch {
	case job.KindOf(err) == job.NotFound && at.Before(limit), err == nil && j.State == Cleaned:
		return a.remove(name)
	case job.KindOf(err) == job.NotFound:
		return nil
	case err == nil && j.Ended:
		return a.unfinished(&j)
	}
	return err
}

// unfinished removes what a fetch of inputs left in the directory of a job that ended while no process had it.
func (a *App) unfinished(j *job.Job) error {
	_, err := a.root.Lstat(path.Join(dirOf(j.ID), scratchName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	a.loads.end(j.ID)
	return errors.Join(err, a.dropUnrecorded(j))
}

// each calls do with the path and time of each entry of a directory.
func (a *App) each(dir string, do func(name string, at time.Time) error) error {
	d, err := a.root.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	var wrong []error
	for {
		entries, err := d.ReadDir(256)
		for _, e := range entries {
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				err = do(path.Join(dir, e.Name()), info.ModTime())
			}
			wrong = append(wrong, err)
		}
		if err != nil || len(entries) == 0 {
			return errors.Join(wrong...)
		}
	}
}

// remove takes a directory out of view in one step, and then apart.
func (a *App) remove(name string) error {
	aside := path.Join(trashName, fmt.Sprintf("%s-%d", path.Base(name), time.Now().UnixNano()))
	err := a.root.Rename(name, aside)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return a.root.RemoveAll(aside)
}

// syncAbove has a directory on the disk with its entries, and the name that it has in the one above.
func syncAbove(dir string) error {
	return errors.Join(durable.Sync(dir), durable.Sync(filepath.Dir(dir)))
}
