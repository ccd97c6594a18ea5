package flow

import (
	"context"
	"slices"

	"github.com/stagepost/stagepost/lifecycle"
)

// finish finds out how the run ends.
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
	case good && len(r.revertErrors) == 0:
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

// checkReverted gives why a flow is not REVERTED although nothing is left to do: an atom that can never be done and that
// nothing before it, abandoned, keeps from being done, as only storage that somebody damaged has it. What comes after
// two parts, of which one was abandoned before the other was tried again, is PENDING to be executed: the second part
// put it back there.
func (r *Runner) checkReverted() error {
	// something before it was abandoned; nodes stand in the order of their links
	barred := make([]bool, len(r.plan.nodes))
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

// checkRemoved gives why a flow is not REVERTED although all that it has is: tasks that it no longer has were done, and
// nothing can revert them. They are stored as what is to be reverted, so that a person can do it and state that.
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
		f.All = append(f.All, newFailure(TypeRemoved,
			"%s is %s and was removed from the flow: nothing reverts it; revert it by hand and mark it, or run the "+
				"flow with it",
			rec.Name, rec.State))
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
	if r.hasFaults() { // as when a decider gave the context's error: the next run finds out whether it is so
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

// moveToEnd moves the flow to where its run ends, and gives why.
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

// canContinue reports whether an atom could be executed or reverted. Deciders are not asked.
func (r *Runner) canContinue() bool {
	return slices.ContainsFunc(r.plan.atoms, func(i int32) bool {
		return r.executable(i) || r.revertible(i) || r.recs[i].State == Running || r.recs[i].State == Reverting
	})
}

// rest states what the flow waits for.
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

// runError gives the error of a flow that did not succeed.
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
		for _, one := range r.revertErrors {
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
