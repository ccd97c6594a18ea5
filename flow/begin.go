package flow

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/stagepost/stagepost/lifecycle"
)

// storageError marks an error of the storage. After it the memory of the Runner may differ from what is stored.
type storageError struct{ err error }

func (e *storageError) Error() string { return e.err.Error() }
func (e *storageError) Unwrap() error { return e.err }

func storageErr(err error) error {
	var broken *storageError
	if errors.As(err, &broken) {
		return broken.err
	}
	return err
}

// load reads the stored records and matches them with the flow. Errors: the storage's, [ErrDuplicate], [ErrChanged].
func (r *Runner) load(ctx context.Context) error {
	if r.loaded {
		return nil
	}
	snap := &Snapshot{}
	if r.o.Storage != nil {
		var err error
		if snap, err = r.o.Storage.Load(ctx); err != nil {
			return err
		}
	}
	if snap.State == "" {
		snap.State = Pending
	}
	diff, err := r.match(snap)
	if err != nil {
		r.recs = nil
		return err
	}
	r.injected, r.inbox, r.taken = snap.Injected, newInbox(snap.Signals), nil
	r.setState(snap.State)
	if len(r.o.Inject) > 0 {
		after := maps.Clone(r.injected)
		if after == nil {
			after = map[string]Value{}
		}
		maps.Copy(after, wrapValues(r.o.Inject))
		r.injected = after
	}
	r.gauge = newGauge(r.plan, r.recs)
	r.active, r.waiting, r.timers, r.again = map[int32]func() bool{}, map[int32]bool{}, nil, map[int32]bool{}
	r.unbegun, r.unwanted, r.callers, r.arrived = map[int32]bool{}, nil, map[string]map[int32]bool{}, nil
	r.faults, r.revertCauses, r.limits = nil, nil, map[int32]*Failure{}
	if diff != nil {
		if err := r.upgrade(diff); err != nil {
			return err
		}
	}
	r.loaded = true
	if (snap.State == Running || snap.State == Suspending) && !snap.Live {
		err = r.move(ctx, eventResume, Resuming, nil)
	}
	if err == nil && r.state == Resuming {
		err = r.move(ctx, Park, Suspended, nil)
	}
	if err != nil {
		r.loaded = false
	}
	return err
}

// match fills r.recs with the stored records, and with new ones for atoms that have none. It returns the differences
// between the flow and what is stored, or nil.
func (r *Runner) match(snap *Snapshot) (*Difference, error) {
	r.forget()
	r.unstored = len(snap.Atoms) == 0
	stored := make(map[string]*Record, len(snap.Atoms))
	for i := range snap.Atoms {
		stored[snap.Atoms[i].Name] = &snap.Atoms[i]
	}
	diff := &Difference{}
	for _, i := range r.plan.atoms {
		n := &r.plan.nodes[i]
		rec, version := r.find(stored, n, diff)
		if rec == nil {
			r.recs[i] = Record{Name: n.name, Kind: n.atomKind(), Version: version, State: Pending, Intention: Execute}
			r.markDirty(i)
			if !r.unstored {
				diff.Added = append(diff.Added, n.name)
			}
			continue
		}
		if rec.Kind != n.atomKind() {
			return nil, wrong(ErrDuplicate, []string{n.name}, "%s is stored as a %s, and is a %s now", n.name, rec.Kind,
				n.atomKind())
		}
		r.takeUp(i, rec, version, diff)
		delete(stored, rec.Name)
	}
	for _, i := range r.plan.atoms { // records under earlier names
		for _, old := range r.plan.nodes[i].was() {
			delete(stored, old)
		}
	}
	for i := range snap.Atoms {
		if rec := &snap.Atoms[i]; stored[rec.Name] == rec {
			diff.Removed = append(diff.Removed, Removed{rec.Name, rec.Kind, rec.State})
			r.removed = append(r.removed, *rec)
		}
	}
	r.outline = nil
	if r.o.Storage != nil {
		if now := outline(r.plan.root); !now.same(snap.Outline) {
			r.outline, diff.Shape = now, r.reshaped(snap.Outline, now, diff)
		}
	}
	if diff.empty() {
		return nil, nil
	}
	return diff, nil
}

// forget drops what is known of an earlier flow, and allocates the records of this one.
func (r *Runner) forget() {
	r.recs = make([]Record, len(r.plan.nodes))
	r.isDirty, r.dirty, r.removed, r.removedDirty, r.failing = make([]bool, len(r.plan.nodes)), nil, nil, nil,
		map[int32]*Failure{}
	r.reasonsByAtom, r.revertingAfter = nil, map[int32]bool{}
}

// takeUp makes a stored record that of atom i, under the name and version that the atom has now.
func (r *Runner) takeUp(i int32, rec *Record, version string, diff *Difference) {
	name := r.plan.nodes[i].name
	r.recs[i] = *rec
	if rec.Failure != nil && rec.State != Running {
		r.failing[i] = rec.Failure
	}
	if rec.Result == nil && rec.Kind == KindTask &&
		(rec.State == Success || rec.State == Reverting && rec.Failure == nil) {
		r.recs[i].Result = &Value{} // JSON has a null result as none
	}
	if rec.Version != version {
		diff.Versions = append(diff.Versions, VersionChange{name, rec.Version, version, rec.State})
		r.recs[i].Version = version
		r.markDirty(i)
	}
	if rec.Name != name {
		r.recs[i].Name = name
		r.markDirty(i)
	}
}

// find returns the stored record of an atom, by its name or an earlier one, and the atom's version.
func (r *Runner) find(stored map[string]*Record, n *node, diff *Difference) (*Record, string) {
	version := n.version()
	if rec := stored[n.name]; rec != nil {
		return rec, version
	}
	for _, old := range n.was() {
		if _, taken := r.plan.byName[old]; taken { // by an atom of the flow as it is now
			continue
		}
		if rec := stored[old]; rec != nil {
			diff.Renamed = append(diff.Renamed, Renamed{old, n.name})
			return rec, version
		}
	}
	return nil, version
}

// beginRun brings the flow to RUNNING. Errors: those of load, [ErrMissing], [ErrState].
func (r *Runner) beginRun(ctx context.Context) error {
	if err := r.load(ctx); err != nil {
		return err
	}
	if r.state == Success || r.state == Reverted {
		r.ending.Store(nil)
	}
	if r.state == Reverted {
		if err := r.reset(ctx); err != nil {
			return err
		}
	}
	if err := r.plan.checkProvided(r.injected); err != nil {
		return err
	}
	if r.unstored && len(r.injected) > 0 { // in a later run only the task that cannot use a value fails
		if err := r.plan.checkInjected(r.injected); err != nil {
			return err
		}
	}
	if r.state == Running || r.state == Suspending {
		return nil
	}
	r.faults, r.revertCauses, r.acceptedEnding = nil, nil, nil
	if r.state == FailureState {
		for _, i := range r.plan.atoms {
			switch rec := &r.recs[i]; {
			case rec.State == RevertFailure:
				r.again[i] = true
				r.gauge.recheck(i)
			case rec.State == FailureState && rec.Intention == Execute && rec.Failure != nil &&
				rec.Failure.Type == TypeInterrupted && !r.isEnding():
				r.resetAtom(i) // it continues where it was ended
			}
		}
	}
	for _, i := range r.plan.atoms { // atoms may be ready that were ready when the flow was suspended
		r.gauge.recheck(i)
	}
	return r.move(ctx, Run, Running, nil)
}

// move changes the flow's state, stores it with all dirty records, and notifies the listeners.
func (r *Runner) move(ctx context.Context, e lifecycle.Event, to lifecycle.State, why error) error {
	from := r.state
	change := statePair{From: from, To: to}
	if change.isIgnored() {
		return nil
	}
	if a, legal := Life.Transition(from, e); !legal || a.To != to {
		return &StateError{Kind: "Flow", Name: r.plan.name, From: from, To: to}
	}
	if err := r.commit(ctx, &Transition{Event: e, From: from, To: to}, why); err != nil {
		return err
	}
	if err := r.notifyAll(ctx); err != nil {
		return err
	}
	r.notify(Event{Old: from, New: to})
	return nil
}

// commit stores the dirty records and the flow's new state, if it changes. Listeners are notified after it.
func (r *Runner) commit(ctx context.Context, move *Transition, why error) error {
	if move == nil && len(r.dirty) == 0 {
		return nil
	}
	c := &Commit{Move: move, Err: why, Ending: r.acceptedEnding, Taken: r.taken, Created: r.unstored}
	if r.o.Storage != nil {
		slices.Sort(r.dirty)
		c.Atoms = make([]Record, 0, len(r.dirty))
		for _, i := range r.dirty {
			c.Atoms = append(c.Atoms, r.recs[i])
		}
		c.Atoms = append(c.Atoms, r.removedDirty...)
		c.Outline = r.outline
		if r.unstored && len(r.injected) > 0 {
			c.Injected = r.injected
		}
	}
	if err := r.save(ctx, c); err != nil {
		return err
	}
	for _, i := range r.dirty {
		r.isDirty[i] = false
	}
	r.dirty, r.unstored, r.taken = r.dirty[:0], false, nil
	r.removedDirty, r.outline = nil, nil
	if move != nil {
		r.setState(move.To)
	}
	return nil
}

// setState is called with mu.
func (r *Runner) setState(s lifecycle.State) {
	r.state = s
	r.isRunning.Store(s == Running)
}

// save passes a commit to the storage, also when the run's context has ended: the storage decides whether the claim is
// still valid.
func (r *Runner) save(ctx context.Context, c *Commit) error {
	if r.o.Storage == nil {
		return nil
	}
	if err := r.o.Storage.Save(context.WithoutCancel(ctx), c); err != nil {
		return &storageError{err}
	}
	return nil
}

func (r *Runner) markDirty(i int32) {
	f := r.recs[i].Failure
	if r.recs[i].State == Running { // it is repeated because of its Attempts
		f = nil
	}
	switch {
	case f == r.failing[i]:
	case f == nil:
		delete(r.failing, i)
		r.reasonsByAtom = nil
	default:
		r.failing[i], r.reasonsByAtom = f, nil
	}
	if !r.isDirty[i] {
		r.isDirty[i] = true
		r.dirty = append(r.dirty, i)
	}
}
