package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Blocker is one thing that keeps a job from moving.
type Blocker struct {
	Code     string    `json:"code"`
	Sentence string    `json:"sentence"`
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"`   // when it ends by itself or is looked at again
	Holder   string    `json:"holder,omitempty"` // who or what can end it
	Remedy   string    `json:"remedy,omitempty"` // what the reader can do
}

// Codes of the engine's own blockers. Gates and steps add theirs.
const (
	BlockHold       = "hold"       // a hold on something the job belongs to
	BlockDue        = "due"        // its time has not come: a backoff or a wish
	BlockClaim      = "claim"      // a worker has it
	BlockLimit      = "limit"      // as many as allowed are under way
	BlockBusy       = "busy"       // every slot is taken
	BlockBehind     = "behind"     // others go first
	BlockAlone      = "alone"      // a job runs alone that may have ended its workers
	BlockStopped    = "stopped"    // no worker takes jobs
	BlockPerson     = "person"     // somebody has to decide
	BlockTimer      = "timer"      // a timer will move it
	BlockOutside    = "outside"    // something outside has to happen
	BlockDefinition = "definition" // created under another definition of its lifecycle
	BlockEnded      = "ended"      // it has ended
)

// Explanation answers why a job stands where it does.
type Explanation struct {
	Job      job.ID             `json:"job"`
	Kind     job.Kind           `json:"kind"`
	At       time.Time          `json:"at"`
	Position lifecycle.Position `json:"position"`
	Blockers []Blocker          `json:"blockers"`        // empty exactly when the job moves in the next tick
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
func (e *Engine) Why(ctx context.Context, id job.ID, at time.Time) (Explanation, error) {
	j, err := e.store.Get(ctx, id)
	if err != nil {
		return Explanation{}, err
	}
	w := e.works[j.Kind]
	if w == nil {
		return Explanation{}, job.Errorf(job.Refused, "why", id, "this engine does not know the kind %s", j.Kind)
	}
	if !at.IsZero() {
		return e.whyThen(ctx, w, j, at)
	}
	x := Explanation{Job: id, Kind: j.Kind, At: e.clock.Now(), Position: j.Position, Moves: Exits(w.Life, j.Position)}
	if err := e.refuse(ctx, w, &j, x.Moves); err != nil {
		return x, err
	}
	p := w.policy(j.State)
	x.Attempts = fmt.Sprintf("%d of %d attempts and %d of %d starts used in this state, %d retries",
		j.Attempts, p.MaxAttempts, j.Starts, p.MaxStarts, j.Retries)
	if j.Ended {
		return x, e.whyEnded(ctx, w, &j, &x)
	}
	e.whyImpaired(&x)
	if !j.Expires.IsZero() && !j.Expires.After(x.At) || j.Claimed() && !j.Until.After(x.At) {
		x.ask(e.whyStopped(), "its time is up: the next sweep moves it, whatever else keeps it")
		return x, nil
	}
	x.ask(knownDefinition(w, &j), "its definition is current")
	x.ask(e.whyOutside(w, &j), "the state is one that workers take")
	if err := e.whyHeld(ctx, &j, &x); err != nil {
		return x, err
	}
	x.ask(e.whyClaimed(&j), "no worker has it")
	due, err := e.whyDue(ctx, w, &j, x.At)
	if err != nil {
		return x, err
	}
	if !rests(&j) {
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
func (x *Explanation) ask(b *Blocker, not string) {
	if b != nil {
		x.Blockers = append(x.Blockers, *b)
	} else {
		x.Not = append(x.Not, not)
	}
}

// refuse asks the application's rule about the moves of people, and notes in them what it says no to. A confirmation is taken as given.
func (e *Engine) refuse(ctx context.Context, w *Work, j *job.Job, moves []Exit) error {
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
		require, err = w.Allow(ctx, j, &Act{Job: j.ID, Event: moves[i].Event, By: by, Confirm: true})
		if err == nil {
			err = require.Holds(j, parent)
		}
		if err == nil {
			there := *j
			there.State = moves[i].To
			err = require.Hold(j, &there, holds, e.clock.Now())
		}
		switch kind := job.KindOf(err); {
		case err == nil:
		case kind == job.Refused || kind == job.Conflict:
			moves[i].Refused = errorText(err)
		default:
			return err
		}
	}
	return nil
}

// errorText gives an error's sentence without the job's id, which the reader knows.
func errorText(err error) string {
	var e *job.Error
	if errors.As(err, &e) && e.Err != nil {
		return e.Err.Error()
	}
	return err.Error()
}

// Exits lists the legal events at p with all who may cause them, loops left out.
func Exits(life *lifecycle.Table, p lifecycle.Position) []Exit {
	var exits []Exit
	stage, _ := life.Stage(p.State)
	for _, a := range stage.Arrows {
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

func knownDefinition(w *Work, j *job.Job) *Blocker {
	if w.knows(j) {
		return nil
	}
	return definitionBlocker(w, j)
}

func definitionBlocker(w *Work, j *job.Job) *Blocker {
	return &Blocker{
		Code: BlockDefinition, Since: j.Changed, Holder: "whoever runs the new version",
		Sentence: fmt.Sprintf("it was created under definition %s of %s, this version has %s", j.Definition, j.Kind, w.Life.Hash()),
		Remedy:   "let a version that knows the old definition finish it, or add the hash to Adopts after checking that the states mean the same",
	}
}

// whyOutside explains states that no worker takes: somebody or something else has to act.
func (e *Engine) whyOutside(w *Work, j *job.Job) *Blocker {
	if rests(j) {
		return whyRests(w, j)
	}
	if w.Steps[j.State] != nil {
		return nil
	}
	b := &Blocker{Code: BlockOutside, Since: j.Entered, Until: j.Expires, Sentence: fmt.Sprintf("%s waits for something outside", j.State)}
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

func (e *Engine) whyHeld(ctx context.Context, j *job.Job, x *Explanation) error {
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

func heldBy(h *job.Hold) Blocker {
	return Blocker{
		Code: BlockHold, Since: h.Since, Until: h.Until, Holder: h.Who,
		Sentence: fmt.Sprintf("%s is on hold: %s", h.Scope, h.Why), Remedy: "release the hold on " + h.Scope.String(),
	}
}

func (e *Engine) whyClaimed(j *job.Job) *Blocker {
	if !j.Claimed() {
		return nil
	}
	b := &Blocker{
		Code: BlockClaim, Since: j.Changed, Until: j.Until, Holder: j.Worker,
		Sentence: fmt.Sprintf("worker %s is at work on %s", j.Worker, j.State),
		Remedy:   "nothing: if the worker dies, another takes over when the claim ends",
	}
	if p, ok := e.Progress(j.ID); ok && p.Total > 0 {
		b.Sentence += fmt.Sprintf(", %d of %d %s done", p.Done, p.Total, p.Unit)
	}
	return b
}

func (e *Engine) whyDue(ctx context.Context, w *Work, j *job.Job, now time.Time) (*Blocker, error) {
	if j.Claimed() || !j.Due.After(now) {
		return nil, nil
	}
	last, err := e.store.History(ctx, j.ID, j.Seq-1, 1)
	if err != nil {
		return nil, err
	}
	waits := len(last) == 1 && last[0].Event == lifecycle.Waiting
	b := &Blocker{Code: BlockDue, Since: j.Changed, Until: j.Due, Holder: "a timer"}
	b.Sentence = "it is not due before " + j.Due.UTC().Format(time.RFC3339)
	switch {
	case j.Cause == CauseChildren:
		b.Code, b.Sentence, b.Holder = CauseChildren, j.Message, "the jobs of the batch"
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

// whyCapacity asks the limits and the slots.
func (e *Engine) whyCapacity(ctx context.Context, w *Work, j *job.Job, x *Explanation) error {
	if j.Claimed() || w.Steps[j.State] == nil {
		return nil
	}
	full := false
	for i := range w.Limits {
		l := &w.Limits[i]
		n, err := e.under(ctx, l, j)
		if err != nil {
			return err
		}
		if n >= l.Max {
			full = true
			x.Blockers = append(x.Blockers, Blocker{
				Code: BlockLimit, Holder: l.Name, Sentence: fmt.Sprintf("%d of %d are under way by the limit %s", n, l.Max, l.Name),
				Remedy: "wait for one of them to end, or raise the limit",
			})
		}
	}
	if !full {
		x.Not = append(x.Not, "no limit is reached")
	}
	if b := e.whyStopped(); b != nil {
		x.Blockers = append(x.Blockers, *b)
		return nil
	}
	if b := e.whyAlone(); b != nil {
		x.Blockers = append(x.Blockers, *b)
		return nil
	}
	e.mu.Lock()
	p := e.poolOf(j.Kind)
	free := p.total - p.busy
	e.mu.Unlock()
	switch {
	case free == 0:
		x.Blockers = append(x.Blockers, Blocker{Code: BlockBusy, Holder: e.name, Remedy: "wait, or give it more slots",
			Sentence: fmt.Sprintf("all %d slots are taken", p.total)})
	default:
		x.Not = append(x.Not, fmt.Sprintf("%d of %d slots are free", free, p.total))
		return e.whyBehind(ctx, j, x, free)
	}
	return nil
}

func (e *Engine) whyStopped() *Blocker {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open {
		return nil
	}
	return &Blocker{Code: BlockStopped, Holder: e.name, Sentence: "no worker takes jobs here", Remedy: "start the engine"}
}

// whyBehind asks the store who would be next, if nothing else was found to keep the job.
func (e *Engine) whyBehind(ctx context.Context, j *job.Job, x *Explanation, free int) error {
	if len(x.Blockers) > 0 {
		return nil
	}
	next, err := e.store.Claim(ctx, job.Claim{Worker: e.name, From: e.poolOf(j.Kind).places, N: free, Now: x.At, Limits: e.limits, Ageing: e.options.Ageing, Dry: true})
	if err != nil {
		return err
	}
	if slices.ContainsFunc(next, func(o job.Job) bool { return o.ID == j.ID }) {
		x.Not = append(x.Not, "it is among the next that are taken")
		return nil
	}
	x.Blockers = append(x.Blockers, Blocker{
		Code: BlockBehind, Holder: e.name, Sentence: fmt.Sprintf("%d others go first: they have a better priority, came earlier, or it is their owner's turn", len(next)),
		Remedy: "wait, or give it a better priority",
	})
	return nil
}

// under counts what limit l counts together with job j; -1 if the limit does not guard the job or has a place for it already. It reads pages of the limit's jobs: for
// explanations, not for claims.
func (e *Engine) under(ctx context.Context, l *job.Limit, j *job.Job) (int, error) {
	if len(l.Guard) > 0 && !slices.Contains(l.Guard, j.State) || slices.Contains(l.Occupy, j.State) || l.Group != "" && l.Group != j.Group || l.Owner != "" && l.Owner != j.Owner || l.Tag != "" && !slices.Contains(j.Tags, l.Tag) {
		return -1, nil
	}
	live := false
	q := job.Query{Kinds: []job.Kind{l.Kind}, Group: l.Group, Owner: l.Owner, Tag: l.Tag, Ended: &live, Limit: 1000}
	if l.PerGroup {
		q.Group = j.Group
	}
	if l.PerOwner {
		q.Owner = j.Owner
	}
	n := 0
	for {
		page, err := e.store.List(ctx, q)
		if err != nil {
			return 0, err
		}
		for i := range page.Jobs {
			o := &page.Jobs[i]
			same := (!l.PerGroup || o.Group == j.Group) && (!l.PerOwner || o.Owner == j.Owner)
			guarded := len(l.Guard) == 0 || slices.Contains(l.Guard, o.State)
			if same && (slices.Contains(l.Occupy, o.State) || guarded && o.Claimed()) {
				n++
			}
		}
		if page.Next == "" {
			return n, nil
		}
		q.After = page.Next
	}
}

// whyEnded tells how a job came to its end.
func (e *Engine) whyEnded(ctx context.Context, w *Work, j *job.Job, x *Explanation) error {
	history, err := e.store.History(ctx, j.ID, 0, 0)
	if err != nil {
		return err
	}
	x.Chain = causes(w.Life, history)
	if len(history) > 0 {
		last := history[len(history)-1]
		if a, ok := w.Life.Arrow(last.From, last.Event); ok {
			x.Rule = fmt.Sprintf("%s -%s-> %s: %s", last.From, last.Event, last.To, reasonOf(j, &last, a.Doc))
		}
	}
	b := Blocker{Code: BlockEnded, Since: j.Entered, Sentence: fmt.Sprintf("it has ended: %s, outcome %s", j.State, j.Outcome)}
	if j.Message != "" {
		b.Sentence += " (" + j.Message + ")"
	}
	if len(x.Moves) > 0 {
		b.Remedy = "see the moves"
	}
	x.Blockers = append(x.Blockers, b)
	return nil
}

// reasonOf gives what ended a job, as it was recorded: the refusal, the error or a person's reason. Only where there is none, the sentence of
// the transition stands for it, which names all that could have been.
func reasonOf(j *job.Job, last *job.Event, doc string) string {
	text := last.Note
	if text == "" && j.Outcome == lifecycle.Failed {
		text = j.Message
	}
	switch {
	case text == "":
		return doc
	case last.Cause != "":
		return text + " [" + last.Cause + "]"
	}
	return text
}

// causes picks from a history what led to its end: the last success and everything after it.
func causes(life *lifecycle.Table, history []job.Event) []job.Event {
	from := 0
	for i, h := range history {
		if a, ok := life.Arrow(h.From, h.Event); ok && a.Class == lifecycle.Pass && !life.Ended(h.To) {
			from = i
		}
	}
	return history[from:]
}
