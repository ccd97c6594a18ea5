package engine

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/internal/block"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Move takes a transition of the table in a commit of its own, together with everything set so far, and goes on under
// the same claim in the state it leads to; Job is then the new record, and the new state's time counts. If that state
// is an end, the claim ends with the commit and the step must return: whatever it returns, nothing more is committed.
//
// Errors are of kind Refused when the table has no such transition, Stale when the claim is over (stop), and Conflict
// when the state changed meanwhile (call Fresh and decide anew). After any error nothing of what was set is forgotten.
// Out of a queue state under a hold it is Refused with an error that the step may return: then the job waits for the
// hold's end. Gates and limits are for claims and are not asked.
func (r *Run) Move(ctx context.Context, e lifecycle.Event) error {
	return r.takes(ctx, e, nil)
}

// Unchanged makes the next Move a Conflict if somebody changed the record after the last Save, Move or Fresh, also
// where the state stays the same.
func (r *Run) Unchanged() { r.exact = true }

// Rest is Move into a state in which no one works: the claim ends with the commit, and the step must return. The job is
// not claimed before b.Until (zero: not before a person moves it, which makes it claimable at once); b is what `why`
// answers meanwhile. To a step that listens for changes ([Run.Changed]) any change that it has not seen is a Conflict:
// it may be what the job would wait for.
func (r *Run) Rest(ctx context.Context, e lifecycle.Event, b job.Blocker) error {
	return r.takes(ctx, e, &b)
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
	o := &outcome{verdict: chose, event: e}
	c, err := settle(r.work, &r.job, o, r.Now(), 0)
	if err == nil {
		err = r.owes(ctx, c)
	}
	if err != nil {
		return err
	}
	over := c.Ended || b != nil
	c.Keep = !over
	if b != nil {
		r.rests(&c, b)
	}
	if r.exact {
		c.Version, r.exact = r.job.Version, false
	}
	set := r.fill(&c)
	r.term.pause()
	next, err := r.engine.commit(context.WithoutCancel(ctx), r, c)
	if err == nil && !over && (next.Epoch != c.Epoch || !next.Claimed()) {
		err = job.Errorf(job.Stale, string(e), r.job.ID, "the claim ended while the store did not answer")
	}
	if err != nil {
		r.set, r.tasks, r.outbox = set.Set, set.Tasks, set.Outbox
		r.term.set(r.job.Expires)
		return refusal(&c, err, c.At)
	}
	before, took := r.job, c.At.Sub(r.began)
	r.record(next)
	r.began, r.settled = c.At, false
	if over {
		r.over = true
		r.engine.release(r.hands, r.job.ID)
	} else {
		r.term.set(next.Expires)
	}
	r.engine.attempted(r.work, &before, &c, o.ending(&c), took, &next)
	return nil
}

// owes checks what a change of the step is to have achieved.
func (r *Run) owes(ctx context.Context, c job.Change) error {
	c.Set.Data = r.set.Data
	return r.work.owes(ctx, &r.job, &c)
}

// rests makes a change one after which no one works on the job.
func (r *Run) rests(c *job.Change, b *job.Blocker) {
	due := b.Until
	if due.IsZero() {
		due = block.Never
	} else {
		defer r.engine.alarm(due)
	}
	c.Set.Due, c.Set.Cause, c.Set.Message, c.Note = &due, &b.Code, &b.Sentence, b.Sentence
	if r.hands.listening() {
		c.Version = r.job.Version
	}
}

// cut states why a step whose context has ended may not move its job.
func (r *Run) cut(ctx context.Context, op string) error {
	kind, cause := job.Unavailable, context.Cause(ctx)
	if cause == errLost {
		kind = job.Stale
	}
	return &job.Error{Op: op, Kind: kind, ID: r.job.ID, Err: cause}
}

// fill completes the change that follows from an outcome: what the step set, what is announced, what must be true in
// the moment of the commit. It gives what was set.
func (r *Run) fill(c *job.Change) (set job.Change) {
	set = r.take()
	merge(c, set)
	if c.Set.Deadline != nil && c.Set.Expires != nil {
		expires := r.work.expires(&r.job, c.To, c.At, *c.Set.Deadline)
		c.Set.Expires = &expires
	}
	r.work.announce(&r.job, c)
	c.Require.Unheld = r.work.begins(c)
	c.Require.Settled = r.settled && c.To.State != c.From
	return set
}

// refusal makes of a requirement that was not met what the step can use: one that it may return to wait for the end of
// a hold, or a conflict.
func refusal(c *job.Change, err error, now time.Time) error {
	switch {
	case job.KindOf(err) != job.Refused:
		return err
	case c.Require.Unheld:
		b := job.Blocker{Code: cause.Hold, Sentence: job.Reason(err), Until: now.Add(time.Second)}
		return &outcome{verdict: waits, blocker: b, err: err}
	case c.Require.Settled:
		return job.Errorf(job.Conflict, "commit", c.Job, "%s", job.Reason(err)) // check again
	}
	return err
}

// Changed receives when somebody else changed the record of the job: a person by a transition that asks the worker,
// [Engine.Notify], the one who gave it another priority. It has space for one; the step then calls Fresh. It may
// receive when nothing is new. A step that asked for it and returns Wait is run again at once if the record changed
// after the last check of it.
func (r *Run) Changed() <-chan struct{} { return r.hands.listen() }

// Stopping is closed when the engine begins to stop: the step should begin nothing new. Its context goes on until the
// grace is over.
func (r *Run) Stopping() <-chan struct{} { return r.hands.stopping }
