package flowtest

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/quantity"
)

// Timing measures how long flows and their atoms are in their states. The zero Timing works; give its Listen to
// [flow.Options.Listeners] of any number of flows.
type Timing struct {
	mu    sync.Mutex // guards the rest
	since map[who]time.Time
	began map[string]time.Time // of flows, by id
	spans map[spanOf]*Span
	order map[who]int
}

// who is a flow (no atom) or one of its atoms.
type who struct{ id, atom string }

// spanOf is the key of a Span.
type spanOf struct {
	who
	state lifecycle.State
}

// Span is how long, and how often, a job was in a state that has ended.
type Span struct {
	ID    string    // of the flow
	Atom  string    // empty: the flow itself
	Kind  flow.Kind // of the atom
	State lifecycle.State
	Times int
	Took  time.Duration // in all
}

// Listen is a [flow.Listener].
func (t *Timing) Listen(e flow.Event) {
	if e.Within != "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since == nil {
		t.since, t.began, t.spans, t.order = map[who]time.Time{}, map[string]time.Time{}, map[spanOf]*Span{},
			map[who]int{}
	}
	if _, there := t.began[e.ID]; !there {
		t.began[e.ID] = e.At
	}
	w := who{e.ID, e.Atom}
	from, there := t.since[w]
	if !there {
		from, t.order[w] = t.began[e.ID], len(t.order)
	}
	t.since[w] = e.At
	k := spanOf{w, e.Old}
	s := t.spans[k]
	if s == nil {
		s = &Span{ID: e.ID, Atom: e.Atom, Kind: e.Kind, State: e.Old}
		t.spans[k] = s
	}
	s.Times++
	s.Took += max(e.At.Sub(from), 0)
}

// Spans gives what was measured: flow by flow, atoms in the order in which they were first received. States that last
// are not among it. What went before the first event of a flow is not counted.
func (t *Timing) Spans() []Span {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]Span, 0, len(t.spans))
	for _, s := range t.spans {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(t.order[who{a.ID, a.Atom}], t.order[who{b.ID, b.Atom}]),
			cmp.Compare(a.State, b.State))
	})
	return all
}

// Table writes the spans in columns.
func (t *Timing) Table(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FLOW\tATOM\tSTATE\tTIMES\tTOOK")
	for _, s := range t.Spans() {
		atom := s.Atom
		if atom == "" {
			atom = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", s.ID, atom, s.State, s.Times,
			quantity.FormatDuration(s.Took.Round(time.Microsecond)))
	}
	return w.Flush()
}
