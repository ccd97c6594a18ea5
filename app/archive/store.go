package archive

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/app/archive/packaging"
	"github.com/stagepost/stagepost/app/archive/sign"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// storageTask is the prefix of the names of storage tasks: store/LOCATION/PATH.
const storageTask = "store/"

// maxStorageTasks is the number of storage tasks that are recorded with the job. The catalog has all copies.
const maxStorageTasks = 1000

// store is the step of Store: every artifact is stored in the locations and read back.
func (t *task) store(ctx context.Context) error {
	if err := errors.Join(t.save(ctx), t.storeVersions(ctx)); err != nil {
		return err
	}
	return t.passed()
}

// save stores the artifacts of the catalog that the locations do not have yet.
func (t *task) save(ctx context.Context) error {
	policy, err := t.app.policy(&t.data.Settings)
	if err != nil {
		return err
	}
	made, err := t.products()
	if err != nil {
		return err
	}
	defer made.close()
	report, failed := t.app.options.Copies.Save(ctx, copies.Request{
		Job: string(t.Job().ID), Policy: policy, Retain: t.retain(),
		Open:     func(name string) (copies.Source, error) { return made.open(ctx, name) },
		Progress: func(done, total int64) { t.Progress(done, total, "bytes") },
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := t.recordCopies(ctx); err != nil {
		return errors.Join(failed, err)
	}
	for _, m := range report.Behind {
		t.Log().Warn("a location lacks copies; the quorum is met", "location", m.Location, "copies", m.Copies,
			"error", m.Err)
	}
	return failed
}

// recordCopies records the storage tasks with the job.
func (t *task) recordCopies(ctx context.Context) error {
	all, err := t.app.options.Catalog.Copies(ctx, string(t.Job().ID), "")
	if err != nil {
		return err
	}
	have, err := t.tasks(ctx)
	if err != nil {
		return err
	}
	for i := range all[:min(len(all), maxStorageTasks)] {
		c := &all[i]
		one := have[storageTask+c.Location+"/"+c.Of.Path]
		before := one
		state := Finished
		switch {
		case !c.Verified.IsZero():
		case c.Error != "":
			state = Failed
		default:
			state = Created
		}
		if one.State == state && one.Message == c.Error {
			continue
		}
		one.Name, one.Kind = storageTask+c.Location+"/"+c.Of.Path, TaskKind
		one.State, one.Message, one.Attempts, one.Total = state, c.Error, c.Attempts, c.Size
		if state == Finished {
			one.Done, one.Message = c.Size, ""
		}
		if err := t.put(before, one); err != nil {
			return err
		}
	}
	return t.Save(ctx)
}

// policy gives where the settings store an archive.
func (a *App) policy(s *Settings) (copies.Policy, error) {
	q, err := copies.ParseQuorum(s.Quorum)
	if err != nil {
		return copies.Policy{}, job.Errorf(job.Invalid, "archive", "", "quorum: %w", err)
	}
	p := copies.Policy{Locations: s.Locations, Quorum: q}
	if err := a.options.Copies.Check(p); err != nil {
		return p, job.Errorf(job.Invalid, "archive", "", "%w", err)
	}
	return p, nil
}

// locations describes the locations of the settings for the metadata of a package.
func (a *App) locations(s *Settings) []packaging.Location {
	names := s.Locations
	if len(names) == 0 {
		names = a.options.Copies.Names()
	}
	all := make([]packaging.Location, 0, len(names))
	for _, name := range names {
		all = append(all, a.options.Describe(name))
	}
	return all
}

// sign is the step of Signing: the seal of the package gets a time stamp, which is stored beside the package.
func (t *task) sign(ctx context.Context) (err error) {
	if !*t.data.Settings.Sign {
		return t.passed()
	}
	if t.app.options.Signer == nil {
		return job.Errorf(job.Invalid, "archive", t.Job().ID, "no time-stamp authority is configured")
	}
	made, err := t.products()
	if err != nil {
		return err
	}
	defer made.close()
	dir, seal := made.into, t.data.Package.Seal.Name
	r, err := t.app.options.Signer.Sign(ctx, sign.Document{
		Job: string(t.Job().ID), Path: seal, Dir: dir,
		Open:        func() (io.ReadCloser, error) { return made.open(ctx, seal) },
		Authorities: t.data.Settings.Authorities,
	})
	if err != nil {
		return err
	}
	for _, w := range r.Warnings {
		t.Log().Warn("time stamp", "warning", w)
	}
	var all []catalog.Artifact
	for _, name := range r.Files {
		a, err := artifactOf(dir, name)
		if err != nil {
			return err
		}
		a.Job, a.Created = string(t.Job().ID), r.Token.Time.UTC()
		all = append(all, a)
	}
	if err := t.app.options.Catalog.PutArtifacts(ctx, string(t.Job().ID), all); err != nil {
		return err
	}
	if err := t.save(ctx); err != nil {
		return err
	}
	t.data.Signed = r.Token.Time.UTC()
	return t.passed()
}

// artifactOf describes a file of a signature.
func artifactOf(dir *os.Root, name string) (a catalog.Artifact, err error) {
	f, err := dir.Open(name)
	if err != nil {
		return a, err
	}
	defer f.Close()
	one, two := sha256.New(), sha512.New()
	a = catalog.Artifact{Path: name, Role: catalog.Signature}
	a.Size, err = io.Copy(io.MultiWriter(one, two), f)
	a.SHA256, a.SHA512 = hex.EncodeToString(one.Sum(nil)), hex.EncodeToString(two.Sum(nil))
	return a, err
}

// revert is the step of ErrorHandling: the jobs that print its PDF files are cancelled, whose claims and tokens give
// access to its documents; running tasks are cancelled, what was stored of an archive that failed is removed, and the
// backups that the job started are deleted in the source. A location that is down does not keep the
// job: its rest is removed when it is usable again.
func (t *task) revert(ctx context.Context) error {
	t.keepReason()
	if err := t.revoke(ctx); err != nil {
		return err
	}
	tasks, err := t.tasks(ctx)
	if err != nil {
		return err
	}
	for _, name := range sortedKeys(tasks) {
		if one := tasks[name]; !TaskLife.Ended(one.State) {
			before := one
			one.State = next(one.State, Cancel, lifecycle.Engine)
			if err := t.put(before, one); err != nil {
				return err
			}
		}
	}
	if err := t.blame(ctx, tasks); err != nil {
		return err
	}
	if err := t.discard(ctx); err != nil {
		return err
	}
	defer t.giveReason() // what was given before may be committed by now
	return t.deleteBackups(ctx)
}

// revoke cancels the jobs that print PDF files of this one, and removes their documents.
func (t *task) revoke(ctx context.Context) error {
	if t.app.options.PDF == nil {
		return nil
	}
	return t.app.options.PDF.Remove(ctx, t.Job().ID)
}

// discard removes what was stored of an archive that failed, and parts of uploads.
func (t *task) discard(ctx context.Context) error {
	err := t.app.options.Copies.Discard(ctx, string(t.Job().ID), "the job ended with outcome "+string(t.Job().Outcome))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil, errors.Is(err, catalog.ErrNotFound), errors.Is(err, catalog.ErrHeld):
	case t.Job().Attempts < 3:
		return err
	default:
		t.Log().Warn("copies of the failed archive remain until their location is usable", "error", err)
	}
	return nil
}

// keepReason notes why the job is stopped: the record loses it with the next change of state.
func (t *task) keepReason() {
	j := t.Job()
	if t.data.Reason == nil {
		t.data.Reason = &reason{j.Cause, j.Message}
	}
	t.giveReason()
}

// giveReason puts into the record why the job is stopped.
func (t *task) giveReason() {
	if r := t.data.Reason; r != nil {
		t.SetCause(r.Cause)
		t.SetMessage(r.Message)
	}
}

// clean is the step of Cleanup: it enters the end into the catalog, deletes the backups that the job started in the
// source, and removes the working directory.
func (t *task) clean(ctx context.Context) error {
	t.giveReason()
	outcome, event := catalog.Failed, Fail
	switch t.Job().Outcome {
	case lifecycle.OK:
		outcome, event = catalog.Complete, Finish
	case lifecycle.TimedOut:
		event = TimeoutEvent
	case lifecycle.Cancelled:
		event = Abort
	}
	err := t.app.options.Catalog.End(ctx, string(t.Job().ID), outcome, t.Now())
	if err != nil && !errors.Is(err, catalog.ErrNotFound) {
		return err
	}
	if t.Job().Outcome == lifecycle.OK { // after a failure, ErrorHandling did it
		if err := t.deleteBackups(ctx); err != nil {
			return err
		}
	}
	if err := t.revoke(ctx); err != nil {
		return err
	}
	if err := t.dir.Clear(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if left := t.data.Remains; event == Finish && len(left) > 0 {
		t.SetMessage(fmt.Sprintf("stored and signed; backups remain in the source %s, delete them there: %s",
			t.spec.Source, strings.Join(left, ", ")))
	}
	return exit{event}
}
