package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// source gives the files of a parcel, each once and in the order of its list.
type source func(name string) (io.ReadCloser, error)

// Submit takes a parcel, once: see [compute.Executor].
func (a *App) Submit(ctx context.Context, p *compute.Parcel) (compute.Notice, error) {
	n, _, err := a.submit(ctx, p, func(name string) (io.ReadCloser, error) {
		if p.Open == nil {
			return nil, job.Errorf(job.Invalid, "agent", p.Job, "there is no %q to read", name)
		}
		return p.Open(name)
	})
	return n, err
}

// submit reports besides whether the payload is a new one.
func (a *App) submit(ctx context.Context, p *compute.Parcel, files source) (n compute.Notice, fresh bool, err error) {
	if err := errors.Join(a.Fault(), checkParcel(p)); err != nil {
		return n, false, err
	}
	id := idOf(p.Ticket)
	free, err := a.locked(ctx, id) // one that arrives meanwhile waits, and finds what this one made
	if err != nil {
		return n, false, err
	}
	defer free()
	n, known, err := a.known(ctx, id, p.Secret)
	if known || err != nil {
		return n, false, err
	}
	if p.Instance != "" && p.Instance != a.memory.name {
		return compute.Notice{
			Standing: compute.Lost, Instance: a.memory.name,
			Reason: "the agent's memory is another one than when the parcel was first sent: it may have run then",
		}, false, nil
	}
	s, refused := a.admit(p)
	if refused != nil {
		return n, false, refused
	}
	j, err := a.receive(ctx, engine.Order{
		ID: id, Kind: compute.PayloadKind, Key: keyOf(p.Ticket), Owner: p.Owner, Group: p.Service,
		By: lifecycle.Engine, Actor: "server",
	}, s, files)
	if job.IsFull(err) {
		var refusal *compute.Refusal
		if !errors.As(err, &refusal) {
			err = &compute.Refusal{Reason: "the agent's disk is full: " + err.Error(), Here: true, Full: true}
		}
	}
	if err != nil {
		return n, false, err
	}
	return a.notice(&j), true, nil
}

// known searches for a payload of a ticket. A secret that is not the payload's finds nothing, and the ticket is taken.
func (a *App) known(ctx context.Context, id job.ID, secret string) (n compute.Notice, known bool, err error) {
	j, err := a.engine.Store().Get(ctx, id)
	if job.KindOf(err) == job.NotFound {
		return n, false, nil
	}
	if err != nil {
		return n, false, err
	}
	s, err := specOf(&j)
	if err != nil {
		return n, false, err
	}
	if !s.matches(secret) {
		return n, true, &compute.Refusal{Reason: "the ticket is another payload's", Here: false}
	}
	return a.notice(&j), true, nil
}

// admit reports what a parcel becomes here, or why it is refused.
func (a *App) admit(p *compute.Parcel) (*Spec, error) {
	here := func(format string, args ...any) error {
		return &compute.Refusal{Reason: fmt.Sprintf(format, args...), Here: true}
	}
	if a.Draining() {
		return nil, here("the agent is draining: it takes no payloads")
	}
	service, ok := a.service(p.Service)
	if !ok {
		return nil, here("the agent does not serve %q", p.Service)
	}
	if err := p.Limits.Within(service.Max); err != nil {
		return nil, here("the agent does not allow it: %s", err)
	}
	if lacks := a.lacks(p, &service); lacks != "" {
		return nil, here("%s", lacks)
	}
	limits := p.Limits.Over(service.Limits.Over(a.options.Limits))
	if why := a.room.never(need{limits.Memory, limits.Cores}); why != "" {
		return nil, here("%s", why)
	}
	size := int64(0)
	for _, f := range p.Files {
		size += f.Size
	}
	if limits.Disk > 0 && size > limits.Disk {
		return nil, here("its files have %d bytes, and it may have %d", size, limits.Disk)
	}
	if free, err := a.options.Disk(a.options.Dir); err == nil && free < size+a.options.Reserve {
		return nil, &compute.Refusal{Here: true, Full: true, Reason: fmt.Sprintf(
			"its files have %d bytes, and the agent's disk has %d free, of which %d are reserved", size, free,
			a.options.Reserve)}
	}
	return &Spec{
		Job: p.Job, Attempt: p.Attempt, Secret: hashed(p.Secret), Service: p.Service, Files: p.Files, Env: p.Env,
		Limits: limits, Inputs: p.Inputs,
	}, nil
}

// receive stores the files of a payload and then its record: a crash in between leaves a directory that the next start
// removes. The caller has the lock.
func (a *App) receive(ctx context.Context, o engine.Order, s *Spec, files source) (j job.Job, err error) {
	stage, err := os.MkdirTemp(filepath.Join(a.options.Dir, stageName), "parcel-")
	if err != nil {
		return j, unavailable(o.ID, err)
	}
	defer os.RemoveAll(stage)
	if err := os.Mkdir(filepath.Join(stage, jobName), 0o700); err != nil {
		return j, unavailable(o.ID, err)
	}
	root, err := os.OpenRoot(filepath.Join(stage, jobName))
	if err != nil {
		return j, unavailable(o.ID, err)
	}
	defer root.Close()
	for i := range s.Files {
		if err := a.receiveFile(ctx, root, &s.Files[i], files); err != nil {
			return j, err
		}
	}
	return a.settle(ctx, o, s, stage)
}

// settle takes over a stage directory: durable, under its name, then the record.
func (a *App) settle(ctx context.Context, o engine.Order, s *Spec, stage string) (j job.Job, err error) {
	if err := errors.Join(durable.Sync(filepath.Join(stage, jobName)), durable.Sync(stage)); err != nil {
		return j, unavailable(o.ID, err)
	}
	if err := a.remove(o.ID); err != nil { // there is no record: a crash left it
		return j, unavailable(o.ID, err)
	}
	if err := errors.Join(os.Chmod(stage, a.wayMode()), os.Rename(stage, a.pathOf(o.ID))); err != nil {
		return j, unavailable(o.ID, err)
	}
	if err := errors.Join(durable.Sync(filepath.Dir(a.pathOf(o.ID))), a.memory.use()); err != nil {
		return j, unavailable(o.ID, err)
	}
	if ctx.Err() != nil { // who sent it is gone, and nothing was taken yet
		return j, errors.Join(unavailable(o.ID, context.Cause(ctx)), a.remove(o.ID))
	}
	o.Spec = s
	j, err = a.engine.Submit(context.WithoutCancel(ctx), o)
	if kind := job.KindOf(err); err != nil && kind != job.Unavailable { // it was not taken for certain
		err = errors.Join(err, a.remove(o.ID))
	}
	return j, err
}

// receiveFile stores one file as it was announced, durably.
func (a *App) receiveFile(ctx context.Context, root *os.Root, f *compute.File, files source) (err error) {
	in, err := files(f.Name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := root.OpenFile(f.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return unavailable("", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(a.guardDisk(out), sum), io.LimitReader(in, f.Size+1))
	if refusal, is := errors.AsType[*compute.Refusal](err); is {
		return refusal
	}
	if err != nil {
		return unavailable("", fmt.Errorf("the file %q: %w", f.Name, err))
	}
	if ctx.Err() != nil {
		return unavailable("", context.Cause(ctx))
	}
	if got := hex.EncodeToString(sum.Sum(nil)); n != f.Size || got != f.SHA256 {
		return job.Errorf(job.Invalid, "agent", "",
			"the file %q came with %d bytes and digest %.12s..., announced were %d and %.12s...", f.Name, n, got,
			f.Size, f.SHA256)
	}
	return out.Sync()
}

func unavailable(id job.ID, err error) error {
	return &job.Error{Op: "agent", Kind: job.Unavailable, ID: id, Err: err}
}

// Drain has no payload accepted any more; those that were accepted are run to their ends. It may be called again.
func (a *App) Drain() { a.drain(true) }

// Resume ends Drain.
func (a *App) Resume() { a.drain(false) }

func (a *App) drain(on bool) {
	a.mu.Lock()
	a.draining = on
	a.mu.Unlock()
	a.hub.notify("")
}

// Draining reports whether payloads are refused.
func (a *App) Draining() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.draining || a.halted
}

// Halt is for the end of the process: nothing is accepted or started any more; it waits up to grace for payloads that
// run, then ends them, and they fail with cause [CauseStopped]. It returns when none runs or ctx ends, and reports
// whether it ended any. Those that wait stay in the store and are run after the next start.
func (a *App) Halt(ctx context.Context, grace time.Duration) (ended bool) {
	a.mu.Lock()
	a.halted = true
	a.mu.Unlock()
	a.hub.notify("")
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for _, t := range a.running() {
		select {
		case <-t.done:
			continue
		case <-timer.C:
		case <-ctx.Done():
		}
		break
	}
	all := a.running()
	for _, t := range all {
		t.cancel(errHalted)
	}
	for _, t := range all {
		select {
		case <-t.done:
		case <-ctx.Done():
			return len(all) > 0
		}
	}
	return len(all) > 0
}
