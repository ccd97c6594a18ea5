package flow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/lifecycle"
)

// shape is an outline by the present names of its parts, for comparing a stored outline with that of the flow.
type shape struct {
	flows map[string]*shapedFlow // by path
	atoms map[string]*Outline
	in    map[string]string // atom: path of its flow
}

// shapedFlow is one flow of a shape.
type shapedFlow struct {
	pattern Pattern
	items   []string       // atoms by name; flows by path, which ends with a slash and is unique
	at      map[string]int // position in items
	out     map[string][]string
	atoms   map[string][]string // item: the atoms in it
}

// shapeOf makes the shape of an outline; now has the present names of renamed atoms.
func shapeOf(o *Outline, now map[string]string) *shape {
	s := &shape{flows: map[string]*shapedFlow{}, atoms: map[string]*Outline{}, in: map[string]string{}}
	if o.Kind == KindFlow {
		s.addFlow(o, "/", now)
	}
	return s
}

// addFlow adds a flow and returns its atoms. Paths contain no names of atoms, so that an atom and a flow may have the
// same name.
func (s *shape) addFlow(o *Outline, path string, now map[string]string) (atoms []string) {
	f := &shapedFlow{pattern: o.Pattern, at: map[string]int{}, out: map[string][]string{}, atoms: map[string][]string{}}
	s.flows[path] = f
	atom := func(a *Outline) string {
		name := a.Name
		if called, there := now[name]; there {
			name = called
		}
		s.atoms[name], s.in[name] = a, path
		return name
	}
	if o.Retry != nil {
		atoms = append(atoms, atom(o.Retry))
	}
	for _, item := range o.Items {
		var key string
		var inner []string
		if item.Kind == KindFlow {
			key = path + item.Name + "/"
			for n := 2; s.flows[key] != nil; n++ {
				key = fmt.Sprintf("%s%s#%d/", path, item.Name, n)
			}
			inner = s.addFlow(item, key, now)
		} else {
			key = atom(item)
			inner = []string{key}
		}
		f.at[key], f.atoms[key] = len(f.items), inner
		f.items, atoms = append(f.items, key), append(atoms, inner...)
	}
	for _, l := range o.Links {
		if from, to := l.From, l.To; from >= 0 && to >= 0 && from < len(f.items) && to < len(f.items) {
			f.out[f.items[from]] = append(f.out[f.items[from]], f.items[to])
		}
	}
	return atoms
}

// precedes reports whether item u is done before item v.
func (f *shapedFlow) precedes(u, v string) bool {
	switch f.pattern {
	case PatternLinear:
		return f.at[u] < f.at[v]
	case PatternGraph:
		seen := map[string]bool{}
		for stack := []string{u}; len(stack) > 0; {
			at := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if slices.Contains(f.out[at], v) {
				return true
			}
			for _, to := range f.out[at] {
				if !seen[to] {
					seen[to], stack = true, append(stack, to)
				}
			}
		}
	}
	return false
}

// comparison compares a stored shape with the present shape of the flow.
type comparison struct {
	old, now *shape
	state    func(atom string) lifecycle.State
	found    []string
}

// same reports whether two outlines have the same stored form.
func (o *Outline) same(other *Outline) bool {
	a, errA := json.Marshal(o)
	b, errB := json.Marshal(other)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// reshaped lists the stored order, nesting and results of executed atoms that the flow no longer has.
func (r *Runner) reshaped(stored, now *Outline, diff *Difference) []string {
	if stored == nil {
		return nil
	}
	called := map[string]string{}
	for _, one := range diff.Renamed {
		called[one.Old] = one.New
	}
	c := &comparison{old: shapeOf(stored, called), now: shapeOf(now, nil), state: func(atom string) lifecycle.State {
		if i, there := r.plan.byName[atom]; there {
			return r.recs[i].State
		}
		return Pending
	}}
	now.walk(func(part *Outline) {
		if part.Kind != KindFlow {
			c.compareAtom(part)
		}
	})
	for _, path := range sortedPaths(c.old.flows) {
		if c.now.flows[path] != nil {
			c.compareFlow(c.old.flows[path], c.now.flows[path])
		}
	}
	return c.found
}

func sortedPaths(flows map[string]*shapedFlow) []string {
	paths := make([]string, 0, len(flows))
	for path := range flows {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

func (c *comparison) addDifference(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

func (c *comparison) ran(atom string) bool {
	s := c.state(atom)
	return s != Pending && s != Ignore && s != Reverted
}

// compareAtom compares the flow that contains an atom, and the atom's values.
func (c *comparison) compareAtom(now *Outline) {
	was := c.old.atoms[now.Name]
	if was == nil || !c.ran(now.Name) {
		return
	}
	state := c.state(now.Name)
	if from, to := c.old.in[now.Name], c.now.in[now.Name]; from != to {
		c.addDifference("%s was moved from %s to %s, and is %s", now.Name, inWords(from), inWords(to), state)
	}
	for _, name := range was.Gives {
		if state == Success && !slices.Contains(now.Gives, name) {
			c.addDifference("%s does not provide %q any more, and is %s", now.Name, name, state)
		}
	}
}

func inWords(path string) string {
	if path == "/" {
		return "the flow"
	}
	return strings.Trim(path, "/")
}

// compareFlow compares the order of the items that both flows have.
func (c *comparison) compareFlow(was, now *shapedFlow) {
	ran := func(item string) bool { return slices.ContainsFunc(now.atoms[item], c.ran) }
	done := func(item string) bool {
		return !slices.ContainsFunc(now.atoms[item], func(a string) bool {
			return c.state(a) != Success && c.state(a) != Ignore
		})
	}
	lost := func(u, v string) {
		if (ran(u) || ran(v)) && !now.precedes(u, v) {
			c.addDifference("%s does not come after %s any more, and %s has run", inWords(v), inWords(u),
				c.which(u, v, ran))
		}
	}
	was.pairs(now, ran, lost)
	now.pairs(was, ran, func(u, v string) {
		if ran(v) && !done(u) && !was.precedes(u, v) && !was.precedes(v, u) {
			c.addDifference("%s comes before %s now, and %s has run", inWords(u), inWords(v), inWords(v))
		}
	})
}

func (c *comparison) which(u, v string, ran func(string) bool) string {
	if ran(v) {
		return inWords(v)
	}
	return inWords(u)
}

// pairs calls yield with ordered pairs of items that both flows have. Every other pair with an executed item follows
// from these.
func (f *shapedFlow) pairs(other *shapedFlow, ran func(string) bool, yield func(u, v string)) {
	var items []string
	for _, item := range f.items {
		if _, there := other.at[item]; there {
			items = append(items, item)
		}
	}
	switch f.pattern {
	case PatternLinear:
		last := -1 // the item before that has run
		for k, v := range items {
			switch {
			case ran(v):
				for i := max(last, 0); i < k; i++ {
					yield(items[i], v)
				}
				last = k
			case last >= 0:
				yield(items[last], v)
			}
		}
	case PatternGraph:
		for _, u := range items {
			for _, v := range f.out[u] {
				if _, there := other.at[v]; there {
					yield(u, v)
				}
			}
		}
	}
}
