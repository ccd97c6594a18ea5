package slurm

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/collect"
)

// Results is part of [compute.Executor]. The ZIP is made as it is read; its digest is not known before.
func (s *Slurm) Results(ctx context.Context, h compute.Handle) (io.ReadCloser, error) {
	n, err := s.Query(ctx, h)
	if err != nil {
		return nil, err
	}
	if n.Standing != compute.Ended || !n.HasResult {
		return nil, compute.ErrNoPayload
	}
	return s.zip(ctx, h, n.Ending)
}

// Partial is part of [compute.Executor].
func (s *Slurm) Partial(ctx context.Context, h compute.Handle) (io.ReadCloser, error) {
	return s.zip(ctx, h, nil)
}

func (s *Slurm) zip(ctx context.Context, h compute.Handle, ending *compute.Ending) (io.ReadCloser, error) {
	p, err := s.enter(h.Ticket)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, compute.ErrNoPayload
	}
	if err != nil {
		return nil, err
	}
	work, release, err := s.work(p)
	if err != nil {
		p.close()
		return nil, err
	}
	o := collect.Options{Modes: compute.InputModes(p.ticket.Files), MaxFiles: s.o.Files, MaxBytes: s.o.Bytes}
	for _, name := range []string{outFile, errFile} {
		o.Extra = append(o.Extra, collect.Extra{Name: name, Open: func() (io.ReadCloser, error) {
			return p.upToNow(name)
		}})
	}
	if ending != nil {
		text, err := json.MarshalIndent(ending, "", "  ")
		if err != nil {
			p.close()
			release()
			return nil, err
		}
		o.Extra = append(o.Extra, collect.Extra{Name: exitFile, Open: func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(append(text, '\n'))), nil
		}})
	}
	if !p.ticket.Inputs {
		o.Leave = leave(p.ticket.Files)
	}
	out, in := io.Pipe()
	go func() {
		defer p.close()
		defer release()
		m, err := collect.Zip(ctx, work, in, o)
		if len(m.Skipped) > 0 {
			s.log.Info("results are not all", "payload", p.dir, "left_out", len(m.Skipped)+m.SkippedMore, "first",
				m.Skipped[0].Name, "why", m.Skipped[0].Why)
		}
		in.CloseWithError(err)
	}()
	return out, nil
}

// work opens the payload's files. What a payload removed or replaced is empty: its output and its end are had all the
// same.
func (s *Slurm) work(p *payload) (work *os.Root, release func(), err error) {
	want := uint64(0)
	if m := s.marked(p.dir); m != nil {
		want = m.Work
	}
	work, err = openOwn(p.root, workDir, want)
	if err == nil {
		return work, func() { work.Close() }, nil
	}
	s.log.Warn("a payload removed or replaced the directory of its files; none are fetched", "payload", p.dir, "error",
		err)
	dir, err := os.MkdirTemp("", "stagepost-empty-")
	if err != nil {
		return nil, nil, err
	}
	if work, err = os.OpenRoot(dir); err != nil {
		return nil, nil, errors.Join(err, os.Remove(dir))
	}
	return work, func() { _, _ = work.Close(), os.Remove(dir) }, nil
}

// leave names the inputs with their digests: those that are as they were need not come back.
func leave(files []compute.File) map[string]collect.Digest {
	inputs := map[string]collect.Digest{}
	for _, f := range files {
		var d collect.Digest
		if n, err := hex.Decode(d[:], []byte(f.SHA256)); err == nil && n == len(d) {
			inputs[f.Name] = d
		}
	}
	return inputs
}

// upToNow opens a file that may grow: no more of it than there is now is read.
func (p *payload) upToNow(name string) (io.ReadCloser, error) {
	f, err := openFile(p.root, name)
	if err != nil { // the payload put something else under its name: it is left out
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &bounds{io.LimitReader(f, info.Size()), f}, nil
}

type bounds struct {
	io.Reader
	io.Closer
}
