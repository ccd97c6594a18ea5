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
func (a *App) Log(ctx context.Context, h compute.Handle, name string, offset int64, follow bool) (io.ReadCloser, error) {
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
	f, err := os.Open(a.place(j.ID, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, compute.ErrNoPayload
	}
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &follower{ctx: ctx, life: a.life, file: f, grows: grows}, nil
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
		} else if j, err := a.engine.Store().Get(ctx, id); err != nil || j.Ended || a.trial(id) == nil && a.ran(id) {
			return nil, err
		}
		if _, err := changes.next(ctx, a.life); err != nil {
			return nil, err
		}
	}
}

// follower reads a file that may grow. Without a stream it ends where the file does.
type follower struct {
	ctx, life context.Context
	file      *os.File
	grows     *stream
}

// Read is part of io.Reader.
func (f *follower) Read(p []byte) (int, error) {
	for {
		if f.grows == nil {
			return f.file.Read(p)
		}
		more, ended := f.grows.grows() // before the look at the file: what is written after it wakes us
		n, err := f.file.Read(p)
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

// Close is part of io.Closer.
func (f *follower) Close() error { return f.file.Close() }
