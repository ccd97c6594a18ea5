package flow

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/stagepost/stagepost/lifecycle"
)

// isSpecialMove reports whether a change of an atom is legal although the tables do not have it. A reset and a retry
// move any state to PENDING; a run from FAILURE repeats a failed revert. A commit that undoes a stored move of an atom
// that was never started is not checked here: see undoPlanned.
func isSpecialMove(from, to lifecycle.State) bool {
	return to == Pending || from == RevertFailure && to == Reverting
}

// set changes the state of an atom by its table. Listeners are notified after the next commit. A change that the table
// does not have fails the flow with a [StateError].
func (r *Runner) set(i int32, to lifecycle.State) bool {
	rec := &r.recs[i]
	table := TaskLife
	if rec.Kind == KindRetry {
		table = RetryLife
	}
	if !inTable(table, rec.State, to) && !isSpecialMove(rec.State, to) {
		kind := "Task"
		if rec.Kind == KindRetry {
			kind = "Retry"
		}
		r.addFault(i, &StateError{Kind: kind, Name: rec.Name, From: rec.State, To: to})
		return false
	}
	old := rec.State
	rec.State = to
	r.markDirty(i)
	r.gauge.update(i, r.recs)
	r.addEvents(i, old)
	return true
}

// moves has the changes of the tables.
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

func inTable(t *lifecycle.Table, from, to lifecycle.State) bool { return moves[t][statePair{from, to}] }

// setIntention changes the intention of an atom. Listeners are not notified.
func (r *Runner) setIntention(i int32, to Intention) {
	if r.recs[i].Intention != to {
		r.recs[i].Intention = to
		if to != ToRevert {
			clear(r.revertingAfter)
		}
		if to != Execute && r.waiting[i] {
			r.unwanted = append(r.unwanted, i)
		}
		r.markDirty(i)
		r.gauge.update(i, r.recs)
	}
}

// clearAtom moves an atom to PENDING and removes its results, failures and history.
func (r *Runner) clearAtom(i int32) {
	rec := &r.recs[i]
	old := rec.State
	*rec = Record{Name: rec.Name, Kind: rec.Kind, Version: rec.Version, State: old, Intention: Execute,
		Attempts: rec.Attempts}
	delete(r.waiting, i)
	delete(r.limits, i)
	clear(r.revertingAfter)
	if old != Pending {
		r.set(i, Pending)
	}
	r.markDirty(i)
	r.gauge.update(i, r.recs)
}

// addEvents adds the events of an atom's change. Listeners get them after the next commit.
func (r *Runner) addEvents(i int32, old lifecycle.State) {
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
	r.events = append(r.events, e)
	switch rec.State {
	case Running, Reverting:
		r.events = append(r.events, Event{Atom: rec.Name, Kind: rec.Kind, Old: rec.State, New: rec.State,
			Within: Progressed})
	case Success, Reverted:
		r.events = append(r.events, Event{Atom: rec.Name, Kind: rec.Kind, Old: rec.State, New: rec.State,
			Within: Progressed, Progress: 1})
	}
}

// notifyAll passes the events of stored changes to the listeners, in order. Between two events it accepts a request to
// suspend.
func (r *Runner) notifyAll(ctx context.Context) error {
	for len(r.events) > 0 {
		e := r.events[0]
		r.events = r.events[1:]
		r.notify(e)
		if err := r.acceptSuspend(ctx); err != nil {
			return err
		}
	}
	return nil
}

// acceptSuspend moves the flow to SUSPENDING if that was requested.
func (r *Runner) acceptSuspend(ctx context.Context) error {
	if r.requested.Load() != requestSuspend || r.state != Running || r.isEnding() {
		return nil
	}
	rest := r.events
	r.events = nil
	err := r.move(ctx, Suspend, Suspending, nil)
	r.events = append(r.events, rest...)
	return err
}

// notify calls the listeners with mu unlocked.
func (r *Runner) notify(e Event) {
	if len(r.o.Listeners) == 0 {
		return
	}
	e.Flow, e.ID, e.At = r.plan.name, r.o.ID, r.o.Now()
	r.unlocked(func() { r.callListeners(e) })
}

// callListeners passes an event to the listeners, one event at a time.
func (r *Runner) callListeners(e Event) {
	r.notifying.Lock()
	defer r.notifying.Unlock()
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

// unlocked calls a function of the user with mu unlocked.
func (r *Runner) unlocked(f func()) {
	r.mu.Unlock()
	defer r.mu.Lock()
	f()
}
