package compute

import (
	"context"
	"errors"
	"io/fs"

	"github.com/stagepost/stagepost/job"
)

// Repeat makes a new job of the files of another one: after a failure, or with changes that change makes to the order.
// The lifecycle has no way back out of an end, so that what was reported once stays true. Gone: the files were cleaned.
func (a *App) Repeat(ctx context.Context, id job.ID, change func(*Order)) (job.Job, error) {
	j, err := a.engine.Store().Get(ctx, id)
	if err != nil {
		return j, err
	}
	if j.Kind != JobKind {
		return j, job.Errorf(job.NotFound, "repeat", id, "it is no compute job")
	}
	spec, d, err := RecordOf(&j)
	if err != nil {
		return j, err
	}
	if j.State == Cleaned {
		return j, removed("repeat", id, &j)
	}
	u, err := a.Begin(ctx)
	if err != nil {
		return j, err
	}
	defer u.Discard()
	u.For(j.Owner)
	switch err := u.adopt(inputsOf(id), spec.inputs(&d)); {
	case errors.Is(err, fs.ErrNotExist): // cleaned since the record was read
		return j, job.Errorf(job.Gone, "repeat", id, "its files are not here any more")
	case job.KindOf(err) == job.Refused:
		return j, err
	case err != nil:
		return j, job.Errorf(job.Unavailable, "repeat", id, "its files cannot be read: %w", bare(err))
	}
	priority := j.Priority
	o := Order{Owner: j.Owner, User: spec.User, Service: spec.Service, Name: spec.Name, Env: spec.Env,
		Limits: spec.Limits, Labels: spec.Labels, Requires: spec.Requires, Inputs: spec.Inputs, From: id,
		Callback: spec.Callback, Fetch: spec.Fetch, Priority: &priority}
	if change != nil {
		change(&o)
	}
	return u.Commit(ctx, o)
}

// Repeatable returns why a job cannot run again as it is; nil: it can. The route that runs it again, the page of the
// job and the explanation all offer what it allows.
func (a *App) Repeatable(j *job.Job) error {
	spec, err := SpecOf(j)
	if err != nil {
		return err
	}
	refused := func(format string, args ...any) error {
		return job.Errorf(job.Refused, "retry", j.ID, format, args...)
	}
	service := a.services[spec.Service]
	switch {
	case !j.Ended:
		return refused("it has not ended (%s)", j.State)
	case j.State == Cleaned:
		return removed("retry", j.ID, j)
	case service == nil:
		return refused("there is no service %.80q any more (known: %s)", spec.Service, a.serviceNames())
	}
	if _, err := service.Effective(spec.Limits); err != nil {
		return refused("%w", err)
	}
	if err := service.CheckCallback(spec.Callback); err != nil {
		return refused("%w", err)
	}
	return nil
}
