package agent

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/collect"
	"github.com/stagepost/stagepost/job"
)

// packer makes ZIPs of what a payload left. Package collect has the real one.
type packer interface {
	stream(ctx context.Context, dir *os.Root, w io.Writer, o collect.Options) error
	file(ctx context.Context, dir, into *os.Root, name string, o collect.Options) (collect.Result, error)
}

// zipper is the real packer.
type zipper struct{}

func (zipper) stream(ctx context.Context, dir *os.Root, w io.Writer, o collect.Options) error {
	_, err := collect.Zip(ctx, dir, w, o)
	return err
}

func (zipper) file(ctx context.Context, dir, into *os.Root, name string, o collect.Options) (collect.Result, error) {
	return collect.ZipFile(ctx, dir, into, name, o)
}

// results makes the ZIP of a payload's results outside its directory, once. All processes of the payload are gone.
func (a *App) results(ctx context.Context, id job.ID, s *Spec) (*compute.Results, error) {
	if done := a.packed(id); done != nil {
		if info, err := os.Stat(a.place(id, zipName)); err == nil && info.Size() == done.Bytes {
			return done, nil
		}
	}
	dir, err := os.OpenRoot(a.place(id, jobName))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	into, err := os.OpenRoot(a.place(id))
	if err != nil {
		return nil, err
	}
	defer into.Close()
	o := a.contents(id, s)
	var left compute.LeftOut
	o.Tell = left.Tell
	o.Last = []collect.Extra{{Name: exitName, Open: func() (io.ReadCloser, error) { return a.exitAndLeft(id, &left) }}}
	made, err := a.pack.file(ctx, dir, into, zipName, o)
	if err != nil {
		return nil, err
	}
	r := &compute.Results{Bytes: made.Bytes, SHA256: made.SHA256.String(), Files: made.Manifest.Files, LeftOut: left}
	return r, writeJSON(a.place(id, resultsName), r)
}

// exitAndLeft gives exit.json as results hold it: how the payload ended, and what is not among the results. One without exit.json was ended before it had one.
func (a *App) exitAndLeft(id job.ID, left *compute.LeftOut) (io.ReadCloser, error) {
	ending := a.exit(id)
	if ending == nil {
		return nil, fs.ErrNotExist
	}
	text, err := json.Marshal(struct {
		*compute.Ending
		*compute.LeftOut
	}{ending, left})
	return io.NopCloser(bytes.NewReader(append(text, '\n'))), err
}

// contents says what goes into a ZIP besides the directory, and which inputs do not.
func (a *App) contents(id job.ID, s *Spec) collect.Options {
	o := collect.Options{}
	for _, name := range []string{stdoutName, stderrName} {
		o.Extra = append(o.Extra, collect.Extra{Name: name, Open: func() (io.ReadCloser, error) { return openSteady(a.place(id, name)) }})
	}
	if s.Inputs {
		return o
	}
	o.Leave = map[string]collect.Digest{}
	for _, f := range s.Files {
		var sum collect.Digest
		if text, err := hex.DecodeString(f.SHA256); err == nil && copy(sum[:], text) == len(sum) {
			o.Leave[f.Name] = sum
		}
	}
	return o
}

// openSteady opens a file up to the length that it has now.
func openSteady(name string) (io.ReadCloser, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &steady{io.LimitReader(f, info.Size()), f}, nil
}

type steady struct {
	io.Reader
	file *os.File
}

// Close is part of io.Closer.
func (s *steady) Close() error { return s.file.Close() }

// Stat is part of fs.File.
func (s *steady) Stat() (fs.FileInfo, error) { return s.file.Stat() }

// Results gives the results of a payload that ended: see [compute.Executor].
func (a *App) Results(ctx context.Context, h compute.Handle) (io.ReadCloser, error) {
	f, _, err := a.openResults(ctx, h)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// openResults opens the results of a payload that ended. Those of one that was killed right before the agent ended are made now.
func (a *App) openResults(ctx context.Context, h compute.Handle) (*os.File, *compute.Results, error) {
	j, ok, err := a.find(ctx, h)
	if err != nil {
		return nil, nil, err
	}
	if !ok {
		return nil, nil, compute.ErrNoPayload
	}
	return a.openZIP(ctx, &j)
}

// openZIP is openResults for a record.
func (a *App) openZIP(ctx context.Context, j *job.Job) (*os.File, *compute.Results, error) {
	switch {
	case j.Gone:
		return nil, nil, compute.ErrNoPayload
	case !j.Ended || a.trial(j.ID) != nil:
		return nil, nil, job.Errorf(job.Refused, "results", j.ID, "it has not ended")
	case !a.ran(j.ID) && dataOf(j).Results == nil:
		return nil, nil, compute.ErrNoPayload
	}
	s, err := specOf(j)
	if err != nil {
		return nil, nil, err
	}
	free, err := a.locked(ctx, j.ID)
	if err != nil {
		return nil, nil, err
	}
	defer free()
	made, err := a.results(ctx, j.ID, &s)
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(a.place(j.ID, zipName))
	return f, made, err
}

// Partial gives what there is now, in any standing: see [compute.Executor].
func (a *App) Partial(ctx context.Context, h compute.Handle) (io.ReadCloser, error) {
	j, ok, err := a.find(ctx, h)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, compute.ErrNoPayload
	}
	out, in := io.Pipe()
	begun := make(chan error, 1)
	go func() {
		err := a.partial(ctx, &j, func() io.Writer { begun <- nil; return in })
		select {
		case begun <- err:
		default:
		}
		in.CloseWithError(err)
	}()
	if err := <-begun; err != nil {
		return nil, err
	}
	return out, nil
}

// partial writes what there is now. w is called once, when the ZIP begins.
func (a *App) partial(ctx context.Context, j *job.Job, w func() io.Writer) error {
	if j.Gone {
		return compute.ErrNoPayload
	}
	s, err := specOf(j)
	if err != nil {
		return err
	}
	dir, err := os.OpenRoot(a.place(j.ID, jobName))
	if errors.Is(err, fs.ErrNotExist) {
		return compute.ErrNoPayload
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	o := a.contents(j.ID, &s)
	o.Last = []collect.Extra{{Name: exitName, Open: func() (io.ReadCloser, error) { return openSteady(a.place(j.ID, exitName)) }}}
	return a.pack.stream(ctx, dir, w(), o)
}
