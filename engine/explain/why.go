package explain

import (
	"context"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Codes of blockers, besides those that the engine, its gates and its steps record.
const (
	BlockDue     = "due"     // its time has not come: a backoff, or the order says when
	BlockClaim   = "claim"   // a worker has it
	BlockLimit   = "limit"   // as many as allowed are under way
	BlockBusy    = "busy"    // every slot is taken
	BlockBehind  = "behind"  // others go first
	BlockAlone   = "alone"   // a job runs alone that may have ended its workers
	BlockPerson  = "person"  // a person has to decide
	BlockTimer   = "timer"   // a timer will move it
	BlockOutside = "outside" // something outside has to happen
	BlockStorage = "storage" // the server's storage accepts no writes: of every job
	BlockEnded   = "ended"   // it has ended
)

// Explainer explains the jobs of one engine. Make it with [New] and keep it: it remembers for a minute how long jobs stay in their states.
type Explainer struct {
	engine *engine.Engine
	store  job.Store
	usual  usual
}

// New makes an explainer.
func New(e *engine.Engine) *Explainer { return &Explainer{engine: e, store: e.Store()} }

// Explanation answers why a job stands where it does.
type Explanation struct {
	Job      job.ID             `json:"job"`
	Kind     job.Kind           `json:"kind"`
	At       time.Time          `json:"at"`
	Position lifecycle.Position `json:"position"`
	Blockers []engine.Blocker   `json:"blockers"`        // empty exactly when the job moves in the next tick
	Not      []string           `json:"not"`             // what was looked at and is no reason
	Moves    []Exit             `json:"moves"`           // what would move it, and who may
	Chain    []job.Event        `json:"chain,omitempty"` // of an ended job: how it came to its end
	Rule     string             `json:"rule,omitempty"`  // of an ended job: the transition that ended it, and why
	Attempts string             `json:"attempts"`        // used and left
}

// Exit is one legal event with those who may cause it.
type Exit struct {
	Event lifecycle.Event `json:"event"`
	To    lifecycle.State `json:"to"`
	By    lifecycle.Actor `json:"by"`
	Doc   string          `json:"doc"`

	Refused string `json:"refused,omitempty"` // why a person may not do it now, although the lifecycle has it
}

// Why tells what a job waits for: every reason, not the first. A zero time asks about now.
func (e *Explainer) Why(ctx context.Context, id job.ID, at time.Time) (Explanation, error) {
	j, err := e.store.Get(ctx, id)
	if err != nil {
		return Explanation{}, err
	}
	w := e.engine.Work(j.Kind)
	if w == nil {
		return Explanation{}, job.Errorf(job.Refused, "why", id, "this engine does not know the kind %s", j.Kind)
	}
	if !at.IsZero() {
		return e.whyThen(ctx, w, j, at)
	}
	x := Explanation{Job: id, Kind: j.Kind, At: e.engine.Clock().Now(), Position: j.Position, Moves: exitsOf(w.Life, j.Position)}
	if err := e.refuse(ctx, w, &j, x.Moves); err != nil {
		return x, err
	}
	p := w.PolicyFor(j.State)
	x.Attempts = fmt.Sprintf("%d of %d attempts and %d of %d starts used in this state, %d retries",
		j.Attempts, p.MaxAttempts, j.Starts, p.MaxStarts, j.Retries)
	if j.Ended {
		return x, e.whyEnded(ctx, w, &j, &x)
	}
	e.whyImpaired(&x)
	if !j.Expires.IsZero() && !j.Expires.After(x.At) || j.Claimed() && !j.Until.After(x.At) {
		x.ask(e.whyStopped(e.engine.Capacity(j.Kind)), "its time is up: the next sweep moves it, whatever else keeps it")
		return x, nil
	}
	x.ask(w.CheckDefinition(&j), "its definition is current")
	x.ask(e.whyOutside(w, &j), "the state is one that workers take")
	if err := e.whyHeld(ctx, &j, &x); err != nil {
		return x, err
	}
	x.ask(e.whyClaimed(&j), "no worker has it")
	due, err := e.whyDue(ctx, w, &j, x.At)
	if err != nil {
		return x, err
	}
	if !engine.Rests(&j) {
		x.ask(due, "it is due")
	}
	if gate := w.Gates[j.State]; gate != nil && !j.Claimed() {
		x.ask(gate(ctx, &j), "its gate is open")
	}
	if err := e.whyCapacity(ctx, w, &j, &x); err != nil {
		return x, err
	}
	return x, nil
}

// ask adds a blocker, or what was no reason.
func (x *Explanation) ask(b *engine.Blocker, not string) {
	if b != nil {
		x.Blockers = append(x.Blockers, *b)
	} else {
		x.Not = append(x.Not, not)
	}
}

// refuse asks the application's rule about the moves of people, and notes in them what it says no to. A confirmation is taken as given.
func (e *Explainer) refuse(ctx context.Context, w *engine.Work, j *job.Job, moves []Exit) error {
	if w.Allow == nil {
		return nil
	}
	var parent *job.Job
	if j.Parent != "" {
		p, err := e.store.Get(ctx, j.Parent)
		if err != nil {
			return err
		}
		parent = &p
	}
	holds, err := e.store.Hold(ctx, nil)
	if err != nil {
		return err
	}
	for i := range moves {
		by := moves[i].By & lifecycle.Operator
		if by == 0 {
			by = moves[i].By & lifecycle.Owner
		}
		if by == 0 {
			continue
		}
		var require job.Require
		require, err = w.Allow(ctx, j, &engine.Act{Job: j.ID, Event: moves[i].Event, By: by, Confirm: true})
		if err == nil {
			err = require.Holds(j, parent)
		}
		if err == nil {
			there := *j
			there.State = moves[i].To
			err = require.Hold(j, &there, holds, e.engine.Clock().Now())
		}
		switch kind := job.KindOf(err); {
		case err == nil:
		case kind == job.Refused || kind == job.Conflict:
			moves[i].Refused = job.Reason(err)
		default:
			return err
		}
	}
	return nil
}

// exitsOf lists the legal events at p with all who may cause them, loops left out.
func exitsOf(life *lifecycle.Table, p lifecycle.Position) []Exit {
	var exits []Exit
	stage, _ := life.Stage(p.State)
	for _, a := range stage.Transitions {
		if a.Stays() {
			continue
		}
		for _, by := range lifecycle.Actors() {
			if to, err := life.Next(p, a.Event, by); err == nil {
				exits = append(exits, Exit{Event: a.Event, To: to.State, By: a.By, Doc: a.Doc})
				break
			}
		}
	}
	return exits
}

// whyOutside explains states that no worker takes: somebody or something else has to act.
func (e *Explainer) whyOutside(w *engine.Work, j *job.Job) *engine.Blocker {
	if engine.Rests(j) {
		return whyRests(w, j)
	}
	if w.Steps[j.State] != nil {
		return nil
	}
	b := &engine.Blocker{Code: BlockOutside, Since: j.Entered, Until: j.Expires, Sentence: fmt.Sprintf("%s waits for something outside", j.State)}
	people := movers(w, j)
	stage, _ := w.Life.Stage(j.State)
	switch {
	case stage.Kind != lifecycle.Wait:
		b.Sentence, b.Holder = fmt.Sprintf("%s is for workers outside this process", j.State), "workers outside"
		if !j.Expires.IsZero() {
			b.Sentence += ", until " + j.Expires.UTC().Format(time.RFC3339)
		}
	case !j.Expires.IsZero():
		b.Code, b.Holder, b.Sentence = BlockTimer, "a timer", fmt.Sprintf("%s lasts until %s", j.State, j.Expires.UTC().Format(time.RFC3339))
	case people != 0:
		b.Code, b.Holder = BlockPerson, people.String()
		b.Sentence = fmt.Sprintf("%s: %s", j.State, stage.Doc)
	}
	b.Remedy = "see the moves: one of them takes it away"
	return b
}

// whyImpaired adds what keeps every job of the server from moving.
func (e *Explainer) whyImpaired(x *Explanation) {
	in, checked := e.engine.Impairment()
	switch {
	case in != nil:
		x.Blockers = append(x.Blockers, engine.Blocker{
			Code: BlockStorage, Since: in.Since, Holder: "the storage of the server", Sentence: in.Err.Error(),
			Remedy: "stagepost admin health shows the state of the server; free or repair its storage",
		})
	case checked:
		x.Not = append(x.Not, "the server's storage accepts writes")
	}
}

func (e *Explainer) whyHeld(ctx context.Context, j *job.Job, x *Explanation) error {
	holds, err := e.store.Hold(ctx, nil)
	if err != nil {
		return err
	}
	held := false
	for _, h := range holds {
		if h.Matches(j) && h.On(x.At) {
			held = true
			x.Blockers = append(x.Blockers, heldBy(&h))
		}
	}
	if !held {
		x.Not = append(x.Not, "no hold concerns it")
	}
	return nil
}

func heldBy(h *job.Hold) engine.Blocker {
	return engine.Blocker{
		Code: engine.BlockHold, Since: h.Since, Until: h.Until, Holder: h.Who,
		Sentence: fmt.Sprintf("%s is on hold: %s", h.Scope, h.Why), Remedy: "release the hold on " + h.Scope.String(),
	}
}

func (e *Explainer) whyClaimed(j *job.Job) *engine.Blocker {
	if !j.Claimed() {
		return nil
	}
	b := &engine.Blocker{
		Code: BlockClaim, Since: j.Changed, Until: j.Until, Holder: j.Worker,
		Sentence: fmt.Sprintf("worker %s is at work on %s", j.Worker, j.State),
		Remedy:   "nothing: if the worker dies, another takes over when the claim ends",
	}
	if p, ok := e.engine.Progress(j.ID); ok && p.Total > 0 {
		b.Sentence += fmt.Sprintf(", %d of %d %s done", p.Done, p.Total, p.Unit)
	}
	return b
}

func (e *Explainer) whyDue(ctx context.Context, w *engine.Work, j *job.Job, now time.Time) (*engine.Blocker, error) {
	if j.Claimed() || !j.Due.After(now) {
		return nil, nil
	}
	last, err := e.store.History(ctx, j.ID, j.Seq-1, 1)
	if err != nil {
		return nil, err
	}
	waits := len(last) == 1 && last[0].Event == lifecycle.Waiting
	b := &engine.Blocker{Code: BlockDue, Since: j.Changed, Until: j.Due, Holder: "a timer"}
	b.Sentence = "it is not due before " + j.Due.UTC().Format(time.RFC3339)
	switch {
	case j.Cause == engine.CauseChildren:
		b.Code, b.Sentence, b.Holder = engine.CauseChildren, j.Message, "the jobs of the batch"
		b.Remedy = "look at the jobs that have not ended"
	case j.Attempts > 0 && !waits:
		b.Sentence = fmt.Sprintf("attempt %d failed (%s); the next is due then", j.Attempts, j.Message)
		b.Remedy = "mend the reason, or wait"
	case j.Cause != "":
		b.Code, b.Sentence = j.Cause, j.Message
		if w.Explain != nil {
			w.Explain(j, b)
		}
	}
	return b, nil
}
