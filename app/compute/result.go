package compute

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/stagepost/stagepost/edge/collect"
	"github.com/stagepost/stagepost/job"
)

// adopted reads results that lie in a job's directory and gives what is to be known of them.
func (a *App) adopted(ctx context.Context, id job.ID) (*Results, error) {
	dir, err := a.root.OpenRoot(dirOf(id))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f, err := dir.Open(resultsName)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, f)
	if err != nil {
		return nil, err
	}
	sum := hex.EncodeToString(hash.Sum(nil))
	files, err := verified(ctx, dir, sum)
	return &Results{Bytes: n, SHA256: sum, Files: files}, err
}

// Results opens the results of a job. The caller closes the file. NotFound: it has none here, or they were cleaned.
func (a *App) Results(j *job.Job) (*os.File, *Results, error) {
	d, err := DataOf(j)
	if err != nil {
		return nil, nil, err
	}
	if d.Results == nil {
		return nil, nil, job.Errorf(job.NotFound, "results", j.ID, "it has no results (%s)", j.State)
	}
	f, err := a.file(j, "results", path.Join(dirOf(j.ID), resultsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, job.Errorf(job.Internal, "results", j.ID, "its results are not where they were put")
	}
	return f, d.Results, err
}

// file opens a file of a job. Gone: it was cleaned, perhaps since the record was read. Once open it can be read to its
// end, whatever becomes of the job (reliability hole J16).
func (a *App) file(j *job.Job, op, name string) (*os.File, error) {
	if j.State == Cleaned {
		return nil, removed(op, j.ID, j)
	}
	f, err := a.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) && j.Ended {
		if now, again := a.engine.Store().Get(context.Background(), j.ID); job.KindOf(again) == job.NotFound ||
			again == nil && now.State == Cleaned {
			return nil, removed(op, j.ID, &now)
		}
	}
	return f, err
}

// Input opens a file that was uploaded with a job.
func (a *App) Input(j *job.Job, name string) (*os.File, error) {
	if err := checkName(name); err != nil {
		return nil, job.Errorf(job.NotFound, "input", j.ID, "%w", err)
	}
	f, err := a.file(j, "input", path.Join(inputsOf(j.ID), name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, job.Errorf(job.NotFound, "input", j.ID, "there is no input %q", name)
	}
	return f, err
}

// Partial gives what a job has made so far, as a ZIP: from its agent while that has it, then from here. The caller
// closes it. Errors: [ErrNoPayload], [ErrNoService], no answer.
func (a *App) Partial(ctx context.Context, j *job.Job) (io.ReadCloser, error) {
	if f, _, err := a.Results(j); err == nil {
		return f, nil
	}
	if a.services[j.Group] == nil {
		return nil, ErrNoService
	}
	d, err := DataOf(j)
	if err != nil {
		return nil, err
	}
	if d.Remote == "" || j.Ended {
		return nil, ErrNoPayload
	}
	m, _ := a.registry.get(d.Agent)
	if m == nil {
		return nil, errors.New("the agent that has it is not known to this server any more")
	}
	return m.executor.Partial(ctx, d.Handle)
}

// ErrNoService reports that the service of a job is not there any more.
var ErrNoService = errors.New("the service is not there any more")

// Log gives standard output ("stdout") or error ("stderr") of a job from a byte on, with follow until it ends: from its
// agent while that has it, then from its results. The caller closes it. NotFound: there is none (yet).
func (a *App) Log(ctx context.Context, j *job.Job, stream string, offset int64, follow bool) (io.ReadCloser, error) {
	if stream != "stdout" && stream != "stderr" {
		return nil, job.Errorf(job.Invalid, "log", j.ID, "there is no stream %q: stdout and stderr are the two", stream)
	}
	f, _, err := a.Results(j)
	switch {
	case err == nil:
		r, err := logOf(ctx, f, stream, offset)
		if errors.Is(err, fs.ErrNotExist) {
			err = job.Errorf(job.NotFound, "log", j.ID, "its results hold no %s", stream)
		}
		return r, err
	case job.KindOf(err) == job.Gone:
		return nil, err
	}
	d, err := DataOf(j)
	if err != nil {
		return nil, err
	}
	m, _ := a.registry.get(d.Agent)
	if m == nil || j.Ended || d.Attempt == 0 {
		return nil, job.Errorf(job.NotFound, "log", j.ID, "it has written nothing (%s)", j.State)
	}
	r, err := m.executor.Log(ctx, d.Handle, stream, offset, follow)
	if errors.Is(err, ErrNoPayload) {
		err = job.Errorf(job.NotFound, "log", j.ID, "its agent has no log of it (%s)", j.State)
	}
	return r, err
}

// logOf gives a log out of results, from a byte on.
func logOf(ctx context.Context, f *os.File, stream string, offset int64) (io.ReadCloser, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	entry, _, err := collect.Entry(ctx, f, info.Size(), stream)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := io.CopyN(io.Discard, entry, max(0, offset)); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(err, entry.Close(), f.Close())
	}
	return &entryOf{entry, f}, nil
}

// entryOf is a file out of a ZIP that is closed with it.
type entryOf struct {
	io.ReadCloser
	file *os.File
}

// Close is part of io.Closer.
func (e *entryOf) Close() error { return errors.Join(e.ReadCloser.Close(), e.file.Close()) }
