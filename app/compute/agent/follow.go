package agent

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
)

// Log gives standard output or error from a byte on: see [compute.Executor].
func (a *App) Log(ctx context.Context, h compute.Handle, name string, offset int64, follow bool) (io.ReadCloser,
	error) {
	if name != stdoutName && name != stderrName || offset < 0 {
		return nil, job.Errorf(job.Invalid, "log", h.Job, "the stream is stdout or stderr, and the offset not negative")
	}
	j, ok, err := a.find(ctx, h)
	switch {
	case err != nil:
		return nil, err
	case !ok || j.Gone:
		return nil, compute.ErrNoPayload
	}
	var grows *stream
	if follow {
		outputs, err := a.begun(ctx, j.ID)
		if err != nil {
			return nil, err
		}
		grows = outputs[name]
	}
	held, err := a.hold(&j)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, compute.ErrNoPayload
	}
	if err != nil {
		return nil, err
	}
	f := held.output(name)
	if f == nil {
		held.drop()
		return nil, compute.ErrNoPayload
	}
	return &follower{ctx: ctx, life: a.life, held: held, file: f, at: offset, grows: grows}, nil
}

// begun waits until a payload has output, or has ended. It gives what still grows, if anything does.
func (a *App) begun(ctx context.Context, id job.ID) (map[string]*stream, error) {
	changes := a.hub.listen()
	defer a.hub.leave(changes)
	for {
		if t := a.trial(id); t != nil {
			a.mu.Lock()
			outputs := t.outputs
			a.mu.Unlock()
			if outputs != nil {
				return outputs, nil
			}
		} else if j, err := a.engine.Store().Get(ctx, id); err != nil || j.Ended || a.ran(id) && a.trial(id) == nil {
			return nil, err // in this order: a run makes its outputs after it is listed
		}
		if _, err := changes.next(ctx, a.life); err != nil {
			return nil, err
		}
	}
}

// follower reads a file that may grow. Without a stream it ends where the file does.
type follower struct {
	ctx, life context.Context
	held      *held
	file      *os.File
	at        int64
	grows     *stream
	closed    bool
}

// Read is part of io.Reader.
func (f *follower) Read(p []byte) (int, error) {
	for {
		if f.grows == nil {
			return f.read(p)
		}
		more, ended := f.grows.grows() // before the check of the file: what is written after it wakes us
		n, err := f.read(p)
		if n > 0 || err != io.EOF || ended {
			return n, err
		}
		select {
		case <-more:
		case <-f.ctx.Done():
			return 0, context.Cause(f.ctx)
		case <-f.life.Done():
			return 0, errClosed
		}
	}
}

// read reads where it is: the file has other readers.
func (f *follower) read(p []byte) (int, error) {
	n, err := f.file.ReadAt(p, f.at)
	f.at += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// Close is part of io.Closer.
func (f *follower) Close() error {
	if !f.closed {
		f.closed = true
		f.held.drop()
	}
	return nil
}
