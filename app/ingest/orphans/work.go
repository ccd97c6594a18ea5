package orphans

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/job"
)

// accessName is the folder of the data directory in which access packages lie, one directory for each job.
const accessName = "access"

// newSuffix ends the names of files that workdir.PutFile has not finished.
const newSuffix = ".new"

// work finds orphaned directories below work/, and unfinished files there and beside.
func (o *search) work(ctx context.Context) error {
	entries, err := os.ReadDir(filepath.Join(o.Data, workdir.WorkName))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := path.Join(workdir.WorkName, e.Name())
		if !e.IsDir() {
			o.temporary(name, "a file of no job", "")
			continue
		}
		b, err := o.job(ctx, job.ID(e.Name()))
		switch {
		case err != nil:
			return err
		case b == nil:
			err = o.workWithoutBatch(job.ID(e.Name()), name)
		case b.Gone:
			gone := *b
			o.found(api.Orphan{Rule: "work-without-batch", Name: name, Job: b.ID, Since: b.Entered,
				What: "work directory; its batch was deleted"},
				func(ctx context.Context) error { return o.App.Clear(ctx, &gone) })
		default:
			err = o.workOfBatch(ctx, b, name)
		}
		if err != nil {
			return err
		}
	}
	if err := o.unfinished(workdir.MailName, ".unfinished-*"); err != nil {
		return err
	}
	return o.unfinished("", "*"+newSuffix)
}

// workWithoutBatch names what lies in a directory whose batch does not exist: a staged payload, reports, or whatever.
func (o *search) workWithoutBatch(id job.ID, name string) error {
	dir := filepath.Join(o.Data, filepath.FromSlash(name))
	age, err := workdir.Idle(dir)
	if err != nil {
		return workdir.IgnoreMissing(err)
	}
	has := func(part string) bool { _, err := os.Lstat(filepath.Join(dir, part)); return err == nil }
	f := api.Orphan{Rule: "work-without-batch", Name: name, Job: id, Since: o.at.Add(-age),
		What: "work directory; its batch does not exist"}
	switch {
	case has(workdir.ReportsName) || has("report.json"):
		f.Rule, f.What = "report-without-batch", "reports of a batch that does not exist"
	case has(workdir.PayloadName) || has(workdir.PayloadName+newSuffix):
		f.Rule, f.What = "payload-without-batch", "staged payload whose batch was never created"
	}
	o.found(f, func(ctx context.Context) error {
		if err := checkMissing(ctx, o.Engine.Store(), id); err != nil {
			return err
		}
		if age, err := workdir.Idle(dir); err != nil || age <= orphanAge {
			return errors.Join(err, job.Errorf(job.Conflict, "orphans", id, "something is written there"))
		}
		return o.Tree.DiscardBatch(id)
	})
	return nil
}

// workOfBatch examines the directory of a batch.
func (o *search) workOfBatch(ctx context.Context, b *job.Job, name string) error {
	entries, err := os.ReadDir(filepath.Join(o.Data, filepath.FromSlash(name)))
	if err != nil {
		return workdir.IgnoreMissing(err)
	}
	for _, e := range entries {
		inner := path.Join(name, e.Name())
		switch {
		case e.Name() == workdir.ReportsName:
			if err := o.unfinishedOf(b, inner); err != nil {
				return err
			}
			continue
		case !e.IsDir():
			if strings.HasSuffix(e.Name(), newSuffix) && !b.Claimed() {
				o.temporary(inner, "unfinished file of a batch that no worker has claimed", b.ID)
			}
			continue
		}
		j, err := o.job(ctx, job.ID(e.Name()))
		if err != nil {
			return err
		}
		if err := o.workOfJob(b, j, job.ID(e.Name()), inner); err != nil {
			return err
		}
	}
	return nil
}

// workOfJob examines the directory of a job; j is nil without a record.
func (o *search) workOfJob(b, j *job.Job, id job.ID, name string) error {
	batch := b.ID
	switch {
	case j == nil || j.Parent != batch:
		age, err := workdir.Idle(filepath.Join(o.Data, filepath.FromSlash(name)))
		if err != nil {
			return workdir.IgnoreMissing(err)
		}
		o.found(api.Orphan{Rule: "work-without-job", Name: name, Job: id, Since: o.at.Add(-age),
			What: "work directory; the batch has no such job"},
			func(ctx context.Context) error {
				if j, err := o.Engine.Store().Get(ctx, id); err == nil && j.Parent == batch {
					return job.Errorf(job.Conflict, "orphans", id, "it exists by now")
				} else if err != nil && job.KindOf(err) != job.NotFound {
					return err
				}
				return o.Tree.Discard(batch, id)
			})
	case j.Gone || j.Ended && o.App.Useless(j):
		if !j.Gone && j.Outcome != "ok" { // failed long ago: the sweep takes it
			return nil
		}
		o.found(api.Orphan{Rule: "work-of-ended", Name: name, Job: id, Since: j.Entered,
			What: fmt.Sprintf("work directory; its job has ended: %s", j.State)},
			func(ctx context.Context) error {
				done, err := o.Tree.DiscardIdle(batch, id, func() (bool, error) {
					j, err := o.Engine.Store().Get(ctx, id)
					return err == nil && o.App.Useless(&j), err
				})
				if err == nil && !done {
					err = job.Errorf(job.Conflict, "orphans", id, "an attempt works in it")
				}
				return err
			})
	case j.Ended:
		for _, sub := range []string{workdir.SystemName, workdir.ListName, workdir.PackageName} {
			if err := o.unfinishedOf(j, path.Join(name, sub)); err != nil {
				return err
			}
		}
	}
	return nil
}

// unfinishedOf finds unfinished files in a folder of a job or batch that no worker has claimed.
func (o *search) unfinishedOf(j *job.Job, folder string) error {
	if j.Claimed() {
		return nil
	}
	return o.unfinished(folder, "*"+newSuffix)
}

// unfinished finds the files of a folder, below the data directory, whose names are those of unfinished ones.
func (o *search) unfinished(folder, pattern string) error {
	entries, err := os.ReadDir(filepath.Join(o.Data, filepath.FromSlash(folder)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if ok, _ := path.Match(pattern, e.Name()); ok && !e.IsDir() {
			o.temporary(path.Join(folder, e.Name()), "unfinished file", "")
		}
	}
	return err
}

// temporary adds an unfinished file, below the data directory.
func (o *search) temporary(name, what string, id job.ID) {
	file := filepath.Join(o.Data, filepath.FromSlash(name))
	info, err := os.Lstat(file)
	if err != nil {
		return // finished or removed meanwhile
	}
	o.found(api.Orphan{Rule: "temporary", Name: name, Job: id, Since: info.ModTime(), What: what},
		func(context.Context) error {
			now, err := os.Lstat(file)
			if err != nil {
				return workdir.IgnoreMissing(err)
			}
			if !now.ModTime().Equal(info.ModTime()) {
				return job.Errorf(job.Conflict, "orphans", id, "%s is written just now", name)
			}
			return o.Tree.ToTrash(file, path.Base(name))
		})
}

// packages finds the directories of access packages whose job was deleted or does not exist.
func (o *search) packages(ctx context.Context) error {
	entries, err := os.ReadDir(filepath.Join(o.Data, accessName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		id, name := job.ID(e.Name()), path.Join(accessName, e.Name())
		j, err := o.job(ctx, id)
		if err != nil {
			return err
		}
		dir := filepath.Join(o.Data, filepath.FromSlash(name))
		f := api.Orphan{Rule: "package-without-job", Name: name, Job: id, What: "access package; there is no such job"}
		switch {
		case j == nil:
			age, err := workdir.Idle(dir)
			if err != nil {
				continue // a file, or gone meanwhile
			}
			f.Since = o.at.Add(-age)
		case j.Gone:
			f.Since, f.What = j.Entered, "access package; its job was deleted"
		default:
			continue
		}
		o.found(f, func(ctx context.Context) error {
			if j, err := o.Engine.Store().Get(ctx, id); err == nil && !j.Gone {
				return job.Errorf(job.Conflict, "orphans", id, "it exists by now")
			} else if err != nil && job.KindOf(err) != job.NotFound {
				return err
			}
			return o.Tree.ToTrash(dir, string(id))
		})
	}
	return err
}

// logs finds the logs of jobs that do not exist.
func (o *search) logs(ctx context.Context) error {
	if o.LogFiles == nil {
		return nil
	}
	looked := 0
	var failed error
	err := o.LogFiles.Each(func(id job.ID, written time.Time) bool {
		if looked++; looked > orphanReads {
			o.cut(fmt.Sprintf("only the first %d job logs were examined", orphanReads))
			return false
		}
		j, err := o.job(ctx, id)
		if err != nil {
			failed = err
			return false
		}
		if j == nil {
			o.found(api.Orphan{Rule: "log-without-job", Name: "log of " + string(id), Job: id, Since: written,
				What: "log; there is no such job"},
				func(ctx context.Context) error {
					if err := checkMissing(ctx, o.Engine.Store(), id); err != nil {
						return err
					}
					return o.LogFiles.Remove(id)
				})
		}
		return true
	})
	return errors.Join(failed, err)
}
