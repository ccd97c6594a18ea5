package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/engine/repeat"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Users gives the application to the user's API of job-orchestrator ([wire.Users]). A job's number is its id there. The
// store is the one that the application's engine has.
func Users(app *compute.App, store job.Store) wire.Backend { return users{app, store} }

type users struct {
	app   *compute.App
	store job.Store
}

// upload is an upload over the wire.
type upload struct {
	*compute.Upload
	users users
	owner string // of the token; empty: there are no tokens
	key   string
	asked *repeat.Request // of Commit
}

// Begin is part of wire.Backend.
func (u users) Begin(ctx context.Context) (wire.Upload, error) {
	up, err := u.app.Begin(ctx)
	if err != nil {
		return nil, err
	}
	caller, _ := wire.CallerOf(ctx)
	up.For(caller.Owner)
	return &upload{Upload: up, users: u, owner: caller.Owner}, nil
}

// File is part of wire.Upload.
func (u *upload) File(name string, r io.Reader) error { return readable(u.Upload.File(name, r)) }

// readable gives an error that the user should read as one of the wire.
func readable(err error) error {
	switch job.KindOf(err) {
	case job.Refused:
		return wire.Quota(err.Error())
	case job.Invalid, job.Conflict:
		return wire.Unsafe(err.Error())
	}
	return err
}

// Key is part of wire.Keyed.
func (u *upload) Key(key string) error {
	if len(key) > job.MostName {
		return wire.Unsafe("the idempotency key is longer than " + strconv.Itoa(job.MostName) + " bytes")
	}
	u.key = key
	return nil
}

// Commit is part of wire.Upload.
func (u *upload) Commit(ctx context.Context, user int32, service string) (uint32, error) {
	o := compute.Order{Owner: u.owner, User: strconv.Itoa(int(user)), Service: service, Key: u.key, Actor: u.owner}
	if o.Owner == "" {
		o.Owner = "user-" + o.User
		o.Actor = o.Owner
	}
	if !u.users.serves(service) {
		return 0, wire.ErrService
	}
	ctx = repeat.With(ctx)
	u.asked = repeat.Of(ctx)
	j, err := u.Upload.Commit(ctx, o)
	if err != nil {
		return 0, readable(err)
	}
	return uint32(j.Number), nil
}

// Replayed is part of wire.Replaying.
func (u *upload) Replayed() bool { return u.asked.Found() }

// serves reports whether there is such a service.
func (u users) serves(name string) bool {
	return slices.ContainsFunc(u.app.Services(), func(s compute.Service) bool { return s.Name == name })
}

// find gives the job with a number.
func (u users) find(ctx context.Context, id uint32) (job.Job, error) {
	if id == 0 {
		return job.Job{}, wire.ErrNotFound
	}
	j, err := u.store.Numbered(ctx, compute.JobKind, int64(id))
	if job.KindOf(err) == job.NotFound {
		err = wire.ErrNotFound
	}
	return j, err
}

// Job is part of wire.Backend.
func (u users) Job(ctx context.Context, id uint32) (wire.View, error) {
	j, err := u.find(ctx, id)
	if err != nil {
		return wire.View{}, err
	}
	v, err := viewOf(&j)
	if err != nil {
		return wire.View{}, err
	}
	if j.Ended && j.State != compute.Cleaned {
		v.Expires = u.app.Expires(j.Entered)
	}
	if j.State == compute.Queued {
		if v.QueuePosition, err = u.app.Position(ctx, &j); err != nil {
			return wire.View{}, err
		}
	}
	return v, nil
}

// viewOf gives the part of a view that the record of a job has.
func viewOf(j *job.Job) (wire.View, error) {
	d, err := compute.DataOf(j)
	if err != nil {
		return wire.View{}, err
	}
	v := wire.View{
		Status: wire.Status(compute.StatusOf(j.State)), Reason: j.Cause, Message: j.Message, Created: j.Created,
		Public: string(j.ID), Owner: j.Owner, Attempt: int(d.Attempt),
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
		// When one ended in another system is not known.
		if s, err := compute.SpecOf(j); err == nil && s.Imported == nil {
			v.Finished = j.Entered
		}
	}
	return v, nil
}

// Result is part of wire.Backend.
func (u users) Result(ctx context.Context, id uint32) (wire.Result, error) {
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
func (u users) Partial(ctx context.Context, id uint32, w func() io.Writer) error {
	j, err := u.find(ctx, id)
	if err != nil {
		return err
	}
	body, err := u.app.Partial(ctx, &j)
	switch {
	case errors.Is(err, compute.ErrNoPayload):
		return wire.ErrNoPayload
	case errors.Is(err, compute.ErrNoService):
		return wire.ErrNoService
	case err != nil:
		return err
	}
	defer body.Close()
	_, err = io.Copy(w(), body)
	return err
}

// Terminate is part of wire.Backend.
func (u users) Terminate(ctx context.Context, id uint32) (already wire.Status, err error) {
	j, err := u.find(ctx, id)
	if err != nil {
		return "", err
	}
	request := compute.Request{By: lifecycle.Owner, Actor: j.Owner}
	if c, known := wire.CallerOf(ctx); known && c.Owner != j.Owner {
		request = compute.Request{By: lifecycle.Operator, Actor: cmp.Or(c.Owner, "operator")}
	}
	was := j.Ended // then a Killed one was not ended by this
	j, err = u.app.Cancel(ctx, j.ID, request)
	if err == nil && j.Ended && (was || j.State != compute.Killed) {
		already = wire.Status(compute.StatusOf(j.State))
	}
	return already, err
}

// Health is part of wire.Backend.
func (u users) Health(ctx context.Context) error {
	_, err := u.store.Count(ctx)
	return err
}
