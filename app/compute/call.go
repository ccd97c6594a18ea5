package compute

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/quantity"
)

// errStalled ends a transfer in which nothing moves.
var errStalled = errors.New("nothing moved for too long")

// errCrowded reports that enough steps deal with an executor already.
var errCrowded = errors.New("it is busy with other jobs of this server")

// mostCalls is how many steps may deal with one executor at once: one that hangs keeps the others' slots free.
func (a *App) mostCalls() int { return max(4, a.options.Slots/4) }

// enter begins a step's dealings with an executor, which end with leave. The error reports why it is not asked now.
func (r *registry) enter(m *member) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case m.calls >= r.app.mostCalls():
		return errCrowded
	case m.err != nil && time.Since(m.since) > 2*r.app.options.Answer:
		// it is asked for its capacity all the time: when it answers, its jobs are inspected
		return m.err
	}
	m.calls++
	return nil
}

func (r *registry) leave(m *member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m.calls--
}

// crowded lets a job wait for its turn with an executor.
func (a *App) crowded(r *engine.Run, d *Data) error {
	return engine.Wait(job.Blocker{Code: blockSilent, Sentence: d.Agent + ": " + errCrowded.Error(),
		Until: r.Now().Add(a.options.Answer / 2)})
}

// moving is the context of a transfer: it ends when nothing moved for as long as it may stand still.
type moving struct {
	context.Context
	stop  context.CancelCauseFunc
	timer *time.Timer
	after time.Duration
	count func(n int) // is notified of the bytes
}

func newMoving(ctx context.Context, after time.Duration, count func(n int)) *moving {
	inner, stop := context.WithCancelCause(ctx)
	return &moving{inner, stop, time.AfterFunc(after, func() { stop(errStalled) }), after, count}
}

// beat notes that something moved.
func (m *moving) beat() { m.timer.Reset(m.after) }

func (m *moving) end() { m.timer.Stop(); m.stop(nil) }

// name reports an error that the transfer stood still, if it did.
func (m *moving) name(err error) error {
	if err != nil && errors.Is(context.Cause(m), errStalled) && !errors.Is(err, errStalled) {
		return fmt.Errorf("%w (%s): %w", errStalled, quantity.FormatDuration(m.after), err)
	}
	return err
}

// beating is a file of a parcel whose reading moves a transfer.
type beating struct {
	io.ReadSeekCloser
	m *moving
}

// Read is part of io.Reader.
func (b *beating) Read(p []byte) (int, error) {
	b.m.beat()
	n, err := b.ReadSeekCloser.Read(p)
	b.m.count(n)
	return n, err
}

// body is what comes from an executor. It is closed when its transfer ends, so that no one reads indefinitely.
type body struct {
	io.ReadCloser
	m     *moving
	close func() error
}

func newBody(m *moving, r io.ReadCloser) *body {
	b := &body{ReadCloser: r, m: m, close: sync.OnceValue(r.Close)}
	context.AfterFunc(m, func() { _ = b.close() })
	return b
}

// Read is part of io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.m.beat()
		b.m.count(n)
	}
	return n, b.m.name(err)
}

// Close is part of io.Closer.
func (b *body) Close() error { return b.close() }

// submit passes a parcel over. Whatever kept it from being whole here is [ErrNotSent].
func (a *App) submit(ctx context.Context, r *engine.Run, spec *Spec, d *Data, m *member, first bool) (Notice, error) {
	j := r.Job()
	p, err := a.parcel(&j, spec, d)
	var no *Refusal
	switch {
	case errors.As(err, &no):
		return Notice{}, err
	case err != nil:
		return Notice{}, fmt.Errorf("%w: its files cannot be read: %w", ErrNotSent, bare(err))
	}
	if first { // whatever memory it has now: no one can have run it
		p.Instance = ""
	}
	way := newMoving(ctx, a.options.Stall, a.counts(ToAgent, spec.Service))
	defer way.end()
	open := p.Open
	p.Open = func(name string) (io.ReadSeekCloser, error) {
		f, err := open(name)
		if err != nil {
			return nil, err
		}
		return &beating{f, way}, nil
	}
	n, err := m.executor.Submit(way, p)
	return n, way.name(err)
}
