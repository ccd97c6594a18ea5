package engine

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/internal/block"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Move commits a transition of the table together with everything set so far. The claim stays, Job is then the new
// record, and the new state's timeout applies. If the new state is an end, the claim ends with the commit, and the step
// must return; its result is ignored.
//
// Errors are of kind Refused when the table does not have the transition, Stale when the claim is over (stop), and
// Conflict when the state changed concurrently (call Fresh and decide again). After an error everything that was set is
// kept for the next commit. Out of a queue state a held job is Refused with an error that the step may return: then the
// job waits for the hold's end. Gates and limits apply to claims only.
func (r *Run) Move(ctx context.Context, e lifecycle.Event) error {
	return r.backend.takes(ctx, r, e, nil)
}

// Unchanged makes the next Move a Conflict if the record changed after the last Save, Move or Fresh, even if its state
// did not.
func (r *Run) Unchanged() { r.exact = true }

// Rest is Move into a state in which the job waits: the claim ends with the commit, and the step must return. The job
// is not claimed before b.Until (zero: not before a person moves it, which makes it claimable at once); `why` reports b
// in the meantime. If the step called [Run.Changed], a change that it has not seen is a Conflict: the job may not need
// to wait any more.
func (r *Run) Rest(ctx context.Context, e lifecycle.Event, b job.Blocker) error {
	return r.backend.takes(ctx, r, e, &b)
}

// takes is Move, or Rest if there is a blocker.
func (r *Run) takes(ctx context.Context, e lifecycle.Event, b *job.Blocker) error {
	switch {
	case r.over:
		return job.Errorf(job.Stale, string(e), r.job.ID, "the claim ended when the step moved it to %s", r.job.State)
	case ctx.Err() != nil:
		return r.cut(ctx, string(e))
	case r.term.Err() != nil:
		return r.cut(r.term, string(e))
	}
	o, t := &outcome{verdict: chose, event: e}, r.begin()
	err := t.settle(o, 0)
	if err == nil {
		err = r.owes(ctx, t)
	}
	if err != nil {
		return err
	}
	over := t.Ended || b != nil
	t.Keep = !over
	if b != nil {
		r.rests(t, b)
	}
	if r.exact {
		t.Version, r.exact = r.job.Version, false
	}
	set := r.fill(t)
	r.term.pause()
	next, err := r.engine.commit(context.WithoutCancel(ctx), r, t)
	if err == nil && !over && (next.Epoch != t.Epoch || !next.Claimed()) {
		err = job.Errorf(job.Stale, string(e), r.job.ID, "the claim ended while the store did not answer")
	}
	if err != nil {
		r.wants = set
		r.term.set(r.job.Expires)
		return refusal(t, err)
	}
	before, took := r.job, t.At.Sub(r.began)
	r.record(next)
	r.began, r.settled = t.At, false
	if over {
		r.over = true
		r.engine.release(r.running, r.job.ID)
	} else {
		r.term.set(next.Expires)
	}
	r.engine.attempted(r.work, &before, t.Change, o.ending(t.Change), took, next)
	t.free()
	return nil
}

// begin begins a change of the run's record.
func (r *Run) begin() *transition {
	t := transitions.Get().(*transition)
	t.begin(r.work, &r.job, r.Now())
	t.Known = &r.job
	return t
}

// owes checks a change of the step by [Work.Owes].
func (r *Run) owes(ctx context.Context, t *transition) error {
	t.Set.Data = r.wants.set.Data
	return r.work.owes(ctx, &r.job, t.Change)
}

// rests makes a change end the claim and set when the job is due.
func (r *Run) rests(t *transition, b *job.Blocker) {
	due := b.Until
	if due.IsZero() {
		due = block.Never
	} else {
		defer r.engine.alarm(due)
	}
	t.setDue(due)
	t.reason(b.Code, b.Sentence)
	if r.running.listening() {
		t.Version = r.job.Version
	}
}

// cut returns the error of a Move after the step's context has ended.
func (r *Run) cut(ctx context.Context, op string) error {
	kind, cause := job.Unavailable, context.Cause(ctx)
	if cause == errLost {
		kind = job.Stale
	}
	return &job.Error{Op: op, Kind: kind, ID: r.job.ID, Err: cause}
}

// fill completes the change of an outcome with the claim, what the step set and the conditions of the commit. It
// returns what was set.
func (r *Run) fill(t *transition) (set settings) {
	set = r.takeSet()
	t.underClaim(r.actor)
	t.Began = r.began
	t.merge(&set)
	if t.Set.Deadline != nil && t.Set.Expires != nil {
		t.setExpires(r.work.expires(&r.job, t.To, t.At, *t.Set.Deadline))
	}
	t.Require.Unheld = r.work.begins(t.Change)
	t.Require.Settled = r.settled && t.To.State != t.From
	return set
}

// refusal converts a condition that was not met for the step: into a wait for the end of the hold, which the step may
// return, or into a conflict.
func refusal(t *transition, err error) error {
	switch {
	case job.KindOf(err) != job.Refused:
		return err
	case t.Require.Unheld:
		b := job.Blocker{Code: cause.Hold, Sentence: job.Reason(err), Until: t.At.Add(time.Second)}
		return &outcome{verdict: waits, blocker: b, err: err}
	case t.Require.Settled:
		return job.Errorf(job.Conflict, "commit", t.Job, "%s", job.Reason(err)) // check again
	}
	return err
}

// Changed receives when another party changed the record of the job: a person by a transition that asks the worker,
// [Engine.Notify], or a new priority. It has space for one value; the step then calls Fresh. It may receive when
// nothing is new. A step that called it and returns Wait runs again at once if the record changed after the step last
// read it.
func (r *Run) Changed() <-chan struct{} { return r.running.listen() }

// Stopping is closed when the engine begins to stop: the step should begin nothing new. Its context ends when the grace
// period is over.
func (r *Run) Stopping() <-chan struct{} { return r.running.stopping }
