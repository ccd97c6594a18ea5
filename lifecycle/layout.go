package lifecycle

import "slices"

// The layout of the SVG drawing. States stand in even ranks, labels in the odd ranks between them, and an arrow that
// passes a rank has a lane there, so that everything on a rank has a column of its own. Lines leave their column only in
// the gaps between the ranks. That is why no line can cross a box or another arrow's label: it holds by construction.
//
// Arrows from many states to one share a lane once each has passed its label; so do the branches of a re-entering arrow.

type nodeKind int

const (
	boxNode nodeKind = iota
	labelNode
	laneNode
)

// node is something that has a column on a rank.
type node struct {
	kind     nodeKind
	rank     int
	stage    int     // box: index of the stage
	words    []Event // label: one word a line
	loops    []Event // box: arrows that stay
	steps    []step  // label and lane: what passes here
	w, h     float64
	x        float64 // centre
	pos      int     // place in the rank
	up, down []*link
}

// link joins two nodes of neighbouring ranks.
type link struct {
	top, bottom   *node
	steps         []step
	dashed        bool
	straight      float64 // how much it wants to be vertical
	headUp        bool    // an arrow head at the top
	headDown      bool    // an arrow head at the bottom
	xTop, xBottom float64
}

type layout struct {
	t             *Table
	ranks         [][]*node
	boxes         []*node // by index of the stage
	links         []*link
	tops, bottoms []float64 // of each rank's band
	width, height float64
}

type pair struct{ top, bottom *node }

// laneKey names the lane that steps share on a rank: by where they lead, or by where a re-entering arrow comes from.
type laneKey struct {
	rank  int
	state State
	event Event // re-entering arrows only
	up    bool
}

// builder makes nodes and links from the arrows of a table.
type builder struct {
	*layout
	lanes  map[laneKey]*node
	labels map[laneKey]*node
	joined map[pair]*link
}

// layOut places a table with or without its loops.
func layOut(t *Table, loops bool) *layout {
	b := &builder{
		layout: &layout{t: t},
		lanes:  map[laneKey]*node{}, labels: map[laneKey]*node{}, joined: map[pair]*link{},
	}
	b.place(ranks(t))
	for i, s := range t.stages {
		b.arrows(i, s, loops)
	}
	for _, rank := range b.ranks {
		for _, n := range rank {
			n.measure(t)
		}
	}
	b.order()
	b.columns()
	b.ports()
	b.bands()
	return b.layout
}

// ranks gives each stage the length of the longest way to it, arrows against the table's order counted backwards.
func ranks(t *Table) []int {
	rank := make([]int, len(t.stages))
	above := make([][]int, len(t.stages)) // by stage: those that stand above it
	for i, s := range t.stages {
		for _, a := range s.Arrows {
			for _, to := range a.Targets() {
				if j := t.index[to]; j > i {
					above[j] = append(above[j], i)
				} else if j < i {
					above[i] = append(above[i], j)
				}
			}
		}
	}
	for i := range t.stages { // all that stand above i come before i
		for _, j := range above[i] {
			rank[i] = max(rank[i], rank[j]+1)
		}
	}
	for i := len(rank) - 1; i > 0; i-- { // one that only later states lead to stands next to those it leads to
		if len(above[i]) > 0 {
			continue
		}
		lowest := -1
		for j := range t.stages {
			if slices.Contains(above[j], i) && (lowest < 0 || rank[j]-1 < lowest) {
				lowest = rank[j] - 1
			}
		}
		rank[i] = max(rank[i], lowest)
	}
	return rank
}

func (b *builder) place(rank []int) {
	for i, r := range rank {
		n := &node{kind: boxNode, rank: 2 * r, stage: i}
		b.boxes = append(b.boxes, n)
		b.add(n)
	}
}

func (b *builder) add(n *node) {
	for len(b.ranks) <= n.rank {
		b.ranks = append(b.ranks, nil)
	}
	n.pos = len(b.ranks[n.rank])
	b.ranks[n.rank] = append(b.ranks[n.rank], n)
}

func (b *builder) arrows(i int, s Stage, loops bool) {
	for _, a := range s.Arrows {
		for _, to := range a.Targets() {
			switch {
			case a.Class == Loop && !loops:
			case to == s.State:
				b.boxes[i].loops = append(b.boxes[i].loops, a.Event)
			default:
				b.route(i, a, to)
			}
		}
	}
}

// route leads an arrow from its box through its label and along its lanes to the target.
func (b *builder) route(i int, a Arrow, to State) {
	from, target := b.boxes[i], b.boxes[b.t.index[to]]
	st := step{b.t.stages[i].State, a.Event, to}
	up, by := target.rank < from.rank, 1
	if up {
		by = -1
	}
	key := laneKey{state: to, up: up}
	label := laneKey{rank: i, state: to, up: up}
	if a.Class == Reenter {
		key = laneKey{state: st.from, event: a.Event, up: up}
		label = laneKey{rank: i, state: st.from, event: a.Event, up: up}
	}
	at := from
	for r := from.rank + by; r != target.rank; r += by {
		key.rank = r
		next := b.lanes[key]
		if r == from.rank+by {
			next = b.labels[label]
		}
		if next == nil {
			next = &node{kind: laneNode, rank: r}
			if r == from.rank+by {
				next.kind = labelNode
				b.labels[label] = next
			} else {
				b.lanes[key] = next
			}
			b.add(next)
		}
		if next.kind == labelNode {
			next.word(a.Event)
		}
		next.steps = append(next.steps, st)
		b.join(at, next, st, a.Class)
		at = next
	}
	b.join(at, target, st, a.Class)
}

// word adds a line to a label, once.
func (n *node) word(e Event) {
	for _, w := range n.words {
		if w == e {
			return
		}
	}
	n.words = append(n.words, e)
}

// join links two nodes in the direction of the arrow.
func (b *builder) join(from, to *node, st step, c Class) {
	top, bottom := from, to
	if from.rank > to.rank {
		top, bottom = to, from
	}
	l := b.joined[pair{top, bottom}]
	if l == nil {
		l = &link{top: top, bottom: bottom, dashed: true}
		b.joined[pair{top, bottom}] = l
		b.links = append(b.links, l)
		top.down = append(top.down, l)
		bottom.up = append(bottom.up, l)
	}
	l.steps = append(l.steps, st)
	l.dashed = l.dashed && c == Reenter
	if to.kind == boxNode {
		l.headDown = l.headDown || to == bottom
		l.headUp = l.headUp || to == top
	}
	switch {
	case top.kind == laneNode && bottom.kind == laneNode:
		l.straight = 8
	case c == Pass && from.rank < to.rank:
		l.straight = max(l.straight, 5)
	default:
		l.straight = max(l.straight, 1)
	}
}
