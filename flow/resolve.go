package flow

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// wholeFlow is the number of a controller that means the whole flow.
const wholeFlow int32 = -1

// resolution is the decision about a failure.
type resolution struct {
	decision Decision
	retry    int32 // the controller whose part it concerns; -1: the whole flow
}

// resolve asks the controllers about the failure of an atom and changes intentions accordingly.
func (r *Runner) resolve(ctx context.Context, i int32, f *Failure) {
	res, err := r.resolutionOf(ctx, i, f)
	if err != nil {
		r.addFault(i, err)
		return
	}
	switch res.decision {
	case DecideRevertAll:
		r.revertAll()
	case DecideRetry:
		// no part of a flow is retried while the whole flow is reverted
		if rec := &r.recs[res.retry]; rec.Intention != ToRevert {
			if pause := r.plan.nodes[res.retry].retry.Pause; pause != nil && rec.Intention != ToRetry {
				var d time.Duration
				if err := r.callUser("the retry controller "+rec.Name, func() {
					d = pause(len(rec.History))
				}); err != nil {
					r.addFault(i, err)
					return
				}
				rec.Due = r.o.Now().Add(max(d, 0))
				r.markDirty(res.retry)
			}
			r.setIntention(res.retry, ToRetry)
		}
		r.revertAfter(res.retry)
	case DecideRevert:
		r.setIntention(res.retry, ToRevert)
		r.revertAfter(res.retry)
	}
}

// resolutionOf returns the decision of the nearest controller, or of an outer one if the nearest decides REVERT.
func (r *Runner) resolutionOf(ctx context.Context, i int32, f *Failure) (resolution, error) {
	g := r.plan.nodes[i].governor
	if g < 0 {
		return resolution{DecideRevertAll, -1}, nil
	}
	r.addToHistory(g, r.recs[i].Name, f)
	d, err := r.askController(ctx, g)
	if err != nil {
		return resolution{}, err
	}
	switch d {
	case DecideRetry:
		if len(r.recs[g].History) < r.o.MaxAttempts {
			return resolution{DecideRetry, g}, nil
		}
		r.o.Log.Error("a retry controller has used up its attempts", "flow", r.o.ID, "retry", r.recs[g].Name,
			"attempts", r.o.MaxAttempts)
		r.limits[g] = FailureOf(wrong(ErrLimit, []string{r.recs[g].Name},
			"%s decided to retry and has used up its %d attempts", r.recs[g].Name, r.o.MaxAttempts))
	case DecideRevertAll:
		return resolution{DecideRevertAll, g}, nil
	case DecideRevert:
	default:
		return resolution{}, wrong(ErrInvalid, []string{r.recs[g].Name},
			"the retry controller %s decided %q (possible: RETRY, REVERT, REVERT_ALL)", r.recs[g].Name, d)
	}
	above, err := r.resolutionOf(ctx, g, f)
	switch {
	case err != nil:
		return above, err
	case r.o.DeferReverts, above.decision == DecideRetry, above.decision == DecideRevertAll && above.retry >= 0:
		return above, nil
	}
	return resolution{DecideRevert, g}, nil
}

// isReported reports whether the controller of an atom has the atom's failure in its history. The failure of an atom
// that only waited when another one failed is never reported. Without a controller the answer is true.
func (r *Runner) isReported(i int32) bool {
	g := r.plan.nodes[i].governor
	if g < 0 {
		return true
	}
	h := r.recs[g].History
	return len(h) > 0 && slices.ContainsFunc(h[len(h)-1].Failures, func(one FailedAtom) bool {
		return one.Atom == r.recs[i].Name
	})
}

// addToHistory adds a failure to the last attempt of a controller, once for each atom.
func (r *Runner) addToHistory(g int32, atom string, f *Failure) {
	h := r.recs[g].History
	if len(h) == 0 || slices.ContainsFunc(h[len(h)-1].Failures, func(one FailedAtom) bool { return one.Atom == atom }) {
		return
	}
	h = slices.Clone(h)
	last := &h[len(h)-1]
	last.Failures = append(slices.Clone(last.Failures), FailedAtom{atom, f})
	r.recs[g].History = h
	r.markDirty(g)
}

// askController calls Decide of a controller.
func (r *Runner) askController(ctx context.Context, g int32) (d Decision, err error) {
	c, err := r.newCall(g, false)
	if err != nil {
		return "", err
	}
	retry := r.plan.nodes[g].retry
	if panicked := r.callUser("the retry controller "+c.Atom, func() {
		d, err = retry.Decide(ctx, c)
		err = asFailure(err)
	}); panicked != nil {
		return "", panicked
	}
	return d, err
}

// callUser calls a function of the user with mu unlocked and converts a panic to a failure.
func (r *Runner) callUser(who string, f func()) (err error) {
	r.unlocked(func() {
		defer func() {
			if p := recover(); p != nil {
				err = newFailure(TypePanic, "%s panicked: %v", who, p)
			}
		}()
		f()
	})
	return err
}

func (r *Runner) revertAll() {
	if r.revertingAfter[wholeFlow] { // because of another failure
		return
	}
	for _, i := range r.plan.atoms {
		r.setIntention(i, ToRevert)
	}
	r.revertingAfter[wholeFlow] = true
}

func (r *Runner) revertAfter(g int32) {
	if r.revertingAfter[wholeFlow] || r.revertingAfter[g] {
		return
	}
	for _, i := range r.plan.after(g) {
		if r.plan.nodes[i].isAtom() {
			r.setIntention(i, ToRevert)
		}
	}
	r.revertingAfter[g] = true
}

// retrySubflow moves all atoms that depend on a controller to PENDING.
func (r *Runner) retrySubflow(g int32) {
	r.setIntention(g, Execute)
	for _, i := range r.plan.after(g) {
		if r.plan.nodes[i].isAtom() {
			r.clearAtom(i)
		}
	}
}

// addFault records an error of the flow itself: a decider, a controller, a hook, a missing value. It ends the flow in
// FAILURE, or reverts it with Options.RevertErrors.
func (r *Runner) addFault(i int32, err error) {
	f := FailureOf(err)
	rec := &r.recs[i]
	if !r.o.RevertErrors || r.o.NeverResolve {
		r.faults = append(r.faults, &fault{rec.Name, f})
		return
	}
	switch rec.State {
	case Running:
		rec.Failure = f
		r.set(i, FailureState)
	case Reverting:
		rec.RevertFailure = f
		r.set(i, RevertFailure)
		r.faults = append(r.faults, &fault{rec.Name, f})
	default:
		r.revertCauses = append(r.revertCauses, f)
	}
	r.revertAll()
}

// markWaiting records that a RUNNING atom waits.
func (r *Runner) markWaiting(i int32) {
	r.waiting[i] = true
	rec := &r.recs[i]
	if rec.Intention != Execute {
		r.unwanted = append(r.unwanted, i)
	}
	if name := rec.Awaits; name != "" {
		if r.callers[name] == nil {
			r.callers[name] = map[int32]bool{}
		}
		r.callers[name][i] = true
		if r.inbox.hasUnreserved(name) {
			r.arrived = append(r.arrived, name)
		}
	}
	r.setTimer(i)
}

// endWaiting ends the waiting of atoms whose intention is no longer EXECUTE.
func (r *Runner) endWaiting() {
	unwanted := r.unwanted
	r.unwanted = nil
	slices.Sort(unwanted)
	for _, i := range unwanted {
		rec := &r.recs[i]
		if rec.Intention == Execute || !r.waiting[i] {
			continue
		}
		delete(r.waiting, i)
		if rec.Failure == nil {
			rec.Failure = newFailure(TypeCancelled, "%s was waiting when something else failed", rec.Name)
		}
		rec.Waits, rec.Due, rec.Awaits, rec.Ended = false, time.Time{}, "", r.o.Now()
		r.set(i, FailureState)
	}
}

// arguments collects the arguments of an atom.
func (r *Runner) arguments(i int32, a *Args) (Values, error) {
	if len(a.Requires)+len(a.Optional)+len(a.Inject) == 0 {
		return nil, nil
	}
	all := make(Values, len(a.Requires)+len(a.Optional)+len(a.Inject))
	for _, arg := range a.Requires {
		if _, given := a.Inject[arg]; given {
			continue
		}
		v, ok := r.lookup(i, a.stored(arg))
		if !ok {
			return nil, wrong(ErrNotFound, []string{r.recs[i].Name},
				"%s needs %q for its argument %q, which has no value", r.recs[i].Name, a.stored(arg), arg)
		}
		all[arg] = v
	}
	for arg, usual := range a.Optional {
		if v, ok := r.lookup(i, a.stored(arg)); ok {
			all[arg] = v
		} else if usual != nil {
			all[arg] = usual
		}
	}
	for arg, v := range a.Inject {
		all[arg] = v
	}
	return all, nil
}

// lookup finds a value for an atom: a value of the flow, or the result of the nearest atom before it.
func (r *Runner) lookup(i int32, name string) (v Value, ok bool) {
	if v, ok := r.injected[name]; ok {
		return v, true
	}
	decides := -1
	r.plan.providers(i, name, func(scope int, atom int32) bool {
		if decides >= 0 && scope != decides {
			return true
		}
		if r.recs[atom].State == Ignore {
			return false
		}
		decides = scope
		v, ok = r.result(atom, name)
		return ok
	})
	return v, ok
}

// newCall makes the Call of an atom.
func (r *Runner) newCall(i int32, undo bool) (*Call, error) {
	n, rec := &r.plan.nodes[i], &r.recs[i]
	a := n.args
	if undo && n.task != nil {
		a = n.task.undo()
	}
	args, err := r.arguments(i, a)
	if err != nil {
		return nil, err
	}
	due := rec.Due
	if rec.State == Running && rec.Failure != nil { // it is the end of a pause after a failure, not of an Await
		due = time.Time{}
	}
	c := &Call{
		Atom: rec.Name, Flow: r.plan.name, Attempt: max(rec.Attempts, 1), History: slices.Clone(rec.History),
		args: args, id: r.o.ID, due: due, now: r.o.Now, log: r.o.Log,
	}
	if undo {
		c.Failure = rec.Failure
		if rec.Result != nil {
			c.Result = *rec.Result
		}
	}
	box, takes := r.inbox, !undo && n.task != nil
	c.signal = func(name string) (Value, bool) { return box.read(i, name, takes) }
	c.progress = r.progressOf(i)
	return c, nil
}

// reasons returns the failures of atoms so far. All reverts share the map until it changes: a flow may have thousands
// of reverts and thousands of failures.
func (r *Runner) reasons() map[string]*Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reasonsByAtom == nil {
		r.reasonsByAtom = make(map[string]*Failure, len(r.failing))
		for i, f := range r.failing {
			r.reasonsByAtom[r.recs[i].Name] = f
		}
	}
	return r.reasonsByAtom
}

// progressOf returns the function with which a task reports its progress.
func (r *Runner) progressOf(i int32) func(float64, any) {
	mail, generation := r.mail.Load(), r.generation
	name, kind := r.recs[i].Name, r.recs[i].Kind
	state, attempt := r.recs[i].State, r.recs[i].Attempts
	return func(part float64, details any) {
		if p := clamp(part); p != part {
			r.o.Log.Warn("progress is a number from 0 to 1", "flow", r.o.ID, "atom", name, "progress", fmt.Sprint(part))
			part = p
		}
		if k, ok := r.o.Storage.(Encoder); ok && details != nil {
			kept, err := guard(context.Background(), func(context.Context, *Call) (any, error) {
				return k.Encode(ValueOf(details))
			}, &Call{Atom: name})
			if err != nil {
				r.o.Log.Warn("the details of a task's progress cannot be stored", "flow", r.o.ID, "atom", name,
					"err", err)
				kept = nil
			}
			details = kept
		}
		if r.o.Workers == nil { // the task runs in the goroutine of the flow: it notifies the listeners itself
			e := Event{Flow: r.plan.name, ID: r.o.ID, Atom: name, Kind: kind, Old: state, New: state,
				Within: Progressed, Progress: part, At: r.o.Now()}
			if details != nil {
				v := ValueOf(details)
				e.Details = &v
			}
			r.callListeners(e)
		}
		mail.post(parcel{isProgress: true, atom: i, progress: part, details: details, state: state, attempt: attempt,
			generation: generation})
	}
}
