package ingest

import (
	"context"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// allowBatch says what a person's event needs of a batch beyond its lifecycle.
func (a *App) allowBatch(ctx context.Context, j *job.Job, act *engine.Act) (job.Require, error) {
	switch act.Event {
	case Release:
		return job.Require{}, a.released(ctx, j)
	case Update, Delete:
		return job.Require{Idle: true}, nil
	}
	return job.Require{}, nil
}

// allowJob says what a person's event needs of a job beyond its lifecycle.
func (a *App) allowJob(ctx context.Context, j *job.Job, act *engine.Act) (job.Require, error) {
	switch act.Event {
	case Release:
		return job.Require{}, a.released(ctx, j)
	case Retry:
		if why, wrong := needsNew[j.Cause]; wrong {
			return job.Require{}, job.Errorf(job.Refused, "retry", j.ID, "%s (%s): hand it in again as a new submission", why, j.Message)
		}
		return job.Require{ParentIn: []lifecycle.State{Processing, Failed}}, nil
	case Delete:
		return job.Require{}, a.batchEnded(ctx, j, act)
	}
	return job.Require{}, nil
}

// released refuses a release while a hold still matches: it would be held again at once.
func (a *App) released(ctx context.Context, j *job.Job) error {
	holds, err := a.engine.Store().Hold(ctx, nil)
	if err != nil {
		return err
	}
	there := *j
	there.State = Pending
	for _, h := range holds {
		if h.Matches(&there) && h.On(a.engine.Clock().Now()) {
			return job.Errorf(job.Refused, "release", j.ID, "%s is still on hold (%s, by %s): release that hold first", h.Scope, h.Why, h.Who)
		}
	}
	return nil
}

// batchEnded asks for confirmation before a job leaves a batch whose report is not written yet.
func (a *App) batchEnded(ctx context.Context, j *job.Job, act *engine.Act) error {
	if j.Parent == "" || act.Confirm {
		return nil
	}
	b, err := a.engine.Store().Get(ctx, j.Parent)
	switch {
	case job.KindOf(err) == job.NotFound:
		return nil
	case err != nil:
		return err
	case !b.Ended:
		return job.Errorf(job.Refused, "delete", j.ID, "its batch %s is %s and its report will lack the job: confirm to delete it all the same", b.ID, b.State)
	}
	return nil
}
