package archive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/workdir"
	"github.com/stagepost/stagepost/job"
)

// Backups are named by their tasks, and fetched into a unit.
const (
	backupTask = "backup/"
	backupUnit = "backups"
	partsName  = "parts" // of downloads, in the working directory
)

// requested is the data of a backup task.
type requested struct {
	Activity string                `json:"activity,omitempty"` // id; empty: of the course
	Request  *source.BackupRequest `json:"request,omitempty"`
	Waits    int                   `json:"waits,omitempty"` // times that it was not done yet
	Warnings []string              `json:"warnings,omitempty"`

	Deleted time.Time `json:"deleted,omitzero"`  // in the source, or found to be absent
	Tries   int       `json:"tries,omitempty"`   // failed attempts to delete it
	Remains string    `json:"remains,omitempty"` // why it stays in the source
}

// backupUnits gives the backup tasks of a job.
func (t *task) backupUnits(ctx context.Context, src source.Source) ([]unit, error) {
	s := t.data.Settings
	var units []unit
	if *s.CourseBackup {
		units = append(units, unit{backupTask + courseTask, requested{}})
	}
	if *s.ActivityBackups {
		for _, a := range t.data.Activities {
			units = append(units, unit{backupTask + a.ID, requested{Activity: a.ID}})
		}
	}
	if len(units) == 0 {
		return nil, nil
	}
	b := source.BackupsOf(src)
	if b == nil {
		return nil, job.Errorf(job.Refused, "archive", t.Job().ID, "source %s makes no backups: "+
			"set course_backup and activity_backups to false", t.spec.Source)
	}
	reason, err := b.CanBackup(ctx)
	if err == nil && reason != "" {
		err = job.Errorf(job.Refused, "archive", t.Job().ID, "source %s cannot make backups: %s", t.spec.Source, reason)
	}
	return units, err
}

// backupNames gives the names of the planned backup tasks.
func (t *task) backupNames() (names []string) {
	if *t.data.Settings.CourseBackup {
		names = append(names, backupTask+courseTask)
	}
	if *t.data.Settings.ActivityBackups {
		for _, a := range t.data.Activities {
			names = append(names, backupTask+a.ID)
		}
	}
	return names
}

// startBackup requests a backup, and waits for it. Each request is recorded before it is sent: a repetition continues
// it.
func (t *task) startBackup(ctx context.Context, src source.Source, p *part) error {
	b := source.BackupsOf(src)
	if b == nil {
		return fmt.Errorf("source %s makes no backups", t.spec.Source)
	}
	var d requested
	if err := decode(p.record.Data, &d); err != nil {
		return err
	}
	if d.Request == nil {
		r, err := b.PrepareBackup(ctx, t.spec.Course, d.Activity)
		if err != nil {
			return err
		}
		d.Request = r
	}
	save := func() error { return p.save(ctx, d) }
	if err := save(); err != nil {
		return err
	}
	if err := b.StartBackup(ctx, d.Request, save); err != nil {
		return t.forget(ctx, p, d, err)
	}
	return t.awaitBackup(p, d)
}

// forget drops a request that will never be done, so that the next attempt makes a new one.
func (t *task) forget(ctx context.Context, p *part, d requested, err error) error {
	if !errors.Is(err, source.ErrBackupGone) {
		return err
	}
	return errors.Join(err, p.save(ctx, requested{Activity: d.Activity}))
}

// awaitBackup waits for a backup: 5 s at first, at most a minute.
func (t *task) awaitBackup(p *part, d requested) error {
	pause := min(5*time.Second<<min(d.Waits, 4), time.Minute)
	return waiting{later: true, Blocker: job.Blocker{
		Code: "backup", Sentence: fmt.Sprintf("the backup %s is being made by the source", p.record.Name),
		Until: t.Now().Add(pause), Holder: t.spec.Source, Remedy: "nothing: it is fetched when it is done",
	}}
}

// collect is the step of BackupCollection: it fetches and verifies the backups.
func (t *task) collect(ctx context.Context) error {
	names := t.backupNames()
	if len(names) == 0 {
		return t.passed()
	}
	src, err := t.app.options.Sources.Source(t.spec.Source)
	if err != nil {
		return err
	}
	err = t.withBackups(func(u *workdir.Unit, parts *os.Root) error {
		return t.runTasks(ctx, names, t.app.options.Tasks, func(ctx context.Context, p *part) error {
			return t.fetchBackup(ctx, src, p, parts, u.Item(p.record.Name, nil))
		})
	})
	if err != nil {
		return err
	}
	return errors.Join(t.passed(), t.dir.RemoveAll(partsName))
}

// withBackups opens the unit of the backups, and the directory of downloads that are not complete.
func (t *task) withBackups(do func(u *workdir.Unit, parts *os.Root) error) (err error) {
	parts, err := t.parts()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, parts.Close()) }()
	u, err := t.dir.Unit(backupUnit)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.Close()) }()
	return do(u, parts)
}

// refetchBackups fetches the backups again whose files were damaged or lost.
func (t *task) refetchBackups(ctx context.Context, src source.Source) error {
	names := t.backupNames()
	if len(names) == 0 {
		return nil
	}
	b := source.BackupsOf(src)
	if b == nil {
		return fmt.Errorf("source %s makes no backups", t.spec.Source)
	}
	tasks, err := t.tasks(ctx)
	if err != nil {
		return err
	}
	return t.withBackups(func(u *workdir.Unit, parts *os.Root) error {
		for _, name := range names {
			whole, err := t.whole(ctx, filesOf(u, name))
			if err != nil {
				return err
			}
			if whole {
				continue
			}
			var d requested
			if err := decode(tasks[name].Data, &d); err != nil {
				return err
			}
			if _, err := b.FetchBackup(ctx, d.Request, parts, u.Item(name, nil)); err != nil {
				return err
			}
		}
		return nil
	})
}

// whole reports whether there are files, and all are as they were fetched.
func (t *task) whole(ctx context.Context, files []workdir.File) (bool, error) {
	for _, f := range files {
		switch err := t.dir.Verify(ctx, f); {
		case errors.Is(err, workdir.ErrDamaged):
			return false, nil
		case err != nil:
			return false, err
		}
	}
	return len(files) > 0, nil
}

// parts opens the directory for parts of downloads.
func (t *task) parts() (*os.Root, error) {
	if err := t.dir.MkdirAll(partsName, 0o750); err != nil {
		return nil, err
	}
	return t.dir.OpenRoot(partsName)
}

// fetchBackup fetches a backup that is done.
func (t *task) fetchBackup(ctx context.Context, src source.Source, p *part, parts *os.Root, out source.Out) error {
	b := source.BackupsOf(src)
	if b == nil {
		return fmt.Errorf("source %s makes no backups", t.spec.Source)
	}
	var d requested
	if err := decode(p.record.Data, &d); err != nil {
		return err
	}
	if d.Request == nil {
		return t.startBackup(ctx, src, p)
	}
	state, err := b.BackupState(ctx, d.Request)
	if err != nil {
		return t.forget(ctx, p, d, err)
	}
	switch state {
	case source.BackupNew:
		return t.startBackup(ctx, src, p)
	case source.BackupRunning:
		d.Waits++
		p.keep(ctx, d)
		return t.awaitBackup(p, d)
	}
	got, err := b.FetchBackup(ctx, d.Request, parts, out)
	if err != nil {
		return t.forget(ctx, p, d, err)
	}
	d.Warnings = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(d.Request.Warnings), got.Warnings...))))
	return p.save(ctx, d) // with the file, which is deleted in the end
}
