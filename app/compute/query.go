package compute

import (
	"context"
	"errors"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// errConflict matches the answer to a Rest that came too late: a report changed the job.
var errConflict = &job.Error{Kind: job.Conflict}

// query is the step of the states in which an executor has a job: it asks how the job stands, and follows.
func (a *App) query(ctx context.Context, r *engine.Run) error {
	r.Changed()
	j := r.Job()
	spec, err := SpecOf(&j)
	if err != nil {
		return engine.Go(Fetch) // Retrieving fails it
	}
	d, err := DataOf(&j)
	if err != nil || spec.Imported != nil {
		return engine.Go(Fetch)
	}
	m, _ := a.registry.get(d.Agent)
	if m == nil {
		return a.unheard(ctx, r, &d, errors.New("it is not known to this server any more"))
	}
	switch err := a.registry.enter(m); {
	case errors.Is(err, errCrowded):
		return a.crowded(r, &d)
	case err != nil:
		return a.unheard(ctx, r, &d, err)
	}
	defer a.registry.leave(m)
	call, cancel := context.WithTimeout(ctx, a.options.Answer)
	notice, err := m.executor.Query(call, d.Handle)
	cancel()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return a.unheard(ctx, r, &d, err)
	case notice.Standing == Stranger && (d.Notice != nil || d.Remote != ""):
		// it is never run a second time
		notice = Notice{Standing: Lost, Reason: "its agent had it and has no record of it any more"}
	case notice.Standing == Stranger:
		return a.handAgain(ctx, r, &spec, &d, m)
	}
	return a.follow(ctx, r, &d, &notice)
}

// unheard counts an executor's silence. Only when it lasts is the job Unknown.
func (a *App) unheard(ctx context.Context, r *engine.Run, d *Data, reason error) error {
	d.Silent++
	if d.Silent == 1 {
		d.Heard = r.Now()
	}
	if r.Job().State != Unknown && r.Now().Sub(d.Heard) < a.options.Silence {
		if err := r.SetData(d); err != nil {
			return err
		}
		return engine.Wait(job.Blocker{
			Code: blockSilent, Until: r.Now().Add(min(250*time.Millisecond<<min(d.Silent, 5), a.options.Silence/2)),
			Sentence: d.Agent + " does not answer: " + plain(reason),
		})
	}
	return a.silent(ctx, r, d, reason)
}

// handAgain passes a job over once more, under the same ticket, to the executor that states it never had it: the parcel
// or the answer to it was lost.
func (a *App) handAgain(ctx context.Context, r *engine.Run, spec *Spec, d *Data, m *member) error {
	notice, err := a.submit(ctx, r, spec, d, m, false)
	var no *Refusal
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &no) && !no.Here:
		// one that only this executor gives may pass: the table has no way to another one from here
		notice = Notice{Standing: Ended, Ending: &Ending{Exit: -1, Cause: CauseRejected, Sentence: no.Reason}}
	case err != nil:
		return a.unheard(ctx, r, d, err)
	}
	return a.follow(ctx, r, d, &notice)
}

// follow takes the transition that follows from what an executor reported.
func (a *App) follow(ctx context.Context, r *engine.Run, d *Data, n *Notice) error {
	d.take(n, r.Now())
	if err := r.SetData(d); err != nil {
		return err
	}
	event, state := lifecycle.Event(""), r.Job().State
	switch {
	case n.Standing == Ended || n.Standing == Lost:
		return engine.Go(Fetch)
	case state == Unknown && r.Job().Origin != Retrieving:
		return engine.Go(Seen) // back to where it was; the next check goes on from there
	case n.Standing == Waits && state == Submitted:
		event = PreparedEvent
	case n.Standing == Works && (state == Submitted || state == Prepared):
		event = Run
	}
	b := a.awaits(r, d.Agent, n)
	if event == "" {
		return engine.Wait(b)
	}
	err := r.Rest(ctx, event, b)
	if errors.Is(err, errConflict) {
		return engine.Go(event)
	}
	return err
}
