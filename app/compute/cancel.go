package compute

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Request is an action that a person requests, and why.
type Request struct {
	By      lifecycle.Actor // Owner or Operator
	Actor   string
	Note    string
	Version int64 // of the record that the person saw; 0: whatever it is now
}

// Cancel cancels a job: a queued one is Killed at once, one at an agent is Killing until the agent has ended it, one
// that has ended stays as it is, and no error. An agent that does not answer delays nothing: the request is in the
// record when Cancel returns, and the job ends as Killed when the agent has not answered for Options.Killing. Cancel
// returns the record afterwards; its message reports what happens next. It waits for a moment for a job on its way to
// an agent that answers. Refused, with what can be done instead: its results are being fetched from an agent that
// answers, and are not here within one and a half times Options.Answer.
func (a *App) Cancel(ctx context.Context, id job.ID, w Request) (job.Job, error) {
	bounded, stop := context.WithTimeout(ctx, a.options.Answer*3/2)
	defer stop()
	for {
		j, err := a.passed(ctx, bounded, id)
		switch {
		case err != nil:
			return j, err
		case j.Kind != JobKind:
			return job.Job{}, job.Errorf(job.NotFound, "cancel", id, "there is no such compute job")
		case j.Ended || j.State == Killing:
			return j, nil
		case a.passing(&j) > 0:
			return j, job.Errorf(job.Refused, "cancel", id,
				"cannot cancel while %s: it has ended at its agent, and its results are being fetched: wait until "+
					"they are here", j.State)
		}
		next, err := a.engine.Do(ctx, operator.Act{Job: id, Event: Cancel,
			By: w.By, Actor: cmp.Or(w.Actor, w.By.String()),
			Note: w.Note, Version: w.Version})
		switch kind := job.KindOf(err); {
		case err == nil || kind != job.Conflict && kind != job.Refused || w.Version != 0:
			return next, err
		case bounded.Err() != nil:
			return j, fmt.Errorf("cancel: %w", err)
		}
		if now, again := a.engine.Store().Get(ctx, id); again != nil {
			return j, again
		} else if now.Version == j.Version { // it did not move on meanwhile: the refusal stands
			return j, err
		}
	}
}

// passed returns the record of a job once it is no longer in passing, or at the end of bounded.
func (a *App) passed(ctx, bounded context.Context, id job.ID) (job.Job, error) {
	for {
		j, err := a.engine.Store().Get(ctx, id)
		if err != nil || j.Kind != JobKind {
			return j, err
		}
		wait := a.passing(&j)
		if wait <= 0 || bounded.Err() != nil {
			return j, ctx.Err()
		}
		short, stop := context.WithTimeout(bounded, wait)
		_, err = a.engine.Await(short, id, func(now *job.Job) bool { return now.State != j.State })
		over := short.Err() != nil
		stop()
		if err != nil && !over {
			return j, err
		}
	}
}

// passing returns how long a job is expected to stay in a state that it passes by itself; 0: it is in none, or its
// agent does not answer.
func (a *App) passing(j *job.Job) time.Duration {
	if j.State != Processing && j.State != Retrieving {
		return 0
	}
	d, err := DataOf(j)
	if err != nil || !a.answers(&d) {
		return 0
	}
	if j.State == Retrieving {
		return a.options.Answer * 3 / 2
	}
	return a.options.Answer/2 - a.engine.Clock().Now().Sub(j.Entered)
}

// answers reports whether the agent that has a job, or is to get it, answered when it was last asked.
func (a *App) answers(d *Data) bool {
	a.registry.mu.Lock()
	defer a.registry.mu.Unlock()
	m := a.registry.members[d.Agent]
	return m != nil && m.err == nil && d.Silent == 0 && d.Fetches == 0
}

// accompany completes the change by which a person cancels a job: it names the cause of one that was sent nowhere,
// which no step does, and completes the message of another with what happens next.
func (a *App) accompany(_ context.Context, j *job.Job, _ *operator.Act, c *job.Change) error {
	if c.Event != Cancel {
		return nil
	}
	if c.Ended {
		calledOff(j, c)
		return nil
	}
	d, err := DataOf(j)
	if err != nil {
		return nil // the step ends it
	}
	sentence := "cancellation requested: the agent " + d.Agent + " is asked to end it"
	if !a.answers(&d) {
		sentence = "cancellation requested: " + a.unanswered(&d, c.At)
	}
	c.Set.Message = &sentence // no cause: the agent's reports, which have one, must not disturb the next step
	return nil
}

// unanswered reports what happens to a cancelled job whose agent does not answer. at is when the job came to Killing.
func (a *App) unanswered(d *Data, at time.Time) string {
	return fmt.Sprintf("the agent %s does not answer; if it does not by %s, the job ends as cancelled and its slot "+
		"is free", d.Agent, a.patienceEnds(d, at).UTC().Format(time.RFC3339))
}

// patienceEnds returns when a cancelled job ends although its agent does not answer: Options.Killing after the agent's
// last answer. at is when the job came to Killing.
func (a *App) patienceEnds(d *Data, at time.Time) time.Time {
	if d.Silent > 0 && d.Heard.Before(at) {
		return d.Heard.Add(a.options.Killing)
	}
	return at.Add(a.options.Killing)
}
