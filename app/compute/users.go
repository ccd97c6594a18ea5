package compute

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strconv"

	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Users gives the application to the user's API of job-orchestrator. A job's number is its id there.
func (a *App) Users() wire.Backend { return wireUsers{a} }

type wireUsers struct{ app *App }

// wireUpload is an upload over the wire.
type wireUpload struct {
	*Upload
	owner string // of the token; empty: there are no tokens
	key   string
}

// Begin is part of wire.Backend.
func (u wireUsers) Begin(ctx context.Context) (wire.Upload, error) {
	up, err := u.app.Begin(ctx)
	if err != nil {
		return nil, err
	}
	caller, _ := wire.CallerOf(ctx)
	up.For(caller.Owner)
	return &wireUpload{Upload: up, owner: caller.Owner}, nil
}

// File is part of wire.Upload.
func (u *wireUpload) File(name string, r io.Reader) error { return said(u.Upload.File(name, r)) }

// said gives an error that the user should read as the wire knows it.
func said(err error) error {
	switch job.KindOf(err) {
	case job.Refused:
		return wire.Quota(err.Error())
	case job.Invalid, job.Conflict:
		return wire.Unsafe(err.Error())
	}
	return err
}

// Key is part of wire.Keyed.
func (u *wireUpload) Key(key string) error {
	if len(key) > 200 {
		return wire.Unsafe("the idempotency key is longer than 200 bytes")
	}
	u.key = key
	return nil
}

// Commit is part of wire.Upload.
func (u *wireUpload) Commit(ctx context.Context, user int32, service string) (uint32, error) {
	o := Order{Owner: u.owner, User: strconv.Itoa(int(user)), Service: service, Key: u.key, Actor: u.owner}
	if o.Owner == "" {
		o.Owner = "user-" + o.User
		o.Actor = o.Owner
	}
	if u.app.services[service] == nil {
		return 0, wire.ErrService
	}
	j, err := u.Upload.Commit(ctx, o)
	if err != nil {
		return 0, said(err)
	}
	return uint32(j.Number), nil
}

// find gives the job with a number.
func (u wireUsers) find(ctx context.Context, id uint32) (job.Job, error) {
	if id == 0 {
		return job.Job{}, wire.ErrNotFound
	}
	page, err := u.app.engine.Store().List(ctx, job.Query{Kinds: []job.Kind{JobKind}, Number: int64(id), Limit: 1})
	if err != nil {
		return job.Job{}, err
	}
	if len(page.Jobs) == 0 {
		return job.Job{}, wire.ErrNotFound
	}
	return page.Jobs[0], nil
}

// Job is part of wire.Backend.
func (u wireUsers) Job(ctx context.Context, id uint32) (wire.View, error) {
	j, err := u.find(ctx, id)
	if err != nil {
		return wire.View{}, err
	}
	d, err := DataOf(&j)
	if err != nil {
		return wire.View{}, err
	}
	v := wire.View{
		Status: wire.Status(Wire(j.State)), Reason: j.Cause, Message: j.Message, Created: j.Created, Public: string(j.ID), Owner: j.Owner, Attempt: int(d.Attempt),
	}
	if n := d.Notice; n != nil {
		v.Started, _ = d.Times()
		if e := n.Ending; e != nil && j.Ended {
			if v.Signal = e.Signal; e.Exit >= 0 { // else it is not known, or there was none
				v.ExitCode = &e.Exit
			}
		}
	}
	if j.Ended {
		if s, err := SpecOf(&j); err == nil && s.Imported == nil { // when one ended in another system is not known
			v.Finished = j.Entered
		}
		if j.State != Cleaned {
			v.Expires = u.app.Expires(j.Entered)
		}
	}
	if j.State == Queued {
		if v.QueuePosition, err = u.app.position(ctx, &j); err != nil {
			return wire.View{}, err
		}
	}
	return v, nil
}

// Result is part of wire.Backend.
func (u wireUsers) Result(ctx context.Context, id uint32) (wire.Result, error) {
	j, err := u.find(ctx, id)
	if err != nil {
		return wire.Result{}, err
	}
	f, r, err := u.app.Results(&j)
	if err != nil {
		return wire.Result{}, err
	}
	return wire.Result{File: f, Size: r.Bytes, ETag: r.SHA256, Modified: j.Entered}, nil
}

// Partial is part of wire.Backend.
func (u wireUsers) Partial(ctx context.Context, id uint32, w func() io.Writer) error {
	j, err := u.find(ctx, id)
	if err != nil {
		return err
	}
	body, err := u.app.Partial(ctx, &j)
	switch {
	case errors.Is(err, ErrNoPayload):
		return wire.ErrNoPayload
	case errors.Is(err, ErrNoService):
		return wire.ErrNoService
	case err != nil:
		return err
	}
	defer body.Close()
	_, err = io.Copy(w(), body)
	return err
}

// Terminate is part of wire.Backend.
func (u wireUsers) Terminate(ctx context.Context, id uint32) (already wire.Status, err error) {
	j, err := u.find(ctx, id)
	if err != nil {
		return "", err
	}
	wish := Wish{By: lifecycle.Owner, Actor: j.Owner}
	if c, known := wire.CallerOf(ctx); known && c.Owner != j.Owner {
		wish = Wish{By: lifecycle.Operator, Actor: cmp.Or(c.Owner, "operator")}
	}
	was := j.Ended // then a Killed one was not ended by this
	j, err = u.app.Cancel(ctx, j.ID, wish)
	if err == nil && j.Ended && (was || j.State != Killed) {
		already = wire.Status(Wire(j.State))
	}
	return already, err
}

// Health is part of wire.Backend.
func (u wireUsers) Health(ctx context.Context) error {
	_, err := u.app.engine.Store().Count(ctx)
	return err
}
