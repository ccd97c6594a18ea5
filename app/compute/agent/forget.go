package agent

import (
	"context"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// kill ends a payload that has not ended.
func (a *App) kill(ctx context.Context, j *job.Job, note string) error {
	if j.Ended {
		return nil
	}
	_, err := a.engine.Do(ctx, operator.Act{Job: j.ID, Event: compute.Kill, By: lifecycle.Engine, Actor: "server",
		Note: note})
	if job.KindOf(err) == job.Refused { // it ended meanwhile
		return nil
	}
	return err
}

// Forget lets the files of a payload go: the server has everything. One that has not ended is not forgotten. Its record
// stays. One that never came is not run if it comes.
func (a *App) Forget(ctx context.Context, h compute.Handle) error {
	j, ok, err := a.find(ctx, h)
	switch {
	case err != nil:
		return err
	case !ok:
		return a.voidTicket(ctx, h, "the server does not wait for it any more")
	case !j.Ended || a.trial(j.ID) != nil:
		return job.Errorf(job.Refused, "forget", j.ID, "it has not ended: kill it first")
	}
	if !j.Gone {
		_, err := a.engine.Do(ctx, operator.Act{Job: j.ID, Event: compute.Clean, By: lifecycle.Timer, Actor: "server",
			Note: "the server has everything"})
		if err != nil {
			if now, again := a.engine.Store().Get(ctx, j.ID); again != nil || !now.Gone {
				return err
			}
		}
	}
	free, err := a.locked(ctx, j.ID)
	if err != nil {
		return err
	}
	defer free()
	return a.remove(j.ID)
}

// Clear removes what else belongs to a payload whose record is about to be purged, for [engine.Retention].
func (a *App) Clear(_ context.Context, j *job.Job) error {
	if j.Kind != compute.PayloadKind {
		return nil
	}
	return a.remove(j.ID)
}
