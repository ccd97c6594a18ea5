package ingest

import (
	"context"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// allowBatch says what a person's event needs of a batch beyond its lifecycle.
func (a *App) allowBatch(ctx context.Context, j *job.Job, act *operator.Act) (job.Require, error) {
	switch act.Event {
	case record.Release:
		return job.Require{Free: true}, nil
	case record.Update:
		return job.Require{Idle: true}, nil
	case record.Delete:
		return job.Require{Idle: true}, a.batchLoses(ctx, j, act)
	}
	return job.Require{}, nil
}

// allowJob says what a person's event needs of a job beyond its lifecycle.
func (a *App) allowJob(ctx context.Context, j *job.Job, act *operator.Act) (job.Require, error) {
	switch act.Event {
	case record.Release:
		return job.Require{Free: true}, nil
	case record.Retry:
		if why, wrong := needsNew[j.Cause]; wrong {
			return job.Require{}, job.Errorf(job.Refused, "retry", j.ID, "%s (%s): hand it in again as a new submission", why, j.Message)
		}
		return job.Require{ParentIn: []lifecycle.State{record.Processing, record.Failed}}, nil
	case record.Delete:
		return a.jobLoses(ctx, j, act)
	}
	return job.Require{}, nil
}
