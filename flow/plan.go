package flow

import (
	"slices"
	"strings"
)

// plan is a flow compiled to one graph. Nodes are numbered in the order of the pattern, which is topological. Each flow
// has a start node and an end node. A link between flows is one edge, so that the size of the graph is linear in the
// size of the flow.
type plan struct {
	name   string
	root   Item
	nodes  []node
	atoms  []int32 // tasks and retry controllers, in order
	byName map[string]int32
	gives  map[string][]int32 // atoms that give a value, in order

	signals Declared // the signals that tasks declare
}

type nodeKind uint8

const (
	taskNode nodeKind = iota
	retryNode
	startNode
	endNode
)

type node struct {
	kind     nodeKind
	name     string
	task     *Task
	retry    *Retry
	flow     *Flow // of a start
	priority int
	succ     []int32
	pred     []int32
	governor int32  // the retry controller for failures of this node; -1: none
	up       int32  // start node of the flow around it; -1: none
	index    int    // number of an item in its graph flow
	gates    []gate // deciders on the links to this item
	result   Result // of an atom
	args     *Args  // of an atom
}

// gate is a decider on a link to a node.
type gate struct {
	from    int32 // the start of the link: an atom, or the end node of a flow
	decider Decider
	depth   Depth
}

func (n *node) isAtom() bool { return n.kind <= retryNode }

// atomKind returns the kind of an atom.
func (n *node) atomKind() Kind {
	if n.kind == retryNode {
		return KindRetry
	}
	return KindTask
}

// was returns the earlier names of an atom.
func (n *node) was() []string {
	if n.task != nil {
		return n.task.Was
	}
	return n.retry.Was
}

// version returns the version of an atom's code.
func (n *node) version() string {
	if n.task != nil {
		return n.task.version()
	}
	return n.retry.version()
}

// compile makes the graph. Errors: [ErrDuplicate], [ErrInvalid].
func compile(root Item) (*plan, error) {
	if !proper(root) {
		return nil, wrong(ErrInvalid, nil, "%T is no flow: it is made of tasks and flows", root)
	}
	p := &plan{name: root.Title(), root: root, byName: map[string]int32{}, gives: map[string][]int32{}}
	if p.name == "" {
		kind, _ := itemKind(root)
		return nil, wrong(ErrInvalid, nil, "the %s at the top has no name", kind)
	}
	b := builder{plan: p, seen: map[Item]bool{}}
	if _, _, err := b.compileItem(root, -1, -1); err != nil {
		return nil, err
	}
	if len(b.twice) > 0 {
		return nil, wrong(ErrDuplicate, b.twice, "Atoms with duplicate names found: %s", strings.Join(b.twice, ", "))
	}
	for i := range p.nodes {
		n := &p.nodes[i]
		for _, to := range n.succ {
			p.nodes[to].pred = append(p.nodes[to].pred, int32(i))
		}
		if n.isAtom() {
			p.atoms = append(p.atoms, int32(i))
			for _, name := range n.result.names() {
				p.gives[name] = append(p.gives[name], int32(i))
			}
		}
	}
	if err := p.checkTypes(); err != nil {
		return nil, err
	}
	if err := p.checkFields(); err != nil {
		return nil, err
	}
	if err := p.collectSignals(); err != nil {
		return nil, err
	}
	return p, nil
}

// builder walks the items.
type builder struct {
	plan  *plan
	seen  map[Item]bool
	twice []string
}

func (b *builder) addNode(n node) int32 {
	i := int32(len(b.plan.nodes))
	b.plan.nodes = append(b.plan.nodes, n)
	if n.isAtom() {
		if _, there := b.plan.byName[n.name]; there && !slices.Contains(b.twice, n.name) {
			b.twice = append(b.twice, n.name)
		}
		b.plan.byName[n.name] = i
	}
	return i
}

func (b *builder) addEdge(from, to int32) {
	n := &b.plan.nodes[from]
	n.succ = append(n.succ, to)
}

// compileItem compiles an item. It returns the item's first and last node.
func (b *builder) compileItem(item Item, up, governor int32) (first, last int32, err error) {
	switch item := item.(type) {
	case *Task:
		if err := b.once(item); err != nil {
			return 0, 0, err
		}
		i := b.addNode(node{kind: taskNode, name: item.Name, task: item, priority: item.Priority, governor: governor,
			up: up, result: item.Result, args: &item.Args})
		return i, i, nil
	case *Flow:
		if err := b.once(item); err != nil {
			return 0, 0, err
		}
		return b.compileFlow(item, up, governor)
	}
	return 0, 0, wrong(ErrInvalid, nil, "%T is no item: a flow is made of tasks and flows", item)
}

func (b *builder) once(item Item) error {
	if b.seen[item] {
		return wrong(ErrInvalid, []string{item.Title()}, "Already compiled item: %s occurs twice in the flow",
			item.Title())
	}
	b.seen[item] = true
	return nil
}

func (b *builder) compileFlow(f *Flow, up, governor int32) (first, last int32, err error) {
	start := b.addNode(node{kind: startNode, name: f.Name, flow: f, up: up, governor: governor})
	entry := start
	if r := f.Retry; r != nil {
		if r.Execute == nil || r.Decide == nil {
			return 0, 0, wrong(ErrInvalid, []string{f.retryName()}, "the retry controller %s needs Execute and Decide",
				f.retryName())
		}
		entry = b.addNode(node{kind: retryNode, name: f.retryName(), retry: r, priority: r.Priority, governor: governor,
			up: start, result: One(r.Result), args: &r.Args})
		b.addEdge(start, entry)
		governor = entry
	}
	items := f.Items()
	firsts, lasts := make([]int32, len(items)), make([]int32, len(items))
	for k, item := range items {
		if !proper(item) || item.Title() == "" {
			return 0, 0, b.namelessItem(start, items, k)
		}
		if firsts[k], lasts[k], err = b.compileItem(item, start, governor); err != nil {
			return 0, 0, err
		}
	}
	end := b.addNode(node{kind: endNode, name: f.Name + "[$]", up: up, governor: governor})
	b.addEdges(f, items, entry, end, firsts, lasts)
	return start, end, nil
}

// addEdges adds the edges within a flow.
func (b *builder) addEdges(f *Flow, items []Item, entry, end int32, firsts, lasts []int32) {
	begun, led := make([]bool, len(items)), make([]bool, len(items))
	switch f.pattern {
	case PatternLinear:
		for k := 1; k < len(items); k++ {
			b.addEdge(lasts[k-1], firsts[k])
			begun[k], led[k-1] = true, true
		}
	case PatternGraph:
		l := f.graph
		at := map[int]int{} // number among all items: number here
		for k, item := range items {
			at[l.at[item]] = k
			b.plan.nodes[firsts[k]].index = l.at[item]
		}
		for k, item := range items {
			for _, j := range l.out[l.at[item]] {
				to, shown := at[j]
				if !shown {
					continue
				}
				b.addEdge(lasts[k], firsts[to])
				begun[to], led[k] = true, true
				if e := l.edges[[2]int{l.at[item], j}]; e.decider != nil {
					n := &b.plan.nodes[firsts[to]]
					n.gates = append(n.gates, gate{lasts[k], e.decider, e.depth})
				}
			}
		}
	}
	for k := range items {
		if !begun[k] {
			b.addEdge(entry, firsts[k])
		}
		if !led[k] {
			b.addEdge(lasts[k], end)
		}
	}
	if len(items) == 0 {
		b.addEdge(entry, end)
	}
}

// after returns all nodes that depend on node i, in order.
func (p *plan) after(i int32) []int32 {
	seen := make(map[int32]bool)
	var all []int32
	for stack := []int32{i}; len(stack) > 0; {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, to := range p.nodes[at].succ {
			if !seen[to] {
				seen[to] = true
				all = append(all, to)
				stack = append(stack, to)
			}
		}
	}
	slices.Sort(all)
	return all
}

// gatesOf returns the deciders of an atom: those on links to it, and on links to the flows that begin with it.
func (p *plan) gatesOf(i int32) []gate {
	gates := p.nodes[i].gates
	for next := []int32{i}; len(next) > 0; {
		at := next[0]
		next = next[1:]
		for _, before := range p.nodes[at].pred {
			if n := &p.nodes[before]; n.kind == startNode {
				gates = append(slices.Clip(gates), n.gates...)
				next = append(next, before)
			}
		}
	}
	return gates
}

// ignoredFrom returns the atoms that are ignored if a decider of node i returns false, in order.
func (p *plan) ignoredFrom(i int32, d Depth) []int32 {
	all := []int32{i}
	switch d {
	case DepthAll:
		all = append(all, p.after(i)...)
	case DepthNeighbors:
		for _, to := range p.nodes[i].succ {
			if p.nodes[to].kind == taskNode {
				all = append(all, to)
			}
		}
	case DepthFlow:
		seen := map[int32]bool{i: true}
		for k := 0; k < len(all); k++ {
			for _, to := range p.nodes[all[k]].succ {
				if p.nodes[to].kind == taskNode && !seen[to] {
					seen[to] = true
					all = append(all, to)
				}
			}
		}
	}
	all = slices.DeleteFunc(all, func(n int32) bool { return !p.nodes[n].isAtom() })
	slices.Sort(all)
	return slices.Compact(all)
}

// providers calls yield with the atoms that can give node i a value, from the innermost scope outwards and in each
// scope the nearest atom first, until yield returns true. The innermost scope is 0.
func (p *plan) providers(i int32, name string, yield func(scope int, atom int32) (enough bool)) {
	all := p.gives[name]
	if len(all) == 0 {
		return
	}
	at := i
	for scope := 0; ; scope++ {
		up := p.nodes[at].up
		if up < 0 {
			return
		}
		if f := p.nodes[up].flow; f.pattern == PatternUnordered { // only its controller precedes node i
			if at != up+1 && f.Retry != nil && f.Retry.Result == name && yield(scope, up+1) {
				return
			}
			at = up
			continue
		}
		k, _ := slices.BinarySearch(all, at)
		for k--; k >= 0 && all[k] > up; k-- {
			if p.precedes(all[k], at, up) && yield(scope, all[k]) {
				return
			}
		}
		at = up
	}
}

// precedes reports whether an atom in the flow with the start node up is done before the item with the first node at.
func (p *plan) precedes(atom, at, up int32) bool {
	if p.nodes[atom].kind == retryNode && p.nodes[atom].up == up {
		return true
	}
	switch f := p.nodes[up].flow; f.pattern {
	case PatternLinear:
		return true
	case PatternGraph:
		for p.nodes[atom].up != up {
			atom = p.nodes[atom].up
		}
		return p.nodes[at].kind != retryNode && f.graph.reaches(p.nodes[atom].index, p.nodes[at].index)
	}
	return false
}

// checkProvided returns an error that names the atoms with needed values that have no provider.
func (p *plan) checkProvided(injected map[string]Value) error {
	var atoms, texts []string
	for _, i := range p.atoms {
		n := &p.nodes[i]
		needs := n.args.needs()
		if n.task != nil {
			needs = n.task.Needs()
		}
		for _, name := range needs {
			if _, given := injected[name]; given {
				continue
			}
			found := false
			p.providers(i, name, func(int, int32) bool { found = true; return true })
			if !found {
				texts = append(texts, n.name+" requires "+name)
				if !slices.Contains(atoms, n.name) {
					atoms = append(atoms, n.name)
				}
			}
		}
	}
	if len(atoms) == 0 {
		return nil
	}
	return wrong(ErrMissing, atoms, "required values have no provider: %s", strings.Join(texts, ", "))
}
