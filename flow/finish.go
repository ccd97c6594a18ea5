package flow

import (
	"context"
	"slices"

	"github.com/stagepost/stagepost/lifecycle"
)

// finish ends the run, or returns what the flow waits for.
func (r *Runner) finish(ctx context.Context) (*Rest, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, r.leaveRun(ctx, err)
	}
	if r.requested.Load() == requestStop && !r.hasFaults() {
		return nil, r.leaveRun(ctx, wrong(ErrStopped, nil, "the run of %s was stopped", r.plan.name))
	}
	if r.hasFaults() {
		err := r.runError()
		return nil, r.moveToEnd(ctx, Fail, FailureState, err)
	}
	if r.dropTimers(); r.unfinished() {
		return nil, r.moveToEnd(ctx, Fail, FailureState, r.runError())
	}
	if r.state == Running && (len(r.waiting) > 0 || len(r.timers) > 0) {
		return r.rest(), r.commit(ctx, nil, nil)
	}
	if r.canContinue() || len(r.waiting) > 0 || len(r.timers) > 0 {
		return nil, r.moveToEnd(ctx, Park, Suspended, nil)
	}
	good, bad := true, false
	for _, i := range r.plan.atoms {
		s := r.recs[i].State
		good = good && (s == Success || s == Ignore)
		bad = bad || s == FailureState || s == RevertFailure
	}
	switch {
	case good && len(r.revertCauses) == 0:
		return nil, r.moveToEnd(ctx, eventFinish, Success, nil)
	case bad:
		return nil, r.moveToEnd(ctx, Fail, FailureState, r.runError())
	}
	if err := r.checkReverted(); err != nil {
		return nil, r.moveToEnd(ctx, Fail, FailureState, FailureOf(err))
	}
	if err := r.checkRemoved(); err != nil {
		return nil, r.moveToEnd(ctx, Fail, FailureState, err)
	}
	return nil, r.moveToEnd(ctx, eventRevert, Reverted, r.runError())
}

// checkReverted returns an error if nothing is left to do and the flow is not REVERTED: an atom waits to be executed,
// and no reverted atom before it prevents that. Only a damaged storage has such an atom. An atom after two parts of the
// flow may be PENDING: the retry of one part moved it there after the other part was reverted.
func (r *Runner) checkReverted() error {
	barred := make([]bool, len(r.plan.nodes)) // a node before it is reverted; nodes are in topological order
	for i := range r.plan.nodes {
		for _, before := range r.plan.nodes[i].pred {
			barred[i] = barred[i] || barred[before] || r.plan.nodes[before].isAtom() &&
				r.recs[before].Intention == ToRevert
		}
	}
	for _, i := range r.plan.atoms {
		rec, table, kind := &r.recs[i], TaskLife, "Task"
		if rec.Kind == KindRetry {
			table, kind = RetryLife, "Retry"
		}
		_, known := table.Stage(rec.State)
		if !known || rec.Intention == Execute && (rec.State == Reverted || rec.State == Pending && !barred[i]) {
			return &StateError{Kind: kind, Name: rec.Name, From: rec.State, To: Running}
		}
	}
	return nil
}

// checkRemoved returns an error if all atoms of the flow are reverted, but executed tasks are not that the flow no
// longer has. Their records get the intention REVERT, so that a person can revert them manually and mark them.
func (r *Runner) checkRemoved() error {
	f := &Failures{}
	for i := range r.removed {
		rec := &r.removed[i]
		if rec.Kind != KindTask || rec.State == Pending || rec.State == Ignore || rec.State == Reverted {
			continue
		}
		if rec.Intention != ToRevert {
			rec.Intention = ToRevert
			r.removedDirty = append(r.removedDirty, *rec)
		}
		f.Atoms = append(f.Atoms, rec.Name)
		f.All = append(f.All, newFailure(TypeRemoved, "%s is %s and was removed from the flow: nothing reverts it; "+
			"revert it manually and mark it, or run the flow with it", rec.Name, rec.State))
	}
	if len(f.All) == 0 {
		return nil
	}
	switch why := r.runError().(type) {
	case *Failures:
		f.Atoms, f.All = append(slices.Clone(why.Atoms), f.Atoms...), append(slices.Clone(why.All), f.All...)
	case *Failure:
		f.Atoms, f.All = append([]string{""}, f.Atoms...), append([]*Failure{why}, f.All...)
	}
	return f
}

// leaveRun ends the run without ending the flow.
func (r *Runner) leaveRun(ctx context.Context, why error) error {
	r.undoPlanned()
	if r.hasFaults() { // such as the context's error from a decider: the next run repeats the call
		r.faults = nil
		for _, i := range r.plan.atoms {
			r.gauge.recheck(i)
		}
	}
	if err := r.commit(ctx, nil, nil); err != nil {
		return err
	}
	r.events = nil
	return why
}

// moveToEnd moves the flow to the state in which its run ends. It returns why.
func (r *Runner) moveToEnd(ctx context.Context, e lifecycle.Event, to lifecycle.State, why error) error {
	if r.state == Running && to == Suspended { // it has to be SUSPENDING first
		if err := r.move(ctx, Suspend, Suspending, nil); err != nil {
			return err
		}
	}
	if err := r.move(ctx, e, to, why); err != nil {
		return err
	}
	return why
}

// canContinue reports whether an atom could be executed or reverted. It calls no deciders.
func (r *Runner) canContinue() bool {
	return slices.ContainsFunc(r.plan.atoms, func(i int32) bool {
		return r.executable(i) || r.revertible(i) || r.recs[i].State == Running || r.recs[i].State == Reverting
	})
}

// rest returns what the flow waits for.
func (r *Runner) rest() *Rest {
	rest := &Rest{}
	if len(r.timers) > 0 {
		rest.Until = r.timers[0].at
	}
	for _, i := range r.plan.atoms {
		if rec := &r.recs[i]; r.waiting[i] {
			rest.Atoms = append(rest.Atoms, rec.Name)
			if rec.Awaits != "" {
				rest.Signals = append(rest.Signals, rec.Awaits)
			}
		}
	}
	return rest
}

// runError returns the error of a flow that did not succeed.
func (r *Runner) runError() error {
	f := &Failures{}
	add := func(atom string, one *Failure) {
		f.Atoms, f.All = append(f.Atoms, atom), append(f.All, one)
	}
	if e := r.endingFailure(); e != nil {
		add("", e)
	}
	for _, one := range r.faults {
		add(one.atom, one.failure)
	}
	if len(r.faults) == 0 {
		for _, one := range r.revertCauses {
			add("", one)
		}
		records := slices.Clone(r.removed)
		for _, i := range r.plan.atoms {
			records = append(records, r.recs[i])
		}
		for i := range records {
			rec := &records[i]
			if at, there := r.plan.byName[rec.Name]; there && r.limits[at] != nil {
				add(rec.Name, r.limits[at])
			}
			if rec.Failure != nil && rec.Failure.Type != TypeCancelled && rec.Failure.Type != TypeInterrupted {
				add(rec.Name, rec.Failure)
			}
			if rec.RevertFailure != nil {
				add(rec.Name, rec.RevertFailure)
			}
		}
	}
	switch len(f.All) {
	case 0:
		return newFailure("Reverted", "the flow %s was reverted", r.plan.name)
	case 1:
		return f.All[0]
	}
	return f
}
