package draw

import (
	"sync"

	"github.com/stagepost/stagepost/lifecycle"
)

// View selects what a drawing shows and marks. The zero View draws the plain table without its loops.
type View struct {
	Current lifecycle.Position // the marked state; none if State is empty
	// the transitions taken so far, from the start; marked up to the first that the table does not allow
	Path  []lifecycle.Taken
	By    lifecycle.Actor // the actor whose legal exits from Current are marked; all actors when 0
	Loops bool            // show the transitions that stay in their state
	// May reports whether the exits of an event are marked that By may cause; nil: of all events
	May func(lifecycle.Event) bool
}

// step is one transition as drawn: a re-entering transition has as many as it has targets.
type step struct {
	from  lifecycle.State
	event lifecycle.Event
	to    lifecycle.State
}

// marks are the steps of a table that a view marks.
type marks struct {
	legal map[step]bool
	taken map[step]bool
	been  map[lifecycle.State]bool // states on the path
}

// chart is a table in the form that the drawings use.
type chart struct {
	name   string
	hash   string // of the definition; empty: its layout is not cached
	stages []lifecycle.Stage
	index  map[lifecycle.State]int // of the first stage of a state
	next   func(lifecycle.Position, lifecycle.Event, lifecycle.Actor) (lifecycle.Position, error)
}

func newChart(name string, stages []lifecycle.Stage) *chart {
	t := &chart{name: name, stages: stages, index: map[lifecycle.State]int{}}
	for i, s := range stages {
		if _, dup := t.index[s.State]; !dup {
			t.index[s.State] = i
		}
	}
	return t
}

func chartOf(t *lifecycle.Table) *chart {
	c := newChart(t.Name(), t.Stages())
	c.hash, c.next = t.Hash(), t.Next
	return c
}

// layouts caches the layouts of definitions by hash and loops. They are not changed.
var layouts sync.Map

type layoutKey struct {
	hash  string
	loops bool
}

func (t *chart) layout(loops bool) *layout {
	if t.hash == "" {
		return layOut(t, loops)
	}
	key := layoutKey{t.hash, loops}
	if l, ok := layouts.Load(key); ok {
		return l.(*layout)
	}
	l := layOut(t, loops)
	layouts.Store(key, l)
	return l
}

func (t *chart) marks(v View) marks {
	m := marks{legal: map[step]bool{}, taken: map[step]bool{}, been: map[lifecycle.State]bool{}}
	p := lifecycle.Position{State: t.stages[0].State}
	for _, move := range v.Path {
		next, err := t.next(p, move.Event, move.By)
		if err != nil {
			break
		}
		m.been[p.State] = true
		m.taken[step{p.State, move.Event, next.State}] = true
		p = next
	}
	by := v.By
	if by == 0 {
		by = lifecycle.Worker | lifecycle.Timer | lifecycle.Operator | lifecycle.Owner | lifecycle.Engine
	}
	i, ok := t.index[v.Current.State]
	if !ok {
		return m
	}
	for _, a := range t.stages[i].Transitions {
		if v.May != nil && !v.May(a.Event) {
			continue
		}
		if next, err := t.next(v.Current, a.Event, by); err == nil {
			m.legal[step{v.Current.State, a.Event, next.State}] = true
		}
	}
	return m
}

// transition returns the transition of an event from a state.
func (t *chart) transition(s lifecycle.State, e lifecycle.Event) lifecycle.Transition {
	for _, a := range t.stages[t.index[s]].Transitions {
		if a.Event == e {
			return a
		}
	}
	return lifecycle.Transition{}
}
