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
	"path/filepath"

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
func (a *App) results(ctx context.Context, s *Spec, h *held) (*compute.Results, error) {
	into := h.above()
	if made := h.packed(); made != nil {
		if info, err := into.Lstat(zipName); err == nil && info.Mode().IsRegular() && info.Size() == made.Bytes {
			return made, nil
		}
	}
	dir, done, err := a.contentOf(h)
	if err != nil {
		return nil, err
	}
	defer done()
	o := contents(s, h)
	var left compute.LeftOut
	o.Report = left.Add
	o.Last = []collect.Extra{{Name: exitName, Open: func() (io.ReadCloser, error) { return exitAndLeft(h, &left) }}}
	made, err := a.pack.file(ctx, dir, into, zipName, o)
	if err != nil {
		return nil, err
	}
	r := &compute.Results{Bytes: made.Bytes, SHA256: made.SHA256.String(), Files: made.Manifest.Files, LeftOut: left}
	return r, writeJSON(into, resultsName, r)
}

// contentOf gives the directory whose files are results: the payload's own, or an empty one if that has gone. done is
// called when it has been read.
func (a *App) contentOf(h *held) (dir *os.Root, done func(), err error) {
	if dir := h.directory(); dir != nil && !removed(dir) {
		return dir, func() {}, nil
	}
	name, err := os.MkdirTemp(filepath.Join(a.options.Dir, stageName), "empty-")
	if err != nil {
		return nil, nil, err
	}
	if dir, err = os.OpenRoot(name); err != nil {
		return nil, nil, errors.Join(err, os.Remove(name))
	}
	return dir, func() { _, _ = dir.Close(), os.Remove(name) }, nil
}

// exitAndLeft gives exit.json as results hold it: how the payload ended, and what is not among the results. One without
// exit.json was ended before it had one.
func exitAndLeft(h *held, left *compute.LeftOut) (io.ReadCloser, error) {
	ending := h.exit()
	if ending == nil {
		return nil, fs.ErrNotExist
	}
	text, err := json.Marshal(struct {
		*compute.Ending
		*compute.LeftOut
	}{ending, left})
	return io.NopCloser(bytes.NewReader(append(text, '\n'))), err
}

// contents selects what goes into a ZIP besides the directory, which inputs do not, and the mode of the others.
func contents(s *Spec, h *held) collect.Options {
	o := collect.Options{Modes: compute.InputModes(s.Files)}
	for _, name := range []string{stdoutName, stderrName} {
		o.Extra = append(o.Extra, collect.Extra{Name: name, Open: func() (io.ReadCloser, error) {
			return steadyOf(h.output(name))
		}})
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

// steadyOf reads a file up to the length that it has now. The caller closes it afterwards.
func steadyOf(f *os.File) (io.ReadCloser, error) {
	if f == nil {
		return nil, fs.ErrNotExist
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &steady{io.NewSectionReader(f, 0, info.Size()), f}, nil
}

type steady struct {
	io.Reader
	file *os.File
}

// Close is part of io.Closer.
func (s *steady) Close() error { return nil }

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

// openResults opens the results of a payload that ended. Those of one that was killed right before the agent ended are
// made now.
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
	h, err := a.hold(j)
	if err != nil {
		return nil, nil, err
	}
	defer h.drop()
	made, err := a.results(ctx, &s, h)
	if err != nil {
		return nil, nil, err
	}
	f, err := openPlain(h.above(), zipName)
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
	h, err := a.hold(j)
	if errors.Is(err, fs.ErrNotExist) {
		return compute.ErrNoPayload
	}
	if err != nil {
		return err
	}
	defer h.drop()
	if h.directory() == nil {
		return compute.ErrNoPayload
	}
	dir, done, err := a.contentOf(h)
	if err != nil {
		return err
	}
	defer done()
	o := contents(&s, h)
	o.Last = []collect.Extra{{Name: exitName, Open: func() (io.ReadCloser, error) {
		return openPlain(h.above(), exitName)
	}}}
	return a.pack.stream(ctx, dir, w(), o)
}
