package slurm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/stagepost/stagepost/app/compute"
)

// Log is part of [compute.Executor]. A payload that waits has empty output.
func (s *Slurm) Log(ctx context.Context, h compute.Handle, stream string, offset int64, follow bool) (io.ReadCloser,
	error) {
	if stream != outFile && stream != errFile || offset < 0 {
		return nil, fmt.Errorf("the stream is stdout or stderr, and the offset not negative")
	}
	p, err := s.enter(h.Ticket)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, compute.ErrNoPayload
	}
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	return &tail{s: s, p: p, h: h, ctx: ctx, stop: stop, name: stream, offset: offset, follow: follow}, nil
}

// tail reads a file that grows. It is used by one reader, who may close it from elsewhere only by the context.
type tail struct {
	s      *Slurm
	p      *payload
	h      compute.Handle
	ctx    context.Context
	stop   context.CancelFunc
	name   string
	offset int64
	follow bool
	ended  bool // nothing is written any more: what is there now is all
	file   *os.File
}

// Read is part of io.Reader.
func (t *tail) Read(b []byte) (int, error) {
	for len(b) > 0 {
		n, err := t.now(b)
		if n > 0 || err != nil {
			return n, err
		}
		if !t.follow || t.ended {
			return 0, io.EOF
		}
		if err := t.wait(); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// now reads what is there.
func (t *tail) now(b []byte) (int, error) {
	if t.file == nil {
		f, err := openFile(t.p.root, t.name)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		t.file = f
	}
	n, err := t.file.ReadAt(b, t.offset)
	t.offset += int64(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// pause is how often a file that is followed is inspected.
const pause = 200 * time.Millisecond

// wait lets some time pass, and finds out whether the payload has ended. When the cluster does not answer, it may go
// on.
func (t *tail) wait() error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
		return context.Cause(t.ctx)
	}
	n, err := t.s.Query(t.ctx, t.h)
	switch {
	case errors.Is(err, compute.ErrNoPayload):
		t.ended = true
	case err == nil:
		t.ended = n.Standing != compute.Waits && n.Standing != compute.Works
	}
	return nil
}

// Close is part of io.Closer.
func (t *tail) Close() error {
	t.stop()
	t.p.close()
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}
