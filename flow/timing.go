package flow

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/quantity"
)

// Timing measures how long flows and their atoms are in their states. The zero Timing works; give its Listen to
// [Options.Listeners] of any number of flows.
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

// Span is how long, and how often, somebody was in a state that has ended.
type Span struct {
	ID    string // of the flow
	Atom  string // empty: the flow itself
	Kind  Kind   // of the atom
	State lifecycle.State
	Times int
	Took  time.Duration // in all
}

// Listen is a [Listener].
func (t *Timing) Listen(e Event) {
	if e.Within != "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since == nil {
		t.since, t.began, t.spans, t.order = map[who]time.Time{}, map[string]time.Time{}, map[spanOf]*Span{}, map[who]int{}
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
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(t.order[who{a.ID, a.Atom}], t.order[who{b.ID, b.Atom}]), cmp.Compare(a.State, b.State))
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

// Meter is notified what flows do, for those who count it. Its methods are called in the goroutines that run flows, by
// many at once: they must be quick and must not block.
type Meter interface {
	Changed(c Changed)
	TriedAgain(f Again)
}

// Changed is a change of state of a flow or an atom.
type Changed struct {
	Flow     string // the flow's name; there are few of those, and many ids
	Atom     string // empty: the flow itself
	Kind     Kind   // of the atom
	From, To lifecycle.State
	Took     time.Duration // in From; zero if that began before anybody listened
	Cause    string        // the type of the failure; empty: none
}

// Again is an attempt of a task that failed and will be followed by another.
type Again struct {
	Flow, Atom string
	Cause      string // the type of the failure
	Pause      time.Duration
}

// Metering is a listener that reports a meter. One of them is for one flow: it remembers when its atoms came into their
// states.
func Metering(m Meter) Listener {
	since := map[string]time.Time{}
	var mu sync.Mutex // guards since
	return func(e Event) {
		cause := ""
		if e.Failure != nil {
			cause = e.Failure.Type
		}
		switch e.Within {
		case "":
			mu.Lock()
			from, there := since[e.Atom]
			since[e.Atom] = e.At
			mu.Unlock()
			c := Changed{Flow: e.Flow, Atom: e.Atom, Kind: e.Kind, From: e.Old, To: e.New, Cause: cause}
			if there {
				c.Took = max(e.At.Sub(from), 0)
			}
			m.Changed(c)
		case TriedAgain:
			m.TriedAgain(Again{Flow: e.Flow, Atom: e.Atom, Cause: cause, Pause: max(e.Due.Sub(e.At), 0)})
		}
	}
}
