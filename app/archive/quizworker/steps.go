package quizworker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/internal/dirlock"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Causes of failures and of waiting.
const (
	causeToken   = "quiz-token"  // the file with the token is missing
	causeReport  = "quiz-report" // a report is empty or a login page
	blockBackup  = "quiz-backup" // the Moodle makes a backup
	backupEvery  = 30 * time.Second
	lockName     = "lock"
	workName     = "work"
	doneName     = "done"
	filesName    = "files"
	stageName    = "stage"
	metadataName = "attempts_metadata.csv"
)

// data is the data of a job.
type data struct {
	Artifact *artifact `json:"artifact,omitempty"` // that is uploaded
	Offered  bool      `json:"offered,omitempty"`  // the Moodle may have taken it already
	SHA256   string    `json:"sha256,omitempty"`   // of the ZIP file
	Size     int64     `json:"size,omitempty"`
	Failure  *problem  `json:"failure,omitempty"` // why the job goes to Cleanup
}

// problem is kept for the record: a transition clears the message of the one before.
type problem struct {
	Cause   string `json:"cause"`
	Message string `json:"message"`
}

// run is a job while a step works on it.
type run struct {
	*engine.Run
	app  *App
	spec Spec
	data data
	m    *moodle
	root *os.Root // of its folder
}

// begin is the step of Queued.
func (a *App) begin(_ context.Context, r *engine.Run) error {
	if a.options.Timeout > 0 {
		r.SetDeadline(r.Now().Add(a.options.Timeout))
	}
	return nil
}

// step wraps the work of a state: one attempt at a time works in the folder of a job.
func (a *App) step(do func(*run, context.Context) error) engine.Step {
	return func(ctx context.Context, r *engine.Run) (err error) {
		t := &run{Run: r, app: a}
		if err := errors.Join(r.Spec(&t.spec), decode(r.Job().Data, &t.data)); err != nil {
			return err
		}
		if t.root, err = a.root.OpenRoot(t.spec.UUID); err != nil {
			return engine.Fail(causeToken, fmt.Errorf("the folder of the job is missing: %w", err))
		}
		defer t.root.Close()
		lock, err := dirlock.Lock(t.root, lockName, r.Job().ID, r.Job().Epoch)
		if err != nil {
			return err
		}
		defer lock.Close()
		token, err := t.root.ReadFile(secretName)
		if err != nil {
			return engine.Fail(causeToken, fmt.Errorf("the token of the Moodle cannot be read: %w", err))
		}
		t.m = &moodle{a.http, &t.spec, string(token)}
		err = do(t, ctx)
		var e *source.Error
		if errors.As(err, &e) && e.Transient && e.After > 0 {
			return engine.RetryAfter(e.After, err)
		}
		return err
	}
}

// report reports a status to the Moodle: a change at once, progress at most every 15 seconds. A failed report does not
// fail the job, unless the Moodle does not know the task, or has ended it.
func (t *run) report(ctx context.Context, s Status, done, total int) error {
	now, id := t.Now(), t.Job().ID
	t.app.mu.Lock()
	last, known := t.app.updated[id]
	if known && done > 0 && now.Sub(last) < statusEvery {
		t.app.mu.Unlock()
		return nil
	}
	t.app.updated[id] = now
	t.app.mu.Unlock()
	err := t.m.update(ctx, s, done*100/max(total, 1))
	var e *source.Error
	if err == nil || ctx.Err() != nil || errors.As(err, &e) && !e.Transient {
		return err
	}
	t.Log().Warn("the status was not reported to the Moodle", "error", err)
	return nil
}

// archive is the step of Running.
func (t *run) archive(ctx context.Context) error {
	if err := t.report(ctx, running, 0, 1); err != nil {
		return err
	}
	if err := t.root.MkdirAll(path.Join(workName, doneName), 0o700); err != nil {
		return err
	}
	w, err := t.openWork(ctx)
	if err != nil {
		return err
	}
	total := len(t.spec.Attempts)
	for i, id := range t.spec.Attempts {
		if !w.complete(id) {
			if err := w.attempt(ctx, id); err != nil {
				return err
			}
		}
		t.Progress(int64(i+1), int64(total), "attempts")
		if err := t.report(ctx, running, i+1, total); err != nil {
			return err
		}
	}
	if t.spec.Metadata {
		if err := w.table(ctx); err != nil {
			return err
		}
	}
	return t.backups(ctx, w)
}

// backups fetches the backups of a legacy order, and waits for them.
func (t *run) backups(ctx context.Context, w *work) error {
	for i, b := range t.spec.Backups {
		name := path.Join("backups", fmt.Sprintf("%d-%s", i+1, b.File))
		if w.has(name) {
			continue
		}
		ready, err := t.m.ready(ctx, b.ID)
		if err != nil {
			return err
		}
		if !ready {
			if err := t.report(ctx, waiting, 0, 1); err != nil {
				return err
			}
			return engine.Wait(job.Blocker{Code: blockBackup, Sentence: "the Moodle makes the backup " + b.ID,
				Until: t.Now().Add(backupEvery)})
		}
		err = w.put(name, func(f *os.File) error { return t.m.download(ctx, b.URL, "", maxBackup, f) })
		if err != nil {
			return err
		}
	}
	return nil
}

// finalize is the step of Finalizing. What is uploaded is recorded before the Moodle is asked to take it: a repetition
// does not upload it again, and an answer that was lost is known from the next one.
func (t *run) finalize(ctx context.Context) error {
	if t.data.Artifact == nil {
		if err := t.report(ctx, finalizing, 0, 1); err != nil {
			return err
		}
		if err := t.pack(ctx); err != nil {
			return err
		}
	}
	offered := t.data.Offered
	t.data.Offered = true
	if err := t.SetData(t.data); err != nil {
		return err
	}
	if err := t.Save(ctx); err != nil {
		return err
	}
	err := t.m.process(ctx, t.data.Artifact)
	var e *source.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code {
	case "E_ALREADY_COMPLETED", "E_NO_UPLOAD_EXPECTED":
		if offered { // the answer to an earlier request was lost
			return nil
		}
	case "E_CHECKSUM_MISMATCH", "E_STORING_FAILED":
		t.data.Artifact, t.data.Offered = nil, false
		if err := t.SetData(t.data); err != nil {
			return err
		}
		return engine.Retry(err)
	}
	return err
}

// pack makes the ZIP file and uploads it.
func (t *run) pack(ctx context.Context) error {
	name := t.spec.Archive + ".zip"
	sum, size, err := t.zip(ctx, path.Join(workName, "archive.zip"))
	if err != nil {
		return err
	}
	f, err := t.root.Open(path.Join(workName, "archive.zip"))
	if err != nil {
		return err
	}
	defer f.Close()
	a, err := t.m.upload(ctx, name, f)
	if err != nil {
		return err
	}
	a.SHA256 = sum
	t.data = data{Artifact: &a, SHA256: sum, Size: size}
	return nil
}

// explain keeps the failure of a job through the attempts at Cleanup.
func explain(ctx context.Context, r *engine.Run, d *data) error {
	j := r.Job()
	if j.Outcome == lifecycle.OK {
		return nil
	}
	if d.Failure == nil {
		d.Failure = &problem{j.Cause, j.Message}
		if err := r.SetData(d); err != nil {
			return err
		}
		if err := r.Save(ctx); err != nil {
			return err
		}
	}
	r.SetCause(d.Failure.Cause)
	r.SetMessage(d.Failure.Message)
	return nil
}

// clean is the step of Cleanup: it may be repeated, and does what it can.
func (a *App) clean(ctx context.Context, r *engine.Run) error {
	var s Spec
	var d data
	if err := errors.Join(r.Spec(&s), decode(r.Job().Data, &d)); err != nil {
		return err
	}
	if err := explain(ctx, r, &d); err != nil {
		return err
	}
	if !uuidRule.MatchString(s.UUID) {
		return nil
	}
	if a.options.Printer != nil { // before the Moodle is asked, which may be down
		if err := a.options.Printer.Remove(ctx, r.Job().ID); err != nil {
			return err
		}
	}
	token, err := a.root.ReadFile(path.Join(s.UUID, secretName))
	if err == nil && r.Job().Outcome != lifecycle.OK {
		m := &moodle{a.http, &s, strings.TrimSpace(string(token))}
		err = m.update(ctx, statusOf(r.Job().Position), -1)
		var e *source.Error
		switch {
		case err == nil:
		case errors.As(err, &e) && !e.Transient, r.Last():
			r.Log().Warn("the Moodle was not notified of the failure", "error", err)
		default:
			return engine.Retry(err)
		}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	a.mu.Lock()
	delete(a.updated, r.Job().ID)
	a.mu.Unlock()
	return a.root.RemoveAll(s.UUID)
}
