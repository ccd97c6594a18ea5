package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// maxDeletions is the number of attempts to delete a backup in its source. After them it stays, and the job ends.
const maxDeletions = 6

// deleteBackups deletes the backups that the job started in the source: after success when the archive has its verified
// copies, after a failure in any case. A backup that cannot be deleted is a warning, never a failure of the job.
func (t *task) deleteBackups(ctx context.Context) (err error) {
	if t.data.Settings.DeleteBackups == nil || !*t.data.Settings.DeleteBackups { // nil: it was not prepared
		return nil
	}
	if err := t.Save(ctx); err != nil { // the tasks that were changed in this attempt are read below
		return err
	}
	tasks, err := t.tasks(ctx)
	if err != nil {
		return err
	}
	var open []job.Task
	for _, name := range sortedKeys(tasks) {
		var d requested
		if !strings.HasPrefix(name, backupTask) {
			continue
		}
		if err := decode(tasks[name].Data, &d); err != nil {
			return err
		}
		if d.Request != nil && !d.Request.Posted.IsZero() && d.Deleted.IsZero() && d.Remains == "" {
			open = append(open, tasks[name])
		}
	}
	if len(open) == 0 {
		return nil
	}
	parts, err := t.parts()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, parts.Close()) }()
	tries := 0 // of the backup with the fewest that is to be tried again
	for _, one := range open {
		n, err := t.deleteOne(ctx, one, parts)
		if err != nil {
			return err
		}
		if n > 0 {
			tries = min(cmp.Or(tries, n), n)
		}
	}
	if tries > 0 {
		return t.awaitDeletion(tries)
	}
	return nil
}

// deleteOne deletes a backup, and records what became of it. again is the number of failed attempts of one that is to
// be tried again; 0: it is not.
func (t *task) deleteOne(ctx context.Context, one job.Task, parts *os.Root) (again int, err error) {
	var d requested
	if err := decode(one.Data, &d); err != nil {
		return 0, err
	}
	failed := t.deleteBackup(ctx, d.Request, parts)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	before := one
	switch {
	case failed == nil:
		d.Deleted = t.Now().UTC()
	case d.Tries+1 < maxDeletions && cause.Temporary(failed):
		d.Tries++
		again = d.Tries
	default:
		d.Tries++
		d.Remains = failed.Error()
		one.Message = "it remains in the source: " + d.Remains
		t.data.Remains = append(t.data.Remains, fileOf(d.Request))
		t.warn(t.remains(&d))
	}
	one.Data = encode(d)
	if again == 0 {
		if err := t.putDeletion(ctx, one.Name, &d); err != nil {
			return 0, err
		}
	}
	return again, errors.Join(t.put(before, one), t.SetData(t.data), t.Save(ctx))
}

// errBeingMade is a backup that cannot be deleted yet, and not be cancelled.
type errBeingMade struct{}

func (errBeingMade) Error() string   { return "the source is still making it" }
func (errBeingMade) Temporary() bool { return true }

// deleteBackup deletes a backup in the source, if it is there.
func (t *task) deleteBackup(ctx context.Context, r *source.BackupRequest, parts *os.Root) error {
	src, err := t.app.options.Sources.Source(t.spec.Source)
	if err != nil {
		return err
	}
	b := source.BackupsOf(src)
	if b == nil {
		return job.Errorf(job.Refused, "archive", t.Job().ID, "source %s makes no backups", t.spec.Source)
	}
	if t.Job().Outcome == lifecycle.OK {
		if err := t.isKept(ctx); err != nil {
			return err
		}
	}
	if r.File == nil { // it was not fetched
		state, err := b.BackupState(ctx, r)
		switch {
		case errors.Is(err, source.ErrBackupGone), errors.Is(err, source.ErrBackupFailed):
			return nil // there is no file
		case err != nil:
			return err
		case state == source.BackupNew:
			return nil
		case state == source.BackupRunning:
			return errBeingMade{}
		}
	}
	return b.DeleteBackup(ctx, r, parts)
}

// isKept reports an error unless every artifact has its verified copies, time stamps included. Only a job whose archive
// is signed, if it is to be, has the outcome OK.
func (t *task) isKept(ctx context.Context) error {
	policy, err := t.app.policy(&t.data.Settings)
	if err != nil {
		return err
	}
	return t.app.options.Copies.Kept(ctx, string(t.Job().ID), policy)
}

// putDeletion enters into the catalog what became of a backup.
func (t *task) putDeletion(ctx context.Context, name string, d *requested) error {
	e := catalog.Event{
		Job: string(t.Job().ID), Type: "source deletion", Outcome: "success", At: t.Now().UTC(),
		Detail: fmt.Sprintf("the backup %s was deleted in the source %s", fileOf(d.Request), t.spec.Source),
	}
	if d.Remains != "" {
		e.Outcome, e.Detail = "failure", t.remains(d)
	}
	e.Key = strings.Join([]string{"source deletion", e.Job, name, e.Outcome}, "/")
	return t.app.options.Catalog.PutEvent(ctx, e)
}

// remains states that a backup was not deleted, and why.
func (t *task) remains(d *requested) string {
	return fmt.Sprintf("the backup %s remains in the source %s: %s", fileOf(d.Request), t.spec.Source, d.Remains)
}

// fileOf names the file of a backup, or the backup if its file is not known.
func fileOf(r *source.BackupRequest) string {
	if r.File == nil {
		return r.ID
	}
	return r.File.Name
}

// warn records a warning with the job.
func (t *task) warn(text string) {
	t.data.Warnings = append(t.data.Warnings, text)
	t.Log().Warn(text)
}

// awaitDeletion waits before another attempt: 30 s at first, at most 5 minutes.
func (t *task) awaitDeletion(tries int) error {
	pause := min(30*time.Second<<(tries-1), 5*time.Minute)
	return waiting{Blocker: job.Blocker{
		Code: "backup-deletion", Holder: t.spec.Source, Until: t.Now().Add(pause),
		Sentence: fmt.Sprintf("a backup could not be deleted in the source yet (attempt %d of %d)", tries,
			maxDeletions),
		Remedy: "nothing: after the last attempt the job ends with a warning",
	}}
}
