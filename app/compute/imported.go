package compute

import (
	"context"
	"errors"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// Standings of jobs that are taken over from another system. Any other means that the job was at work there. Imported
// jobs take the transitions of the lifecycle as all do, and reach no executor.
const (
	ImportQueued    = "queued"    // its files are gone, or not all here, or it would run
	ImportCompleted = "completed" // its results lie in its directory
	ImportFailed    = "failed"
	ImportInvalid   = "invalid"
	ImportKilled    = "killed" // waits for the import, which cancels it
)

// beginImported is Queued for a job that is not to run here.
func (a *App) beginImported(r *engine.Run, spec *Spec) error {
	switch spec.Imported.Word {
	case ImportQueued:
		if !spec.Imported.Missing {
			return engine.Fail(CauseRejected,
				errors.New("it was queued where it comes from, and not all of its files could be taken over"))
		}
		return engine.Fail(CauseRejected,
			errors.New("it was queued where it comes from, and its files were gone when it was taken over"))
	case ImportInvalid:
		return engine.Fail(CauseRejected, errors.New("it was invalid where it comes from"))
	case ImportKilled:
		return engine.Wait(job.Blocker{Code: "import",
			Sentence: "the import cancels it, as its origin did", Until: r.Now().Add(time.Minute)})
	}
	return nil
}

// fetchImported is Retrieving for a job that ended elsewhere, or was at work there: its results are checked like all
// others.
func (a *App) fetchImported(ctx context.Context, r *engine.Run, j *job.Job, spec *Spec, d *Data) error {
	cause, sentence := spec.Imported.ending()
	if spec.Imported.Results != "" {
		results, err := a.adopted(ctx, j.ID)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case err != nil && cause == "":
			return failed(r, CauseResults, "its results are damaged: "+err.Error())
		case err != nil: // a bad ending stays what it was (reliability hole J9)
			return failed(r, cause, sentence+"; its results are damaged: "+err.Error())
		}
		d.Results = results
		r.SetBytes(j.Bytes - before(j) + results.Bytes)
		if err := r.SetData(d); err != nil {
			return err
		}
	}
	switch {
	case cause == "" && d.Results != nil:
		return engine.Go(Finish)
	case cause == "":
		return failed(r, CauseResults, "it had ended well where it comes from, and its results did not come with it")
	case spec.Imported.Missing:
		sentence += "; its files were gone when it was taken over"
	}
	return failed(r, cause, sentence)
}

// ending is how a job that was not to run here ended, as far as that is known; no cause: well.
func (i *Imported) ending() (cause, sentence string) {
	const unknown = " where it comes from when it was taken over, and its end is not known"
	switch i.Word {
	case ImportCompleted:
		return "", ""
	case ImportFailed:
		return CauseExit, "it had failed where it comes from"
	case "processing":
		return CauseLost, "it was being sent to its client" + unknown
	case "locked":
		return CauseLost, "it was being ended" + unknown
	case "unknown", "":
		return CauseLost, "its status was not known" + unknown
	}
	return CauseLost, "it was " + i.Word + unknown
}

// calledOff names the cause of a job that is cancelled before it was sent anywhere.
func calledOff(j *job.Job, c *job.Change) {
	cause, sentence := CauseKilled, "it was cancelled before it was sent anywhere"
	if spec, err := SpecOf(j); err == nil && spec.Imported != nil && spec.Imported.Word == ImportKilled {
		sentence = "it had been ended on request where it comes from"
	}
	c.Set.Cause, c.Set.Message = &cause, &sentence
}
