package compute

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Wish is who wants something of a job, and why.
type Wish struct {
	By      lifecycle.Actor // Owner or Operator
	Actor   string
	Note    string
	Version int64 // of the record that the person saw; 0: whatever it is now
}

// Cancel calls a job off: a queued one is Killed at once, one at an agent is ended there, one that has ended stays as it is, and no error. It gives the record afterwards. Refused,
// with what can be done instead, for one that nobody can call off where it stands (it is on its way to an agent, its results are, or its agent is silent), and that does not leave
// there within one and a half times Options.Answer.
func (a *App) Cancel(ctx context.Context, id job.ID, w Wish) (job.Job, error) {
	bounded, stop := context.WithTimeout(ctx, a.options.Answer*3/2)
	defer stop()
	for {
		j, err := a.engine.Await(bounded, id, func(j *job.Job) bool { return j.Kind != JobKind || j.Ended || j.State == Killing || callable(j) })
		if err != nil && bounded.Err() != nil && ctx.Err() == nil {
			return a.passing(ctx, id)
		}
		if err == nil && j.Kind != JobKind {
			return job.Job{}, job.Errorf(job.NotFound, "cancel", id, "there is no such compute job")
		}
		if err != nil || j.Ended || j.State == Killing {
			return j, err
		}
		next, err := a.engine.Do(ctx, engine.Act{Job: id, Event: Cancel, By: w.By, Actor: w.Actor, Note: w.Note, Version: w.Version})
		switch kind := job.KindOf(err); {
		case err == nil || kind != job.Conflict && kind != job.Refused || w.Version != 0:
			return next, err
		case bounded.Err() != nil:
			return j, fmt.Errorf("cancel: %w", err)
		}
		now, again := a.engine.Store().Get(ctx, id)
		if again != nil || callable(&now) && now.Version == j.Version { // it did not move on meanwhile: the refusal stands
			return j, cmp.Or(again, err)
		}
	}
}

// passing refuses to call a job off that nobody can call off where it stands, and says what can be done.
func (a *App) passing(ctx context.Context, id job.ID) (job.Job, error) {
	j, err := a.engine.Store().Get(ctx, id)
	if err != nil || j.Ended {
		return j, err
	}
	d, err := DataOf(&j)
	if err != nil {
		return j, err
	}
	why := "it is on its way to its agent: try again in a moment"
	switch j.State {
	case Retrieving:
		why = "it has ended at its agent, and its results are being fetched: wait until they are here"
	case Unknown:
		why = fmt.Sprintf("its agent %s does not answer, so nothing can be ended there: it can be called off as soon as the agent answers", d.Agent)
		if !j.Expires.IsZero() {
			why += ", and counts as lost if it does not before " + j.Expires.UTC().Format(time.RFC3339)
		}
	}
	return j, job.Errorf(job.Refused, "cancel", id, "cannot cancel while %s: %s", j.State, why)
}

// callable tells whether a person can call the job off where it stands.
func callable(j *job.Job) bool {
	arrow, ok := JobLife.Arrow(j.State, Cancel)
	return ok && arrow.By&lifecycle.Owner != 0
}
