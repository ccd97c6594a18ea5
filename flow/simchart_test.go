package flow

import (
	"math/bits"
	"slices"
)

// atoms is a set of atoms of a chart; a simulated flow has no more than 64.
type atoms uint64

func (s atoms) has(i int) bool { return s>>i&1 == 1 }

func (s atoms) list() []int {
	var all []int
	for ; s != 0; s &= s - 1 {
		all = append(all, bits.TrailingZeros64(uint64(s)))
	}
	return all
}

// chart is the graph of a simulated flow. It is made from the description of the flow and independently of the plan: a
// walk finds the atoms before and after an atom.
type chart struct {
	names    []string
	at       map[string]int
	retry    []*retrySpec // of atoms that are controllers
	task     []*part
	governor []int // -1: none
	nodes    []int // atom, or -1: the start or end of a flow
	next     [][]int
	place    []int   // node of an atom
	before   []atoms // all that an atom depends on
	after    []atoms
	gates    [][]watch
	giver    map[string]int // atom that gives a value
}

// watch is a decider of an atom.
type watch struct {
	source int // atom; -1: a flow
	join   join
}

func chartOf(s *spec) *chart {
	c := &chart{at: map[string]int{}, giver: map[string]int{}}
	c.addPart(s.root, -1)
	n := len(c.names)
	c.before, c.after = make([]atoms, n), make([]atoms, n)
	for i := range n {
		seen := make([]bool, len(c.nodes))
		c.addAfter(c.place[i], seen)
		for node, reached := range seen {
			if j := c.nodes[node]; reached && j >= 0 {
				c.after[i] |= 1 << j
				c.before[j] |= 1 << i
			}
		}
	}
	return c
}

func (c *chart) addAfter(node int, seen []bool) {
	for _, to := range c.next[node] {
		if !seen[to] {
			seen[to] = true
			c.addAfter(to, seen)
		}
	}
}

func (c *chart) nodeOf(atom int) int {
	c.nodes, c.next = append(c.nodes, atom), append(c.next, nil)
	return len(c.nodes) - 1
}

func (c *chart) addAtom(name, gives string, task *part, retry *retrySpec, governor int) (atom, node int) {
	i := len(c.names)
	c.names, c.task, c.retry = append(c.names, name), append(c.task, task), append(c.retry, retry)
	c.governor, c.gates = append(c.governor, governor), append(c.gates, nil)
	c.at[name] = i
	if gives != "" {
		c.giver[gives] = i
	}
	node = c.nodeOf(i)
	c.place = append(c.place, node)
	return i, node
}

// addPart adds a part and returns its first and last node.
func (c *chart) addPart(p *part, governor int) (first, last int) {
	if p.kind == "task" {
		_, node := c.addAtom(p.name, p.gives, p, nil, governor)
		return node, node
	}
	first = c.nodeOf(-1)
	entry := first
	if p.steer != nil {
		var r int
		r, entry = c.addAtom(p.steer.name, "round_"+p.name, nil, p.steer, governor)
		c.next[first] = append(c.next[first], entry)
		governor = r
	}
	in, out := make([]int, len(p.items)), make([]int, len(p.items))
	for k, item := range p.items {
		in[k], out[k] = c.addPart(item, governor)
	}
	last = c.nodeOf(-1)
	begun, led := map[int]bool{}, map[int]bool{}
	for _, l := range p.linked() {
		c.next[out[l[0]]] = append(c.next[out[l[0]]], in[l[1]])
		begun[l[1]], led[l[0]] = true, true
	}
	for k := range p.items {
		if !begun[k] {
			c.next[entry] = append(c.next[entry], in[k])
		}
		if !led[k] {
			c.next[out[k]] = append(c.next[out[k]], last)
		}
	}
	if len(p.items) == 0 {
		c.next[entry] = append(c.next[entry], last)
	}
	for _, j := range p.joins {
		if j.says == "" {
			continue
		}
		for _, target := range c.entries(p.items[j.to]) {
			c.gates[target] = append(c.gates[target], watch{c.nodes[out[j.from]], j})
		}
	}
	return first, last
}

// linked lists the links between items of a flow: in a graph, explicit links, and links by values.
func (p *part) linked() [][2]int {
	var all [][2]int
	for to := range p.items {
		for from := range p.items {
			linked := p.kind == "linear" && from == to-1
			if p.kind == "graph" && from != to {
				gives := p.items[from].given()
				linked = slices.ContainsFunc(p.joins, func(j join) bool { return j.from == from && j.to == to }) ||
					slices.ContainsFunc(p.items[to].unmet(), func(n string) bool { return slices.Contains(gives, n) })
			}
			if linked {
				all = append(all, [2]int{from, to})
			}
		}
	}
	return all
}

// unmet lists the values that a part needs from outside. In a simulated flow every value has one provider, so a value
// that is given inside the part is not needed from outside.
func (p *part) unmet() []string {
	own := p.given()
	var all []string
	p.each(func(t *part) {
		for _, n := range t.needs {
			if !slices.Contains(own, n) {
				all = append(all, n)
			}
		}
	})
	return all
}

// entries lists the first atoms of a part.
func (c *chart) entries(p *part) []int {
	switch {
	case p.kind == "task":
		return []int{c.at[p.name]}
	case p.steer != nil:
		return []int{c.at[p.steer.name]}
	}
	var all []int
	links := p.linked()
	for k, item := range p.items {
		if !slices.ContainsFunc(links, func(l [2]int) bool { return l[1] == k }) {
			all = append(all, c.entries(item)...)
		}
	}
	return all
}

// ignoredBy returns the atoms that a decider of the target ignores with a depth.
func (c *chart) ignoredBy(target int, d Depth) atoms {
	all := atoms(1) << target
	switch d {
	case DepthAll:
		all |= c.after[target]
	case DepthNeighbors:
		for _, to := range c.next[c.place[target]] {
			if i := c.nodes[to]; i >= 0 && c.task[i] != nil {
				all |= 1 << i
			}
		}
	case DepthFlow:
		for grown := atoms(0); grown != all; {
			grown = all
			for _, i := range grown.list() {
				for _, to := range c.next[c.place[i]] {
					if k := c.nodes[to]; k >= 0 && c.task[k] != nil {
						all |= 1 << k
					}
				}
			}
		}
	}
	return all
}
