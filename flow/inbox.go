package flow

import (
	"slices"
	"sync"
)

// KeptSignal is a signal of a flow that is not taken yet.
type KeptSignal struct {
	ID    string // unique in the flow, also among taken signals
	Value Value
}

// inbox has the signals of a flow: a queue for each name. A task that reads a signal reserves it. The commit of its
// result takes the signal.
type inbox struct {
	mu   sync.Mutex // guards the rest
	open map[string][]KeptSignal
	seen map[string]bool             // ids
	by   map[int32]map[string]string // atom, name: the id that it reserved
	held map[string]bool             // ids that are reserved
}

func newInbox(open map[string][]KeptSignal) *inbox {
	b := &inbox{open: map[string][]KeptSignal{}, seen: map[string]bool{}, by: map[int32]map[string]string{},
		held: map[string]bool{}}
	for name, all := range open {
		for _, s := range all {
			b.add(name, s)
		}
	}
	return b
}

// add appends a signal to its queue, unless its id is known.
func (b *inbox) add(name string, s KeptSignal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.seen[s.ID] {
		b.seen[s.ID] = true
		b.open[name] = append(b.open[name], s)
	}
}

// hasUnreserved reports whether there is a signal of a name that is not reserved.
func (b *inbox) hasUnreserved(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.open[name], func(s KeptSignal) bool { return !b.held[s.ID] })
}

// read returns the first signal of a name that the atom may read. With reserve it reserves the signal for the atom.
func (b *inbox) read(atom int32, name string, reserve bool) (Value, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.by[atom][name]
	for _, s := range b.open[name] {
		if s.ID == own || own == "" && !b.held[s.ID] {
			if reserve && own == "" {
				if b.by[atom] == nil {
					b.by[atom] = map[string]string{}
				}
				b.by[atom][name], b.held[s.ID] = s.ID, true
			}
			return s.Value, true
		}
	}
	return Value{}, false
}

// takeReserved removes the signals that an atom reserved. It returns their ids.
func (b *inbox) takeReserved(atom int32) (ids []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, id := range b.by[atom] {
		b.open[name] = slices.DeleteFunc(b.open[name], func(s KeptSignal) bool { return s.ID == id })
		delete(b.held, id)
		ids = append(ids, id)
	}
	delete(b.by, atom)
	return ids
}

// unreserve releases the signals that an atom reserved. It returns their names.
func (b *inbox) unreserve(atom int32) (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, id := range b.by[atom] {
		delete(b.held, id)
		names = append(names, name)
	}
	delete(b.by, atom)
	return names
}

// takeSignals takes the signals that an execution reserved if the execution has ended, and releases them otherwise.
func (r *Runner) takeSignals(i int32) {
	if s := r.recs[i].State; s == Success || s == FailureState {
		r.taken = append(r.taken, r.inbox.takeReserved(i)...)
		return
	}
	r.arrived = append(r.arrived, r.inbox.unreserve(i)...)
}
