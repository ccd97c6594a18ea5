package compute

import (
	"context"
	"errors"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
)

// requestAgain is after how long an executor that still runs a job is requested again to end it: it may have lost the
// request.
const requestAgain = 10 * time.Second

// kill is the step of Killing: the executor is requested to end the job, and what it left by then comes here. A job
// that had ended by itself goes the way of the others.
func (a *App) kill(ctx context.Context, r *engine.Run) error {
	r.Changed()
	j := r.Job()
	d, err := DataOf(&j)
	if err != nil {
		return engine.Go(KilledEvent)
	}
	d.Overtime = d.Overtime || j.Cause == cause.Timeout
	m, _ := a.registry.get(d.Agent)
	if m == nil {
		if d.Agent == "" { // it was going back to the queue
			return a.ended(r, &d)
		}
		return a.unreached(ctx, r, &d, errors.New("it is not known to this server any more"))
	}
	switch err := a.registry.enter(m); {
	case errors.Is(err, errCrowded):
		return errors.Join(a.crowded(r, &d), r.SetData(d))
	case err != nil:
		return a.unreached(ctx, r, &d, err)
	}
	defer a.registry.leave(m)
	call, cancel := context.WithTimeout(ctx, a.options.Answer)
	defer cancel()
	if !d.Killed || r.Now().Sub(d.Asked) > requestAgain {
		if err := m.executor.Kill(call, d.Handle); err != nil && !errors.Is(err, ErrNoPayload) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return a.unreached(ctx, r, &d, err)
		}
		d.Killed, d.Asked = true, r.Now()
	}
	notice, err := m.executor.Query(call, d.Handle)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return a.unreached(ctx, r, &d, err)
	}
	return a.ending(ctx, r, &d, m, &notice)
}

// ending follows from what an executor reports of a job that it was requested to end.
func (a *App) ending(ctx context.Context, r *engine.Run, d *Data, m *member, notice *Notice) error {
	unanswered := d.Notice == nil && d.Remote == "" // the answer to its submission never came
	d.take(notice, r.Now())
	switch notice.Standing {
	case Stranger, Lost:
		if unanswered && (notice.Standing == Lost || a.ticketless(d)) { // whether it came to run is not known
			return a.unconfirmed(r, d, "has no record of its end")
		}
		return a.ended(r, d)
	case Ended:
		// An executor without tickets may see the signal's exit code before its own note that it was reported.
		if e := notice.Ending; e == nil || e.Cause != CauseKilled && !(e.Cause == CauseExit && a.ticketless(d)) {
			if err := r.SetData(d); err != nil {
				return err
			}
			return engine.Go(Fetch)
		}
		return a.killed(ctx, r, d, m)
	}
	if err := r.SetData(d); err != nil {
		return err
	}
	b := a.awaits(r, d.Agent, notice)
	b.Sentence = "its agent was requested to end it"
	return engine.Wait(b)
}

// killed keeps what a job left that was ended on request.
func (a *App) killed(ctx context.Context, r *engine.Run, d *Data, m *member) error {
	j := r.Job()
	take := a.takePartial
	if d.Notice.HasResult {
		take = func(ctx context.Context, _ *job.Job, d *Data, _ *member) error { return a.take(ctx, &j, d) }
	}
	if err := take(ctx, &j, d, m); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if d.Fetches++; d.Fetches < mostFetches {
			return a.doubt(ctx, r, d, err)
		}
		r.Log().Warn("what the job left could not be fetched", "error", err)
	}
	if d.Results != nil {
		r.SetBytes(j.Bytes - before(&j) + d.Results.Bytes)
	}
	return a.ended(r, d)
}

// ended ends a job that was cancelled, and reports why it was.
func (a *App) ended(r *engine.Run, d *Data) error {
	if d.Overtime {
		r.SetCause(CauseTimeout)
		r.SetMessage("it was ended because it ran longer than it may")
	} else {
		r.SetCause(CauseKilled)
		r.SetMessage("it was ended on request")
	}
	if err := r.SetData(d); err != nil {
		return err
	}
	return engine.Go(KilledEvent)
}

// unreached is what becomes of a cancelled job whose executor does not answer: it waits, and ends when the patience
// with the executor is over.
func (a *App) unreached(ctx context.Context, r *engine.Run, d *Data, reason error) error {
	if d.Silent == 0 {
		d.Heard = r.Now()
	}
	d.Silent++
	if r.Now().Before(a.patienceEnds(d, r.Job().Entered)) {
		return a.silent(ctx, r, d, reason)
	}
	return a.unconfirmed(r, d, "has not answered since "+d.Heard.UTC().Format(time.RFC3339))
}

// unconfirmed ends a cancelled job although its executor did not confirm that. The message to the executor that follows
// has it end the payload whenever it comes back.
func (a *App) unconfirmed(r *engine.Run, d *Data, how string) error {
	cause, sentence := d.abandoned(how)
	r.SetCause(cause)
	r.SetMessage(sentence)
	if err := r.SetData(d); err != nil {
		return err
	}
	return engine.Go(KilledEvent)
}

// abandoned returns cause and message of a job that ends in Killing although its agent did not confirm that.
func (d *Data) abandoned(how string) (cause, sentence string) {
	cause, sentence = CauseKilled, "it was cancelled"
	if d.Overtime {
		cause, sentence = CauseTimeout, "it ran longer than it may"
	}
	if d.Notice != nil && d.Notice.Standing == Ended {
		return cause, sentence + ", and its agent " + d.Agent + " " + how +
			": it had ended there, and its output was not fetched"
	}
	return cause, sentence + ", and its agent " + d.Agent + " " + how + ": the agent may still be running it"
}
