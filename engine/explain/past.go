package explain

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// heldThen adds the holds that concerned job j at position p at the time x.At. It reads them from the audit log.
func (e *Explainer) heldThen(ctx context.Context, j job.Job, p lifecycle.Position, x *api.Explanation) error {
	if e.engine.Work(j.Kind).Life.Ended(p.State) {
		return nil
	}
	holds := map[job.Scope]job.Hold{}
	for seq := int64(0); ; {
		page, err := e.store.AuditHolds(ctx, seq, 1000)
		if err != nil {
			return err
		}
		for i := range page {
			a := &page[i]
			seq = a.Seq
			if a.At.After(x.At) {
				continue // the list is in order of writing, and the clock may have been set back
			}
			switch h, put, ok := a.Held(); {
			case ok && put:
				holds[h.Scope] = h
			case ok:
				delete(holds, h.Scope)
			}
		}
		if len(page) < 1000 {
			break
		}
	}
	j.Position = p
	oldest := func(a, b job.Hold) int { return a.Since.Compare(b.Since) }
	for _, h := range slices.SortedFunc(maps.Values(holds), oldest) {
		if h.Matches(&j) && h.On(x.At) {
			b := heldBy(&h)
			b.Remedies = nil // they apply to the present
			x.Blockers = append(x.Blockers, b)
		}
	}
	return nil
}

// whyThen explains a past moment from the history.
func (e *Explainer) whyThen(ctx context.Context, w *engine.Work, j job.Job, at time.Time) (api.Explanation, error) {
	history, err := e.store.History(ctx, j.ID, 0, 0)
	if err != nil {
		return api.Explanation{}, err
	}
	n := 0
	var taken []lifecycle.Taken
	for n < len(history) && !history[n].At.After(at) {
		if n > 0 {
			taken = append(taken, lifecycle.Taken{Event: history[n].Event, By: history[n].By})
		}
		n++
	}
	if n == 0 {
		return api.Explanation{}, job.Errorf(job.NotFound, "why", j.ID, "it was created later, at %s",
			j.Created.UTC().Format(time.RFC3339))
	}
	p, err := w.Life.Replay(taken)
	if err != nil {
		return api.Explanation{}, job.Errorf(job.Internal, "why", j.ID, "replay: %w", err)
	}
	x := api.Explanation{Job: j.ID, Kind: j.Kind, At: at, Position: p, Moves: exitsOf(w.Life, p)}
	entry := entered(history[:n])
	x.Entered = entry.At
	if n := retries(w.Life, history[:n]); n > 0 {
		x.Attempts = counted(n, "retry", "retries") + " until then"
	}
	if w.Life.Ended(p.State) {
		x.Chain = causes(w.Life, history[:n])
	} else {
		x.Unknown = unrecorded
	}
	if err := e.heldThen(ctx, j, p, &x); err != nil {
		return x, err
	}
	if b := waitThen(history[entry.Seq:n]); b != nil {
		x.Blockers = append(x.Blockers, *b)
	}
	x.Blockers = append(x.Blockers, stayThen(entry, history[n:]))
	x.Queue, err = e.queueThen(ctx, w, &j, p.State, history[n:], at)
	return x, err
}

// unrecorded is what histories and the audit log do not have of a past moment.
var unrecorded = []string{
	"which worker had the job, and which workers were live: claims are not recorded",
	"whether a limit was full or all slots were in use",
	"what an application or a step checked, unless the job waited for it or an attempt failed",
	"the priority before a later change",
}

// entered returns the entry of a history that moved the job to its last state.
func entered(history []job.Event) *job.Event {
	for i := len(history) - 1; i > 0; i-- {
		if history[i].From != history[i].To {
			return &history[i]
		}
	}
	return &history[0]
}

// retries counts the retries in a history.
func retries(life *lifecycle.Table, history []job.Event) (n int) {
	for _, h := range history {
		if t, ok := life.Transition(h.From, h.Event); ok && (t.Class == lifecycle.Reenter || t.Restart) {
			n++
		}
	}
	return n
}

// waitThen returns the last wait or failed attempt among entries that left the state unchanged. Other entries, such as
// that of a priority, do not end it.
func waitThen(since []job.Event) *job.Blocker {
	for _, h := range slices.Backward(since) {
		b := &job.Blocker{Code: h.Cause, Since: h.At}
		switch h.Event {
		case lifecycle.Waiting:
			b.Code = cmp.Or(b.Code, string(h.Event))
			b.Sentence = cmp.Or(h.Note, "it waited because of "+b.Code)
		case lifecycle.Backoff:
			b.Code = BlockDue
			b.Sentence = "an attempt failed, and the next one followed after a pause"
			if h.Note != "" {
				b.Sentence = fmt.Sprintf("an attempt failed (%s), and the next one followed after a pause", h.Note)
			}
		default:
			continue
		}
		return b
	}
	return nil
}

// stayThen states since when the job was in its state, and which later entry moved it to another one.
func stayThen(entry *job.Event, later []job.Event) job.Blocker {
	b := job.Blocker{Code: entry.Cause, Since: entry.At,
		Sentence: fmt.Sprintf("it was %s since %s", entry.To, entry.At.UTC().Format(time.RFC3339))}
	if entry.Note != "" {
		b.Sentence += " (" + entry.Note + ")"
	}
	if b.Code == "" || entry.Event == job.Create { // whose cause is the digest of a request
		b.Code = string(entry.Event)
	}
	for _, next := range later {
		if next.From != next.To {
			b.Until, b.Holder = next.At, next.Actor
			b.Sentence += fmt.Sprintf("; %s by %s moved it to %s", next.Event, next.By, next.To)
			break
		}
	}
	return b
}
