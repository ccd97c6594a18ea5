package explain

import (
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
	if err := e.heldThen(ctx, j, p, &x); err != nil {
		return x, err
	}
	last := history[n-1]
	if w.Life.Ended(p.State) {
		x.Chain = causes(w.Life, history[:n])
	}
	b := job.Blocker{Code: last.Cause, Since: last.At,
		Sentence: fmt.Sprintf("it was %s since %s", p.State, last.At.UTC().Format(time.RFC3339))}
	if last.Note != "" {
		b.Sentence += " (" + last.Note + ")"
	}
	if b.Code == "" || last.Event == job.Create { // whose cause is the digest of a request
		b.Code = string(last.Event)
	}
	if n < len(history) {
		next := history[n]
		b.Until, b.Holder = next.At, next.Actor
		b.Sentence += fmt.Sprintf("; %s by %s moved it to %s", next.Event, next.By, next.To)
	}
	x.Blockers = append(x.Blockers, b)
	x.Queue, err = e.queueThen(ctx, w, &j, p.State, history[n:], at)
	return x, err
}
