package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/internal/block"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/engine/status"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Codes of blockers, besides those that the engine, its gates and its steps record.
const (
	BlockDue      = "due"       // it is not due yet: a backoff, or its order has a time
	BlockClaim    = "claim"     // a worker has claimed it
	BlockLimit    = "limit"     // as many as allowed are under way
	BlockBusy     = "busy"      // every slot is taken
	BlockBehind   = "behind"    // other jobs go first
	BlockAlone    = "alone"     // a job that may have crashed its workers runs alone
	BlockPerson   = "person"    // a person has to decide
	BlockTimer    = "timer"     // a timer will move it
	BlockNoWorker = "no-worker" // no live worker takes jobs of its state
	BlockOutside  = "outside"   // something outside has to happen
	BlockStorage  = "storage"   // the server's storage accepts no writes: of every job
	BlockEnded    = "ended"     // it has ended
)

// Explainer explains the jobs of one engine. Make one with [New] and reuse it: it caches usual durations for a minute.
type Explainer struct {
	engine  *engine.Engine
	store   job.Store
	usual   usual
	workers RemoteWorkers // nil: none are known
}

// New makes an explainer.
func New(e *engine.Engine) *Explainer { return &Explainer{engine: e, store: e.Store()} }

// Why returns all reasons for which a job waits. A zero time means now.
func (e *Explainer) Why(ctx context.Context, id job.ID, at time.Time) (api.Explanation, error) {
	j, err := e.store.Get(ctx, id)
	if err != nil {
		return api.Explanation{}, err
	}
	w := e.engine.Work(j.Kind)
	if w == nil {
		return api.Explanation{}, job.Errorf(job.Refused, "why", id, "this engine does not know the kind %s", j.Kind)
	}
	if !at.IsZero() {
		return e.whyThen(ctx, w, j, at)
	}
	x := api.Explanation{Job: id, Kind: j.Kind, At: e.engine.Clock().Now(), Position: j.Position,
		Entered: j.Entered, Moves: exitsOf(w.Life, j.Position)}
	if err := e.offer(ctx, w, &j, x.Moves); err != nil {
		return x, err
	}
	if j.Ended {
		return x, e.whyEnded(ctx, w, &j, &x)
	}
	x.Attempts = attempts(&j, w.Policies[j.State])
	now := e.engine.Status()
	whyImpaired(now, &x)
	if x.Next = overdue(&j, x.At); x.Next != "" {
		if stopped := whyStopped(now); stopped != nil {
			x.Blockers = append(x.Blockers, *stopped)
		}
		return x, nil
	}
	if b := block.Stateless(&j, w.Life); b != nil {
		x.Blockers = append(x.Blockers, *b)
	} else {
		ask(&x, block.Definition(&j, w.Life.Hash(), w.Adopts), "its definition is current")
		ask(&x, e.whyOutside(ctx, w, &j, offered(x.Moves)), "the state is one that workers take")
	}
	if err := e.whyHeld(ctx, w, &j, &x); err != nil {
		return x, err
	}
	ask(&x, e.whyClaimed(&j), "no worker has it")
	if err := e.whyDueOrGated(ctx, w, &j, &x); err != nil {
		return x, err
	}
	if err := e.whyCapacity(ctx, w, &j, &x); err != nil {
		return x, err
	}
	return x, nil
}

// attempts states what was used of the bounds of a state; empty: nothing. The start of a worker that has the job is no
// failure yet.
func attempts(j *job.Job, p engine.Policy) string {
	var parts []string
	if j.Attempts > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d attempts in this state failed", j.Attempts, p.MaxAttempts))
	}
	lost := j.Starts
	if j.Claimed() {
		lost--
	}
	if lost > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d starts ended without a report of the worker", lost, p.MaxStarts))
	}
	if j.Retries > 0 {
		parts = append(parts, counted(j.Retries, "retry", "retries"))
	}
	return strings.Join(parts, ", ")
}

// overdue returns what the next sweep moves the job for: a lease that has expired, or the end of its time in the state;
// "": it is not overdue.
func overdue(j *job.Job, now time.Time) string {
	switch {
	case j.Claimed() && !j.Until.After(now):
		return fmt.Sprintf("the lease of worker %s has expired at %s: the next sweep moves it", j.Worker,
			j.Until.UTC().Format(time.RFC3339))
	case !j.Expires.IsZero() && !j.Expires.After(now):
		return fmt.Sprintf("its time in %s has ended at %s: the next sweep moves it", j.State,
			j.Expires.UTC().Format(time.RFC3339))
	}
	return ""
}

// whyDueOrGated adds when the job is due, and its gate. A wait that the gate caused is reported by the gate alone.
func (e *Explainer) whyDueOrGated(ctx context.Context, w *engine.Work, j *job.Job, x *api.Explanation) error {
	due, err := e.whyDue(ctx, w, j, x.At)
	if err != nil {
		return err
	}
	gate := w.Gates[j.State]
	var closed *job.Blocker
	if gate != nil && !j.Claimed() {
		closed = whyGated(ctx, gate, j)
	}
	if !block.Rests(j) && (due == nil || closed == nil || due.Code != closed.Code) {
		ask(x, timed(w, j, due), "it is due")
	}
	if gate != nil && !j.Claimed() {
		ask(x, timed(w, j, closed), "its gate is open")
	}
	return nil
}

// whyGated returns what the gate reports. A gate that panics is reported, too: it is called before each step.
func whyGated(ctx context.Context, gate engine.Gate, j *job.Job) (b *job.Blocker) {
	defer func() {
		if p := recover(); p != nil {
			b = &job.Blocker{Code: cause.Panic, Holder: "the program", Remedy: "correct the gate",
				Sentence: fmt.Sprintf("the gate for %s panicked: %v", j.State, p)}
		}
	}()
	return gate(ctx, j)
}

// ask adds a blocker, or the sentence that states that there is none.
func ask(x *api.Explanation, b *job.Blocker, not string) {
	if b != nil {
		x.Blockers = append(x.Blockers, *b)
	} else {
		x.Not = append(x.Not, not)
	}
}

// offer sets in the moves of people the command for each, or why the application's rule refuses it now.
func (e *Explainer) offer(ctx context.Context, w *engine.Work, j *job.Job, moves []api.Move) error {
	rule, err := e.ruleFor(ctx, w, j)
	if err != nil {
		return err
	}
	for i := range moves {
		m := &moves[i]
		by := m.By & lifecycle.Operator
		if by == 0 {
			by = m.By & lifecycle.Owner
		}
		if by == 0 {
			continue
		}
		err := rule(m, by, false)
		confirm := refusal(err)
		if confirm {
			err = rule(m, by, true)
		}
		switch {
		case err == nil:
			m.Remedy = new(job.Causing(m.Event, j.ID, confirm, m.Doc))
		case refusal(err):
			m.Refused = job.Reason(err)
		default:
			return err
		}
	}
	return nil
}

// refusal reports whether an error states that a person may not cause an event now.
func refusal(err error) bool {
	kind := job.KindOf(err)
	return err != nil && (kind == job.Refused || kind == job.Conflict)
}

// ruleFor returns the application's rule about the moves of people on a job.
func (e *Explainer) ruleFor(
	ctx context.Context, w *engine.Work, j *job.Job,
) (func(m *api.Move, by lifecycle.Actor, confirm bool) error, error) {
	if w.Allow == nil {
		return func(*api.Move, lifecycle.Actor, bool) error { return nil }, nil
	}
	var parent *job.Job
	if j.Parent != "" {
		p, err := e.store.Get(ctx, j.Parent)
		if err != nil {
			return nil, err
		}
		parent = &p
	}
	holds, err := e.store.Holds(ctx)
	if err != nil {
		return nil, err
	}
	return func(m *api.Move, by lifecycle.Actor, confirm bool) error {
		require, err := w.Allow(ctx, j, &operator.Act{Job: j.ID, Event: m.Event, By: by, Confirm: confirm})
		if err == nil {
			err = require.Holds(j, parent)
		}
		if err == nil {
			there := *j
			there.State = m.To
			err = require.Hold(j, &there, holds, e.engine.Clock().Now())
		}
		return err
	}, nil
}

// offered returns the remedies of the moves that people may make now. Each states what the command does, before the
// description of the event, which may be one of the state that it leads to.
func offered(moves []api.Move) []job.Remedy {
	var all []job.Remedy
	for i := range moves {
		if m := &moves[i]; m.Remedy != nil {
			r := *m.Remedy
			r.Doc = fmt.Sprintf("moves it to %s: %s", m.To, m.Doc)
			all = append(all, r)
		}
	}
	return all
}

// exitsOf lists the legal events at p that are not loops, with all actors that may cause them.
func exitsOf(life *lifecycle.Table, p lifecycle.Position) []api.Move {
	var exits []api.Move
	stage, _ := life.Stage(p.State)
	for _, a := range stage.Transitions {
		if a.Stays() {
			continue
		}
		for _, by := range lifecycle.Actors() {
			if to, err := life.Next(p, a.Event, by); err == nil {
				exits = append(exits, api.Move{Event: a.Event, To: to.State, By: a.By, Doc: a.Doc})
				break
			}
		}
	}
	return exits
}

// whyOutside explains states that no worker here claims: a person, a remote worker or something outside must act.
func (e *Explainer) whyOutside(ctx context.Context, w *engine.Work, j *job.Job, can []job.Remedy) *job.Blocker {
	if block.Rests(j) {
		return timed(w, j, whyRests(w, j, can))
	}
	if w.Steps[j.State] != nil && e.takenHere(j) {
		return nil
	}
	if b := e.noWorker(ctx, w, j); b != nil {
		b.Remedies = append(b.Remedies, can...)
		return b
	}
	if b := e.lacksLabels(w, j); b != nil {
		b.Remedies = append(b.Remedies, can...)
		return b
	}
	b := &job.Blocker{Code: BlockOutside, Since: j.Entered, Until: j.Expires,
		Sentence: fmt.Sprintf("%s waits for something outside", j.State)}
	people := movers(w, j)
	stage, _ := w.Life.Stage(j.State)
	switch {
	case stage.Kind != lifecycle.Wait:
		b.Sentence, b.Holder = fmt.Sprintf("%s is for workers outside this process", j.State)+
			withLabels(requires(w, j)), "workers outside"
		if !j.Expires.IsZero() {
			b.Sentence += ", until " + j.Expires.UTC().Format(time.RFC3339)
		}
	case !j.Expires.IsZero():
		b.Code, b.Holder = BlockTimer, "a timer"
		b.Sentence = fmt.Sprintf("%s lasts until %s", j.State, j.Expires.UTC().Format(time.RFC3339))
		if j.Message != "" { // why it was entered, such as a failed attempt
			b.Sentence += ": " + j.Message
		}
	case people != 0:
		b.Code, b.Holder = BlockPerson, people.String()
		b.Sentence = fmt.Sprintf("%s: %s", j.State, stage.Doc)
	}
	b.Remedies = can
	return b
}

// whyImpaired adds the impairment of the server, which blocks every job.
func whyImpaired(now *status.Engine, x *api.Explanation) {
	in := now.Impairment
	switch {
	case in != nil:
		x.Blockers = append(x.Blockers, job.Blocker{
			Code: BlockStorage, Since: in.Since, Holder: "the storage of the server", Sentence: in.Err.Error(),
			Remedy:   "free or repair the storage of the server",
			Remedies: []job.Remedy{job.Running("admin health", "shows the state of the server")},
		})
	case now.Checked:
		x.Not = append(x.Not, "the server's storage accepts writes")
	}
}

func (e *Explainer) whyHeld(ctx context.Context, w *engine.Work, j *job.Job, x *api.Explanation) error {
	holds, err := e.store.Holds(ctx)
	if err != nil {
		return err
	}
	held := false
	for _, h := range holds {
		if h.Matches(j) && h.On(x.At) {
			held = true
			b := heldBy(&h)
			x.Blockers = append(x.Blockers, *timed(w, j, &b))
		}
	}
	if !held {
		x.Not = append(x.Not, "no hold concerns it")
	}
	return nil
}

func heldBy(h *job.Hold) job.Blocker {
	return job.Blocker{
		Code: cause.Hold, Since: h.Since, Until: h.Until, Holder: h.Who,
		Sentence: fmt.Sprintf("%s is on hold: %s", h.Scope, h.Why), Remedies: []job.Remedy{job.Releasing(h.Scope)},
	}
}

func (e *Explainer) whyClaimed(j *job.Job) *job.Blocker {
	if !j.Claimed() {
		return nil
	}
	b := &job.Blocker{
		Code: BlockClaim, Since: j.Changed, Until: j.Until, Holder: j.Worker,
		Sentence: fmt.Sprintf("a worker is at work on %s", j.State),
		Remedy:   "nothing: another worker takes over if the lease expires",
		Remedies: []job.Remedy{job.Running("watch "+string(j.ID), "follows it")},
	}
	if p, ok := e.engine.Progress(j.ID); ok && p.Total > 0 {
		b.Sentence += fmt.Sprintf(", %d of %d %s done", p.Done, p.Total, p.Unit)
	}
	return b
}

func (e *Explainer) whyDue(ctx context.Context, w *engine.Work, j *job.Job, now time.Time) (*job.Blocker, error) {
	if j.Claimed() || !j.Due.After(now) {
		return nil, nil
	}
	failed := false
	if j.Attempts > 0 {
		var err error
		if failed, err = e.attemptFailed(ctx, j); err != nil {
			return nil, err
		}
	}
	b := &job.Blocker{Code: BlockDue, Since: j.Changed, Until: j.Due, Holder: "a timer"}
	b.Sentence = "it is not due before " + j.Due.UTC().Format(time.RFC3339)
	switch {
	case j.Suspect(): // every report of a worker makes it none: cause and message are those of an earlier report
		b.Sentence = "the last workers that had it ended without a report; the next attempt is due then"
		b.Remedy = "find out what ended its workers; the next attempt starts by itself"
		b.Remedies = []job.Remedy{job.Running("logs "+string(j.ID), "shows what the attempts did")}
	case j.Cause == cause.Children:
		b.Code, b.Sentence, b.Holder = cause.Children, j.Message, "the jobs of the batch"
		b.Remedies = []job.Remedy{job.Running("list --open --parent "+string(j.ID),
			"lists the jobs that have not ended")}
	case failed:
		b.Sentence = fmt.Sprintf("attempt %d failed (%s); the next is due then", j.Attempts, j.Message)
		b.Remedy = "correct the reason; the next attempt starts by itself"
		b.Remedies = []job.Remedy{job.Running("logs "+string(j.ID), "shows what the attempts did")}
	case j.Cause != "":
		b.Code, b.Sentence = j.Cause, j.Message
		if w.Explain != nil {
			w.Explain(j, b)
		}
	}
	return b, nil
}

// historyPart is how many entries of a history are read at once in a search for the newest of some kind.
const historyPart = 20

// attemptFailed reports whether the present reason of an unclaimed job is that of a failed attempt, not of a wait. What
// people did since does not change the reason. A wait that repeats the cause of the reason before has no entry of its
// own, but another message.
func (e *Explainer) attemptFailed(ctx context.Context, j *job.Job) (bool, error) {
	for end := j.Seq; end > 0; end -= historyPart {
		part, err := e.store.History(ctx, j.ID, max(end-historyPart, 0), int(min(end, historyPart)))
		if err != nil {
			return false, err
		}
		for _, h := range slices.Backward(part) {
			if h.From != h.To || h.Event == lifecycle.Waiting || h.Event == lifecycle.Backoff {
				return h.Event == lifecycle.Backoff && h.Note == j.Message, nil
			}
		}
	}
	return false, nil
}
