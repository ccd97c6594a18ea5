package durable

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/job"
)

// View is the present state of a flow, for people and programs that examine it. Its parts are of one moment only if no
// worker has the flow.
type View struct {
	Job     job.Job
	Spec    Spec
	Data    Data
	Outline *flow.Outline // the structure; nil if the flow was never run and its factory is not here
	Atoms   []Atom        // in the order of the flow, then those that it no longer has; none before it is first run
	Signals []Sent        // that no task has taken, the oldest first
	Awaits  []string      // signals that a step waits for now, sorted
	Remains []string      // tasks of a flow in FAILURE whose effects were not reverted: done, failed, or half way
}

// Atom is the record of an atom. Large values are missing in it.
type Atom struct {
	flow.Record
	Large   map[string]Blob // values that were put away: "result", "reverted", "details"; see [Flows.Value]
	Removed bool            // the flow has it no longer
}

// Sent is a signal that the flow has.
type Sent struct {
	Name  string
	Value *flow.Value // nil if it was put away
	Large *Blob
	Actor string
	At    time.Time
}

// Open reads a flow. Errors: NotFound; Invalid for other jobs; Internal for what cannot be read.
func Open(ctx context.Context, store job.Store, id job.ID) (*View, error) {
	j, err := store.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	v := &View{Job: j}
	if v.Spec, err = SpecOf(&j); err != nil {
		return nil, err
	}
	if v.Data, err = DataOf(&j); err != nil {
		return nil, err
	}
	if v.Data.Name == "" {
		v.Data.Name = v.Spec.Name
	}
	tasks, err := store.Tasks(ctx, id)
	if err != nil {
		return nil, err
	}
	for i := range tasks {
		if err := v.add(&tasks[i]); err != nil {
			return nil, err
		}
	}
	v.arrange()
	return v, nil
}

// View is Open that asks the factory for the structure of a flow that was never run.
func (f *Flows) View(ctx context.Context, store job.Store, id job.ID) (*View, error) {
	v, err := Open(ctx, store, id)
	if err != nil || v.Outline != nil || f.o.Factories[v.Spec.Factory] == nil {
		return v, err
	}
	if item, err := f.build(&v.Spec); err == nil { // else the flow states that itself when it is run
		v.Outline, _ = flow.OutlineOf(item) // build has made one
		v.arrange()
	}
	return v, nil
}

// add takes in a task.
func (v *View) add(t *job.Task) error {
	switch {
	case isAtom(t):
		r, d, err := atom(v.Job.ID, t)
		if err != nil {
			return err
		}
		a := Atom{Record: r}
		a.Result, a.Reverted, a.Details = a.shown("result", d.Result), a.shown("reverted", d.Reverted),
			a.shown("details", d.Details)
		for _, h := range d.History {
			one := flow.Attempt{Failures: h.Failures}
			if h.Value.Digest == "" {
				one.Value = valueOf(h.Value.Value)
			}
			a.History = append(a.History, one)
		}
		v.Atoms = append(v.Atoms, a)
	case t.Kind == kindSignal && t.State == sent:
		var s storedSignal
		if err := json.Unmarshal(t.Data, &s); err != nil {
			return job.Errorf(job.Internal, "decode", v.Job.ID, "%s: %w", t.Name, err)
		}
		one := Sent{Name: s.Name, Actor: s.Actor, At: s.At}
		if s.Digest != "" {
			one.Large = &Blob{s.Digest, s.Size}
		} else {
			value := valueOf(s.Value)
			one.Value = &value
		}
		v.Signals = append(v.Signals, one)
	case t.Kind == kindOutline:
		if err := json.Unmarshal(t.Data, &v.Outline); err != nil {
			return job.Errorf(job.Internal, "decode", v.Job.ID, "the outline: %w", err)
		}
	}
	return nil
}

// shown gives a value that stands in the record, and notes one that does not.
func (a *Atom) shown(name string, s *stored) *flow.Value {
	switch {
	case s == nil:
		return nil
	case s.Digest != "":
		if a.Large == nil {
			a.Large = map[string]Blob{}
		}
		a.Large[name] = Blob{s.Digest, s.Size}
		return nil
	}
	value := valueOf(s.Value)
	return &value
}

// arrange puts the atoms in the order of the flow, and finds what follows from them.
func (v *View) arrange() {
	if v.Outline != nil {
		at := map[string]int{}
		for i, name := range v.Outline.Atoms() {
			at[name] = i + 1
		}
		for i := range v.Atoms {
			v.Atoms[i].Removed = at[v.Atoms[i].Name] == 0
		}
		place := func(a *Atom) int {
			if a.Removed {
				return len(at) + 1
			}
			return at[a.Name]
		}
		slices.SortStableFunc(v.Atoms, func(a, b Atom) int { return place(&a) - place(&b) })
	}
	v.Awaits, v.Remains = nil, nil
	for i := range v.Atoms {
		a := &v.Atoms[i]
		if a.State == flow.Running && a.Waits && a.Awaits != "" {
			v.Awaits = append(v.Awaits, a.Awaits)
		}
		if v.Job.State == flow.FailureState && a.Kind == flow.KindTask && remain(a.State) {
			v.Remains = append(v.Remains, a.Name)
		}
	}
	slices.Sort(v.Awaits)
	v.Awaits = slices.Compact(v.Awaits)
}
