package compute

import (
	"context"
	"errors"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// Words under which jobs of another system are taken over. They walk through the lifecycle as all do, and no executor ever sees them.
const (
	ImportCompleted = "completed" // its results lie in its directory
	ImportFailed    = "failed"
	ImportInvalid   = "invalid"
	ImportKilled    = "killed" // waits for whoever imports it to call it off
)

// beginImported is Queued for a job that ended elsewhere.
func (a *App) beginImported(r *engine.Run, spec *Spec) error {
	switch spec.Imported.Word {
	case ImportCompleted, ImportFailed:
		return nil
	case ImportKilled:
		return engine.Wait(engine.Blocker{Code: "import", Sentence: "the import calls it off, as it was where it comes from", Until: r.Now().Add(time.Minute)})
	}
	return engine.Fail(CauseRejected, errors.New("it was "+spec.Imported.Word+" where it comes from"))
}

// fetchImported is Retrieving for a job that ended elsewhere: its results are checked like all others.
func (a *App) fetchImported(ctx context.Context, r *engine.Run, j *job.Job, spec *Spec, d *Data) error {
	if spec.Imported.Results != "" {
		results, err := a.adopted(ctx, j.ID)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && spec.Imported.Word == ImportFailed { // a bad ending stays what it was (reliability hole J9)
			return failed(r, CauseExit, "it had failed where it comes from; its results are damaged: "+err.Error())
		}
		if err != nil {
			return failed(r, CauseResults, "its results are damaged: "+err.Error())
		}
		d.Results = results
		r.SetBytes(j.Bytes - before(j) + results.Bytes)
		if err := r.SetData(d); err != nil {
			return err
		}
	}
	if spec.Imported.Word == ImportCompleted && d.Results != nil {
		return engine.Go(Finish)
	}
	if spec.Imported.Word == ImportCompleted {
		return failed(r, CauseResults, "it had ended well where it comes from, and its results did not come with it")
	}
	return failed(r, CauseExit, "it had failed where it comes from")
}
