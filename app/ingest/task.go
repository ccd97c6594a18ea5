package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// task is one attempt at a phase of a job with everything at hand.
type task struct {
	*engine.Run
	app  *App
	spec record.JobSpec
	data record.JobData
	dir  *workdir.Dir // the job's, locked; nil in phases that need none
}

// phase makes a step of a job's phase: it reads what is known of the job and, if wanted, takes its work directory.
func (a *App) phase(directory bool, do func(*task, context.Context) error) engine.Step {
	return func(ctx context.Context, r *engine.Run) (err error) {
		t := &task{Run: r, app: a}
		if err := errors.Join(r.Spec(&t.spec), r.Data(&t.data)); err != nil {
			return err
		}
		if directory {
			j := r.Job()
			t.dir, err = a.tree.Open(j.Parent, j.ID, j.Epoch)
			if errors.Is(err, workdir.ErrLocked) {
				return engine.Wait(job.Blocker{
					Code: "directory", Sentence: "an earlier attempt still has its work directory", Until: r.Now().Add(a.pause()),
					Holder: "the earlier attempt",
				})
			}
			if err != nil {
				return err
			}
			defer t.dir.Close()
			if err := t.refill(ctx); err != nil {
				return named(err)
			}
		}
		err = named(do(t, ctx))
		t.label()
		return errors.Join(err, r.SetData(t.data))
	}
}

// pause is how long a job waits for another one before it looks again.
func (a *App) pause() time.Duration { return min(a.options.Look, time.Second) }
