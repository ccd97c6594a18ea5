package flow

// gauge has for each node whether everything before it is done and everything after it is undone. Counters follow the
// changes of states: over a whole flow, finding the ready atoms costs time linear in nodes and edges.
type gauge struct {
	plan    *plan
	clear   []bool  // it and everything before it is done: SUCCESS or IGNORE, with an intention that keeps it
	quiet   []bool  // it and everything after it is undone: PENDING, REVERTED or IGNORE
	unclear []int32 // number of direct predecessors that are not clear
	unquiet []int32 // number of direct successors that are not quiet
	changed []int32 // nodes that may have become ready
	isNew   []bool  // in changed
}

func newGauge(p *plan, recs []Record) gauge {
	n := len(p.nodes)
	g := gauge{plan: p, clear: make([]bool, n), quiet: make([]bool, n), unclear: make([]int32, n),
		unquiet: make([]int32, n), isNew: make([]bool, n)}
	for i := range p.nodes {
		for _, before := range p.nodes[i].pred {
			if !g.clear[before] {
				g.unclear[i]++
			}
		}
		g.clear[i] = g.unclear[i] == 0 && done(&p.nodes[i], &recs[i])
	}
	for i := n - 1; i >= 0; i-- {
		for _, after := range p.nodes[i].succ {
			if !g.quiet[after] {
				g.unquiet[i]++
			}
		}
		g.quiet[i] = g.unquiet[i] == 0 && undone(&p.nodes[i], &recs[i])
	}
	for _, i := range p.atoms {
		g.recheck(i)
	}
	return g
}

func done(n *node, r *Record) bool {
	return !n.isAtom() ||
		(r.State == Success || r.State == Ignore) && (r.Intention == Execute || r.Intention == ToIgnore)
}

func undone(n *node, r *Record) bool {
	return !n.isAtom() || r.State == Pending || r.State == Reverted || r.State == Ignore
}

// recheck adds a node to the nodes that may be ready.
func (g *gauge) recheck(i int32) {
	if !g.isNew[i] && g.plan.nodes[i].isAtom() {
		g.isNew[i] = true
		g.changed = append(g.changed, i)
	}
}

// takeChanged returns the nodes that may have become ready since the last call.
func (g *gauge) takeChanged() []int32 {
	all := g.changed
	g.changed = nil
	for _, i := range all {
		g.isNew[i] = false
	}
	return all
}

// update adjusts the counters after a change of node i's state or intention.
func (g *gauge) update(i int32, recs []Record) {
	g.recheck(i)
	g.forward(i, recs)
	g.backward(i, recs)
}

func (g *gauge) forward(i int32, recs []Record) {
	for stack := []int32{i}; len(stack) > 0; {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		n := &g.plan.nodes[at]
		now := g.unclear[at] == 0 && done(n, &recs[at])
		if now == g.clear[at] {
			continue
		}
		g.clear[at] = now
		for _, to := range n.succ {
			if now {
				g.unclear[to]--
			} else {
				g.unclear[to]++
			}
			if g.unclear[to] == 0 {
				g.recheck(to)
			}
			if g.unclear[to] == 0 || g.clear[to] {
				stack = append(stack, to)
			}
		}
	}
}

func (g *gauge) backward(i int32, recs []Record) {
	for stack := []int32{i}; len(stack) > 0; {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		n := &g.plan.nodes[at]
		now := g.unquiet[at] == 0 && undone(n, &recs[at])
		if now == g.quiet[at] {
			continue
		}
		g.quiet[at] = now
		for _, to := range n.pred {
			if now {
				g.unquiet[to]--
			} else {
				g.unquiet[to]++
			}
			if g.unquiet[to] == 0 {
				g.recheck(to)
			}
			if g.unquiet[to] == 0 || g.quiet[to] {
				stack = append(stack, to)
			}
		}
	}
}
