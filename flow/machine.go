package flow

import (
	"cmp"
	"container/heap"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// The states of the machine, as in TaskFlow. They are neither stored nor reported.
const (
	resuming     = "RESUMING"
	scheduling   = "SCHEDULING"
	waitingState = "WAITING"
	analyzing    = "ANALYZING"
)

// planned is an atom that the last commit moved to RUNNING or REVERTING and that is neither reported nor started yet.
// One commit stores the end of one task and the start of the next. If the flow is suspended in between, undoPlanned
// undoes the move.
type planned struct {
	work
	before Record
	events []Event
	moved  bool
}

// work is one execution or revert of an atom.
type work struct {
	atom int32
	undo bool
}

func (r *Runner) enter(ctx context.Context, state string) error {
	if r.o.machine != nil {
		r.unlocked(func() { r.o.machine(state) })
	}
	return r.acceptSuspend(ctx)
}

// machine runs the cycle of the flow: start ready atoms, wait for an outcome, store it, and decide. It returns a Rest
// if no task is active and the flow waits.
func (r *Runner) machine(ctx context.Context) (*Rest, error) {
	if err := r.enter(ctx, resuming); err != nil {
		return nil, err
	}
	if err := r.resume(ctx); err != nil {
		return nil, err
	}
	for again := true; again; {
		if err := r.enter(ctx, scheduling); err != nil {
			return nil, err
		}
		if err := r.schedule(ctx); err != nil {
			return nil, err
		}
		for {
			if err := r.enter(ctx, waitingState); err != nil {
				return nil, err
			}
			last, err := r.awaitOutcomes(ctx)
			if err != nil {
				return nil, err
			}
			if err := r.enter(ctx, analyzing); err != nil {
				return nil, err
			}
			if again, err = r.analyze(ctx, last); err != nil {
				return nil, err
			}
			if again = again || r.hasNewEnding(ctx); again || len(r.active)+len(r.queue) == 0 {
				break
			}
		}
	}
	return r.finish(ctx)
}

// resume continues the atoms that an earlier run left.
func (r *Runner) resume(ctx context.Context) error {
	if r.acceptEnding(ctx); !r.o.NeverResolve && !r.isEnding() {
		for _, i := range r.plan.atoms {
			if rec := &r.recs[i]; rec.State == FailureState && (rec.Intention == Execute || r.isReported(i)) {
				r.resolve(ctx, i, rec.Failure)
			}
		}
	}
	for _, i := range r.plan.atoms {
		if r.recs[i].State == Retrying && !r.isEnding() {
			r.retrySubflow(i)
		}
	}
	var left []work
	for _, i := range r.plan.atoms {
		rec := &r.recs[i]
		switch {
		case rec.State == Running && rec.Waits:
			if !r.waiting[i] {
				r.markWaiting(i)
			}
		case rec.State == Running:
			left = append(left, work{i, false})
		case rec.State == Reverting:
			left = append(left, work{i, true})
		case rec.State == Success && rec.Due.After(r.o.Now()) && rec.Intention == ToRetry && r.revertible(i):
			heap.Push(&r.timers, timer{rec.Due, i})
		}
	}
	r.endWaiting()
	var late []*outcome // of tasks that an earlier run left behind: they are executed again
	r.readMail(&late)
	r.resumeWaiting(ctx)
	return r.prepare(ctx, left)
}

// prepare finds the ready atoms, moves them, and stores all changes. Atoms left by an earlier run start together with
// them; they are reported again only if they had made progress.
func (r *Runner) prepare(ctx context.Context, left []work) error {
	reported := r.events
	r.events = nil
	var moves []work
	if r.acceptedEnding == nil || !r.acceptedEnding.Keep { // else the next run examines what is ready
		moves = r.ready(ctx)
	}
	reported = append(reported, r.events...) // of the atoms that deciders ignored
	r.events = nil
	if len(r.faults) > 0 || r.requested.Load() == requestStop || ctx.Err() != nil || r.state != Running {
		for _, w := range moves {
			r.gauge.recheck(w.atom) // the next run examines it
		}
		moves, left = nil, nil
	}
	all := append(left, moves...)
	slices.SortStableFunc(all, func(a, b work) int {
		return cmp.Or(cmp.Compare(r.plan.nodes[b.atom].priority, r.plan.nodes[a.atom].priority),
			cmp.Compare(a.atom, b.atom))
	})
	later := slices.ContainsFunc(all, func(w work) bool { return r.recs[w.atom].Intention == ToRetry && w.undo })
	for _, w := range all {
		p := planned{work: w, before: r.recs[w.atom], moved: !later}
		if !later { // the move of a retry cannot be undone: schedule makes it
			r.moveAtom(w)
		}
		p.events, r.events = r.events, nil
		r.planned = append(r.planned, p)
	}
	r.events = reported
	if err := r.commit(ctx, nil, nil); err != nil {
		return err
	}
	return r.notifyAll(ctx)
}

// moveAtom moves an atom to RUNNING or REVERTING.
func (r *Runner) moveAtom(w work) {
	rec := &r.recs[w.atom]
	old := rec.State
	switch {
	case rec.State == Running, rec.State == Reverting: // left by an earlier run
		if rec.Progress != 0 {
			rec.Progress = 0
			r.markDirty(w.atom)
			r.addEvents(w.atom, old)
		}
		return
	case w.undo && rec.Intention == ToRetry:
		rec.Due = time.Time{}
		if !r.set(w.atom, Retrying) {
			return
		}
		r.retrySubflow(w.atom)
		r.startAtom(w.atom, Running)
	case w.undo:
		delete(r.again, w.atom)
		rec.RevertFailure = nil
		r.startAtom(w.atom, Reverting)
	default:
		r.startAtom(w.atom, Running)
	}
}

func (r *Runner) startAtom(i int32, to lifecycle.State) {
	rec := &r.recs[i]
	if to == Running {
		rec.Attempts++
		rec.Tries = 0
		r.unbegun[i] = true
	}
	switch {
	case to == Running:
		rec.ExecuteBegan, rec.ExecuteEnded = time.Time{}, time.Time{}
	case rec.State == Success || rec.State == FailureState: // else a revert is repeated
		rec.ExecuteBegan, rec.ExecuteEnded = rec.Began, rec.Ended
	}
	rec.Progress, rec.Details, rec.Began, rec.Ended = 0, nil, r.o.Now(), time.Time{}
	r.set(i, to)
}

// ready returns the executions and reverts that can start. It calls the deciders. An atom that they ignore may make
// further atoms ready.
func (r *Runner) ready(ctx context.Context) []work {
	var all []work
	for changed := r.gauge.takeChanged(); len(changed) > 0; changed = r.gauge.takeChanged() {
		slices.Sort(changed)
		for _, i := range changed {
			if r.gauge.isNew[i] { // a decider has ignored an atom before it: the next round examines it
				continue
			}
			rec := &r.recs[i]
			switch {
			case r.executable(i):
				if len(r.faults) == 0 && r.askDeciders(ctx, i) {
					all = append(all, work{i, false})
				}
			case r.revertible(i) && rec.Due.After(r.o.Now()) && rec.Intention == ToRetry:
				heap.Push(&r.timers, timer{rec.Due, i})
			case r.revertible(i):
				all = append(all, work{i, true})
			}
		}
	}
	slices.SortFunc(all, func(a, b work) int { return cmp.Compare(a.atom, b.atom) })
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(w work) bool { // atoms that were ignored meanwhile
		return !r.executable(w.atom) && !r.revertible(w.atom)
	})
}

func (r *Runner) executable(i int32) bool {
	rec := &r.recs[i]
	return (rec.State == Pending || rec.State == Retrying) && rec.Intention == Execute && r.gauge.unclear[i] == 0
}

func (r *Runner) revertible(i int32) bool {
	rec := &r.recs[i]
	if r.gauge.unquiet[i] > 0 {
		return false
	}
	switch rec.Intention {
	case ToRetry:
		return rec.State == Success || rec.State == FailureState
	case ToRevert:
		return rec.State == Success || rec.State == FailureState || rec.State == RevertFailure && r.again[i]
	}
	return false
}

// askDeciders calls the deciders on the links to an atom and ignores the atoms that they refuse. It reports whether the
// atom is executed.
func (r *Runner) askDeciders(ctx context.Context, i int32) bool {
	gates := r.plan.gatesOf(i)
	if len(gates) == 0 || r.recs[i].State == Retrying {
		return true
	}
	results := Values{}
	for _, g := range gates {
		if n := &r.plan.nodes[g.from]; n.isAtom() && r.recs[g.from].State != Ignore {
			results[n.name] = r.resultValue(g.from)
		}
	}
	depth := Depth("")
	for _, g := range gates {
		if n := &r.plan.nodes[g.from]; n.isAtom() && r.recs[g.from].State == Ignore {
			continue // it counts as true
		}
		yes, err := r.askDecider(g.decider, results.clone())
		if err != nil {
			r.addFault(i, err)
			return false
		}
		if !yes && g.depth.width() > depth.width() {
			depth = g.depth
		}
	}
	if depth == "" {
		return true
	}
	for _, k := range r.plan.ignoredFrom(i, depth) {
		if r.recs[k].State == Pending {
			r.set(k, Ignore)
			r.setIntention(k, ToIgnore)
		}
	}
	return false
}

// resultValue returns the whole result of an atom.
func (r *Runner) resultValue(i int32) any {
	rec := &r.recs[i]
	switch {
	case rec.Kind == KindRetry && len(rec.History) > 0:
		return rec.History[len(rec.History)-1].Value.Any()
	case rec.Result != nil:
		return rec.Result.Any()
	}
	return nil
}

func (r *Runner) askDecider(d Decider, results Values) (yes bool, err error) {
	if panicked := r.callUser("a decider", func() { yes, err = d(results); err = asFailure(err) }); panicked != nil {
		return false, panicked
	}
	return yes, err
}

// schedule reports the planned moves and starts their work, or undoes them if the flow is suspended or ended.
func (r *Runner) schedule(ctx context.Context) error {
	if r.state != Running || r.requested.Load() == requestStop || ctx.Err() != nil {
		r.undoPlanned()
		return nil
	}
	if r.hasNewEnding(ctx) { // accepted when no work is planned
		r.undoPlanned()
		return nil
	}
	all := r.planned
	r.planned = nil
	if len(all) > 0 && !all[0].moved {
		for k := range all {
			r.moveAtom(all[k].work)
			all[k].undo = r.recs[all[k].atom].State == Reverting
			all[k].events, r.events = r.events, nil
		}
		if err := r.commit(ctx, nil, nil); err != nil {
			return err
		}
	}
	var late []Event // of work that could not start; not stored yet
	for _, p := range all {
		if (r.hasFaults() || r.isEnding() && (!p.undo || r.ending.Load().Keep)) && p.before.Intention != ToRetry {
			r.planned = append(r.planned, p)
			continue
		}
		r.events = p.events
		if err := r.notifyAll(ctx); err != nil {
			return err
		}
		if !r.hasFaults() && (p.undo || !r.isEnding()) { // else a controller stays RUNNING until the next run
			r.submit(ctx, p.work)
		}
		late, r.events = append(late, r.events...), nil
	}
	r.undoPlanned()
	r.events = late
	return nil
}

// undoPlanned undoes the planned moves, which were not reported.
func (r *Runner) undoPlanned() {
	for _, p := range r.planned {
		if r.recs[p.atom].State != p.before.State {
			p.before.Intention = r.recs[p.atom].Intention // an error of the flow itself may have changed it meanwhile
			r.recs[p.atom] = p.before
			r.markDirty(p.atom)
			r.gauge.update(p.atom, r.recs)
		}
		r.gauge.recheck(p.atom)
	}
	r.planned = nil
}

func (r *Runner) hasFaults() bool { return len(r.faults) > 0 }

// analyze stores the last outcomes, decides what follows, and notifies the listeners. It reports whether there is
// work to start.
func (r *Runner) analyze(ctx context.Context, last []*outcome) (again bool, err error) {
	for _, o := range last {
		r.complete(ctx, o)
	}
	left := r.acceptEnding(ctx)
	for _, o := range last {
		if r.acceptedEnding != nil && ctx.Err() == nil {
			r.closeAtom(o.atom)
		}
	}
	r.endWaiting()
	r.resumeWaiting(ctx)
	if err := r.prepare(ctx, left); err != nil {
		return false, err
	}
	if r.state != Running || r.requested.Load() == requestStop || ctx.Err() != nil {
		r.cancelQueued(ctx)
		r.undoPlanned()
		return false, nil
	}
	return len(r.planned) > 0 && !r.hasFaults(), nil
}

// cancelQueued removes work from the pool that has not started. An atom that an earlier run or attempt may have started
// stays RUNNING: it is executed again or reverted.
func (r *Runner) cancelQueued(ctx context.Context) {
	for _, i := range slices.Sorted(maps.Keys(r.active)) {
		if r.recs[i].State == Reverting && r.rollsBack(ctx) {
			continue
		}
		if cancel := r.active[i]; cancel == nil || !cancel() {
			continue
		}
		delete(r.active, i)
		switch rec := &r.recs[i]; {
		case rec.State == Running && r.unbegun[i]:
			rec.Attempts--
			r.set(i, Pending)
		case rec.State == Running && (rec.Awaits != "" || !rec.Due.IsZero()): // it was about to continue
			rec.Waits = true
			r.markWaiting(i)
		}
	}
}
