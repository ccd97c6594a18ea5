package flow

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/stagepost/stagepost/lifecycle"
)

// besides are the changes of atoms that reset, retry and resumption make and the tables do not have (taskflow.md 6):
// back to PENDING from any state; on from a revert that failed, when the flow is run again; out of RUNNING and
// REVERTING, by a commit that reverts what was stored and never begun, is no change but a correction (see takeBack).
func besides(from, to lifecycle.State) bool {
	return to == Pending || from == RevertFailure && to == Reverting
}

// set changes the state of an atom by its table. It is reported after the next commit. A change that the table does not
// have makes the flow fail with the evidence.
func (r *Runner) set(i int32, to lifecycle.State) bool {
	rec := &r.recs[i]
	table := TaskLife
	if rec.Kind == KindRetry {
		table = RetryLife
	}
	if !leads(table, rec.State, to) && !besides(rec.State, to) {
		kind := "Task"
		if rec.Kind == KindRetry {
			kind = "Retry"
		}
		r.fail(i, &StateError{Kind: kind, Name: rec.Name, From: rec.State, To: to})
		return false
	}
	old := rec.State
	rec.State = to
	r.mark(i)
	r.gauge.update(i, r.recs)
	r.note(i, old)
	return true
}

// moves are the changes that the tables have.
var moves = map[*lifecycle.Table]map[statePair]bool{TaskLife: movesOf(TaskLife), RetryLife: movesOf(RetryLife)}

func movesOf(t *lifecycle.Table) map[statePair]bool {
	all := map[statePair]bool{}
	for _, s := range t.Stages() {
		for _, a := range s.Transitions {
			if a.Class != lifecycle.Loop {
				all[statePair{s.State, a.To}] = true
			}
		}
	}
	return all
}

func leads(t *lifecycle.Table, from, to lifecycle.State) bool { return moves[t][statePair{from, to}] }

// intend changes what is to become of an atom. It is not reported.
func (r *Runner) intend(i int32, to Intention) {
	if r.recs[i].Intention != to {
		r.recs[i].Intention = to
		if to != ToRevert {
			clear(r.doomed)
		}
		if to != Execute && r.waiting[i] {
			r.unwanted = append(r.unwanted, i)
		}
		r.mark(i)
		r.gauge.update(i, r.recs)
	}
}

// restart puts an atom back to the beginning: nothing is left of what it did.
func (r *Runner) restart(i int32) {
	rec := &r.recs[i]
	old := rec.State
	*rec = Record{Name: rec.Name, Kind: rec.Kind, Version: rec.Version, State: old, Intention: Execute,
		Attempts: rec.Attempts}
	delete(r.waiting, i)
	delete(r.limits, i)
	clear(r.doomed)
	if old != Pending {
		r.set(i, Pending)
	}
	r.mark(i)
	r.gauge.update(i, r.recs)
}

// note prepares what listeners are notified of a change of an atom.
func (r *Runner) note(i int32, old lifecycle.State) {
	if len(r.o.Listeners) == 0 {
		return
	}
	rec := &r.recs[i]
	e := Event{Atom: rec.Name, Kind: rec.Kind, Old: old, New: rec.State}
	switch rec.State {
	case Success:
		e.Result = rec.Result
		if rec.Kind == KindRetry && len(rec.History) > 0 {
			e.Result = &rec.History[len(rec.History)-1].Value
		}
	case FailureState:
		e.Failure = rec.Failure
	case Reverted:
		e.Result = rec.Reverted
	case RevertFailure:
		e.Failure = rec.RevertFailure
	}
	r.notes = append(r.notes, e)
	switch rec.State {
	case Running, Reverting:
		r.notes = append(r.notes, Event{Atom: rec.Name, Kind: rec.Kind, Old: rec.State, New: rec.State,
			Within: Progressed})
	case Success, Reverted:
		r.notes = append(r.notes, Event{Atom: rec.Name, Kind: rec.Kind, Old: rec.State, New: rec.State,
			Within: Progressed, Progress: 1})
	}
}

// tellAll reports what was stored, one after the other; a request to suspend that somebody has meanwhile comes in
// between.
func (r *Runner) tellAll(ctx context.Context) error {
	for len(r.notes) > 0 {
		e := r.notes[0]
		r.notes = r.notes[1:]
		r.tell(e)
		if err := r.heed(ctx); err != nil {
			return err
		}
	}
	return nil
}

// heed makes the flow SUSPENDING if somebody needs it to pause.
func (r *Runner) heed(ctx context.Context) error {
	if r.wish.Load() != wishSuspend || r.state != Running || r.ends() {
		return nil
	}
	rest := r.notes
	r.notes = nil
	err := r.move(ctx, Suspend, Suspending, nil)
	r.notes = append(r.notes, rest...)
	return err
}

// report calls the listeners, with mu free.
func (r *Runner) tell(e Event) {
	if len(r.o.Listeners) == 0 {
		return
	}
	e.Flow, e.ID, e.At = r.plan.name, r.o.ID, r.o.Now()
	r.outside(func() { r.hand(e) })
}

// hand gives an event to the listeners, one event at a time.
func (r *Runner) hand(e Event) {
	r.telling.Lock()
	defer r.telling.Unlock()
	for _, l := range r.o.Listeners {
		func() {
			defer func() {
				if p := recover(); p != nil {
					r.o.Log.Error("a listener panicked", "flow", r.o.ID, "panic", fmt.Sprint(p), "stack",
						string(debug.Stack()))
				}
			}()
			l(e)
		}()
	}
}

// outside calls somebody else's code, with mu free.
func (r *Runner) outside(f func()) {
	r.mu.Unlock()
	defer r.mu.Lock()
	f()
}
