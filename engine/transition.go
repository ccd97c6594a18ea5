package engine

import (
	"context"
	"sync"
	"time"

	"github.com/stagepost/stagepost/internal/answers"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// transition assembles a change of one job. Every change that leaves the engine is assembled here, whether a step, a
// remote worker, a person, a timer, a hold or retention causes it, with an event or without. A caller
//
//   - begins with the record as it read it ([newTransition], begin),
//   - names the event (move, stay, settle; none for an update),
//   - states what it expects of the record (asRead, underClaim),
//   - sets what differs in the embedded change,
//   - and commits ([Engine.one], [Engine.commit], [Engine.commitAll]), which adds the address of the sender and the
//     messages of the application.
//
// The record must not change until then. After the answer of the store a transition may begin again: no store keeps a
// change, so a step has one transition for all its commits. Only one goroutine uses it.
type transition struct {
	*job.Change          // of changes
	work        *Work    // of the job; nil if this engine does not know its kind: then there is no event
	before      *job.Job // the record as it was read
	announced   bool

	// what Set and Chain point to, and the argument of Commit: they share the memory of the transition
	due, expires time.Time
	attempts     int
	cause, text  string
	chain        job.Chain
	changes      [1]job.Change
	results      []job.Result // of the last Commit
}

// empty is what a change sets to clear a text.
var empty = ""

// transitions has the memory of transitions that were committed.
var transitions = sync.Pool{New: func() any { return new(transition) }}

// free ends the use of a transition whose commit has succeeded, and of the record that the commit returned. After an
// error both stay with the garbage collector.
func (t *transition) free() {
	answers.Give(t.results)
	*t = transition{}
	transitions.Put(t)
}

// newTransition begins a change of record j.
func newTransition(w *Work, j *job.Job, now time.Time) *transition {
	t := &transition{}
	t.begin(w, j, now)
	return t
}

// begin makes t an update without an event.
func (t *transition) begin(w *Work, j *job.Job, now time.Time) {
	t.Change = &t.changes[0]
	*t.Change = job.Change{Job: j.ID, At: now}
	t.work, t.before, t.announced = w, j, false
}

// asRead expects the record as it was read: the change ends the claim of a worker, unless Keep is set.
func (t *transition) asRead(actor string) { t.Version, t.Actor = t.before.Version, actor }

// underClaim expects the claim of the record as it was read.
func (t *transition) underClaim(actor string) { t.Epoch, t.Actor = t.before.Epoch, actor }

// move names an event of the table. The error is Refused, with the legal events.
func (t *transition) move(e lifecycle.Event, by lifecycle.Actor) error {
	w, j := t.work, t.before
	to, err := w.Life.Next(j.Position, e, by)
	if err != nil {
		return &job.Error{Op: string(e), Kind: job.Refused, ID: j.ID, Err: err}
	}
	t.From, t.Event, t.To, t.By = j.State, e, to, by
	t.Ended, t.Gone = w.Life.Ended(to.State), w.Life.Tombstone(to.State)
	if to.State != j.State {
		t.setExpires(w.expires(j, to, t.At, j.Deadline))
		if !t.Gone {
			t.Set.Cause, t.Set.Message = &empty, &empty
		}
	}
	return nil
}

// stay names an event that stays in the state, until a time. If the reason to wait is the same as before, there is no
// event. It changes o if o waits.
func (t *transition) stay(e lifecycle.Event, o *outcome, due time.Time) {
	if t.move(e, lifecycle.Worker) != nil { // a state that is not a worker's has no loops
		t.From = t.before.State
	}
	if e == lifecycle.Waiting {
		o.becomesReason()
		if t.before.Cause == o.cause {
			t.Event = "" // the history need not repeat the reason
		}
		t.Require.Unsettled = o.forChildren()
	}
	if o.err != nil {
		t.explain(o)
	}
	t.setDue(due)
}

// explain sets the outcome's cause and message.
func (t *transition) explain(o *outcome) {
	text := ""
	if o.err != nil {
		text = o.err.Error()
	}
	t.reason(o.cause, text)
}

// reason sets cause and message of the record, and the note of the history entry.
func (t *transition) reason(cause, text string) {
	t.cause, t.text = cause, text
	t.Set.Cause, t.Set.Message, t.Note = &t.cause, &t.text, text
}

func (t *transition) setDue(at time.Time)     { t.due, t.Set.Due = at, &t.due }
func (t *transition) setExpires(at time.Time) { t.expires, t.Set.Expires = at, &t.expires }
func (t *transition) setAttempts(n int)       { t.attempts, t.Set.Attempts = n, &t.attempts }

// continueBy requests the claim of the next state for a worker with labels in the same commit.
func (t *transition) continueBy(worker string, labels []string, lease time.Duration, limits []job.Limit) {
	t.chain = job.Chain{Worker: worker, Labels: labels, Lease: lease, Limits: limits}
	t.Chain = &t.chain
}

// sentFrom adds the address of the sender whose request causes the change. No request causes what a step in this
// process does.
func (t *transition) sentFrom(ctx context.Context) {
	t.Address = job.AddressOf(ctx)
	for i := range t.Spawn {
		sentFrom(&t.Spawn[i], t.Address)
	}
}

// announce adds the application's messages about an event, once. It needs the complete change.
func (t *transition) announce() {
	if t.announced || t.work == nil || t.work.Announce == nil || t.Event == "" {
		return
	}
	t.announced = true
	t.Outbox = append(t.Outbox, t.work.Announce(t.before, t.Change)...)
}

// send commits a change. The error is that of the store as a whole: the result is unknown then.
func (e *Engine) send(ctx context.Context, t *transition) (*job.Result, error) {
	t.announce()
	results, err := e.store.Commit(ctx, t.changes[:]...)
	e.postedBy(t.Change)
	if err != nil {
		return nil, err
	}
	t.results = results
	return &results[0], nil
}

// one commits a change and returns the record after it.
func (e *Engine) one(ctx context.Context, t *transition) (job.Job, error) {
	t.sentFrom(ctx)
	result, err := e.send(ctx, t)
	if err != nil {
		return job.Job{}, err
	}
	return result.Job, result.Err
}

// commitAll commits changes of several jobs, each atomically.
func (e *Engine) commitAll(ctx context.Context, all []*transition) ([]job.Result, error) {
	if len(all) == 0 {
		return nil, nil
	}
	changes := make([]job.Change, len(all))
	for i, t := range all {
		t.sentFrom(ctx)
		t.announce()
		changes[i] = *t.Change
	}
	results, err := e.store.Commit(ctx, changes...)
	for i := range changes {
		e.postedBy(&changes[i])
	}
	return results, err
}

// commitUnreported commits an event that no worker reported, for the record as it was read.
func (e *Engine) commitUnreported(
	ctx context.Context, w *Work, j *job.Job, ev lifecycle.Event, by lifecycle.Actor, now time.Time,
	more func(*transition),
) error {
	t := newTransition(w, j, now)
	if err := t.move(ev, by); err != nil {
		return err
	}
	t.asRead(e.name)
	more(t)
	_, err := e.one(ctx, t)
	return err
}
