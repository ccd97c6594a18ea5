package notation

import (
	"fmt"
	"slices"
)

// edge is a transition of a diagram before composite states and choices are resolved. The name of [*] is empty.
type edge struct {
	from, to string
	label    string
	dashed   bool
	at       Position
}

// vertex is the information of a diagram about one name.
type vertex struct {
	name   string
	doc    string
	at     Position
	pseudo bool // choice, fork, join: joins transitions and is no state
	final  bool // the text has the word final
	inner  []*region
}

// region is a diagram, or one of the parallel parts of a composite state.
type region struct {
	names []string // in order of mention
	has   map[string]bool
	edges []edge
}

func newRegion() *region { return &region{has: map[string]bool{}} }

func (r *region) mention(name string) {
	if !r.has[name] {
		r.has[name] = true
		r.names = append(r.names, name)
	}
}

// graph is a diagram that is being read.
type graph struct {
	file        string
	root        *region
	vertices    map[string]*vertex
	names       map[string]string // names by identifier
	order       []string
	transitions int
	problems    Problems
	within      []string // composite states that are being resolved, the outermost first
	resolved    int      // resolved composite states, counted once for each mention
}

func newGraph(file string) *graph {
	return &graph{file: file, root: newRegion(), vertices: map[string]*vertex{}, names: map[string]string{}}
}

func (g *graph) problem(at Position, format string, args ...any) {
	if len(g.problems) == maxProblems {
		return
	}
	g.problems = append(g.problems, Problem{at.Line, at.Column, Syntax, fmt.Sprintf(format, args...)})
}

// tooLarge refuses a diagram that is too large to resolve.
func (g *graph) tooLarge() bool {
	if len(g.order) <= maxStates && g.transitions <= maxTransitions {
		return false
	}
	g.problem(Position{1, 1}, "%d states and %d transitions are more than can be checked (%d and %d)", len(g.order),
		g.transitions, maxStates, maxTransitions)
	return true
}

// add records a transition of a region.
func (g *graph) add(r *region, e edge) {
	if g.transitions++; g.transitions <= maxTransitions {
		r.edges = append(r.edges, e)
	}
}

// vertex returns the vertex of a name, and records its first position.
func (g *graph) vertex(name string, at Position) *vertex {
	v := g.vertices[name]
	if v == nil {
		v = &vertex{name: name, at: at}
		g.vertices[name] = v
		g.order = append(g.order, name)
	}
	return v
}

// flat is a region without composite states of one region.
type flat struct {
	names  []string
	edges  []edge
	starts []edge // from [*]
	finals []edge // to [*]
}

// flatten resolves the composite states of a region. Those with parallel regions stay, and their regions are added to
// parts under their name.
func (g *graph) flatten(r *region, parts map[string][]flat) flat {
	var f flat
	inside := map[string]flat{}
	for _, name := range r.names {
		filled := g.open(name)
		if len(filled) == 1 {
			in := g.flatten(filled[0], parts)
			f.edges = append(f.edges, in.edges...)
			f.names = append(f.names, in.names...)
			if len(in.starts) > 0 {
				inside[name] = in
				g.shut(name, filled)
				continue
			}
		}
		for _, one := range filled {
			if len(filled) > 1 {
				parts[name] = append(parts[name], g.flatten(one, parts))
			}
		}
		f.names = append(f.names, name)
		g.shut(name, filled)
	}
	for _, e := range r.edges {
		led := through(e, inside)
		if len(f.edges)+len(led) > maxTransitions {
			g.problem(e.at, "more than %d transitions once composite states are resolved", maxTransitions)
			break
		}
		f = f.with(led)
	}
	return f
}

// open returns the regions of a composite state that have transitions, and records that it is being resolved. It
// returns none for a state inside itself, or if composite states are nested so often that resolving them would not end.
func (g *graph) open(name string) []*region {
	v := g.vertices[name]
	filled := slices.DeleteFunc(slices.Clone(v.inner), func(r *region) bool { return len(r.edges) == 0 })
	if len(filled) == 0 {
		return nil
	}
	if slices.Contains(g.within, name) {
		g.problem(v.at, "%s is inside itself", name)
		return nil
	}
	if g.resolved++; g.resolved > maxStates {
		if g.resolved == maxStates+1 {
			g.problem(v.at, "composite states are mentioned inside each other more than %d times", maxStates)
		}
		return nil
	}
	g.within = append(g.within, name)
	return filled
}

// shut ends the resolution that open began, if there is one.
func (g *graph) shut(name string, filled []*region) {
	if len(filled) > 0 && g.within[len(g.within)-1] == name {
		g.within = g.within[:len(g.within)-1]
	}
}

// with adds edges to the starts, the finals or the rest.
func (f flat) with(edges []edge) flat {
	for _, e := range edges {
		switch {
		case e.from == "":
			f.starts = append(f.starts, e)
		case e.to == "":
			f.finals = append(f.finals, e)
		default:
			f.edges = append(f.edges, e)
		}
	}
	return f
}

// through replaces a transition to or from a composite state by transitions of its inner states: to its starts, and
// from its last states or, if it has none, from all.
func through(e edge, inside map[string]flat) []edge {
	out := []edge{e}
	if in, ok := inside[e.from]; ok {
		last := in.finals
		for _, name := range in.names {
			if len(in.finals) == 0 {
				last = append(last, edge{from: name})
			}
		}
		out = out[:0]
		for _, from := range last {
			one := e
			one.from = from.from
			if one.label == "" {
				one.label = from.label
			}
			out = append(out, one)
		}
	}
	in, ok := inside[e.to]
	if !ok {
		return out
	}
	var led []edge
	for _, one := range out {
		for _, first := range in.starts {
			if len(led) > maxTransitions {
				return led
			}
			one.to = first.to
			led = append(led, one)
		}
	}
	return led
}

// join replaces the pseudo states of a flat region by the transitions that lead through them.
func (g *graph) join(f flat) flat {
	for _, name := range slices.Clone(f.names) {
		if !g.vertices[name].pseudo {
			continue
		}
		var in, out, rest []edge
		for _, e := range slices.Concat(f.edges, f.finals, f.starts) {
			switch {
			case e.from == name && e.to == name:
			case e.to == name:
				in = append(in, e)
			case e.from == name:
				out = append(out, e)
			default:
				rest = append(rest, e)
			}
		}
		if len(rest)+len(in)*len(out) > maxTransitions {
			g.problem(g.vertices[name].at, "too many transitions lead through %s", name)
			return f
		}
		for _, a := range in {
			for _, b := range out {
				one := b
				one.from, one.dashed = a.from, a.dashed || b.dashed
				if one.label == "" {
					one.label = a.label
				}
				rest = append(rest, one)
			}
		}
		names := slices.DeleteFunc(slices.Clone(f.names), func(n string) bool { return n == name })
		f = flat{names: names}.with(rest)
	}
	return f
}
