package draw

import (
	"math"
	"slices"

	"github.com/stagepost/stagepost/internal/layered"
	"github.com/stagepost/stagepost/lifecycle"
)

// Measures of the drawing, in pixels.
const (
	margin     = 18.0
	nameSize   = 13.0 // text of a state's name
	wordSize   = 11.0 // text of a label and of loops
	lineHeight = 14.0
	boxHeight  = 32.0
	columnGap  = 14.0 // between the columns of a rank
	portGap    = 12.0 // between the ends of lines at a box
	gapLeast   = 16.0 // between ranks
	gapMost    = 44.0
)

// position is what a node represents.
type place struct {
	stage int               // box: index of the stage
	words []lifecycle.Event // label: one word a line
	loops []lifecycle.Event // box: transitions that stay
	steps []step            // label and lane: the steps that pass here
}

// line is what a link represents.
type line struct {
	steps    []step
	dashed   bool
	headUp   bool // an arrowhead at the top
	headDown bool // an arrowhead at the bottom
}

type (
	node = layered.Node[place, line]
	link = layered.Link[place, line]
)

// layout arranges a lifecycle: states in even ranks, labels in the odd ranks between them. Transitions from many
// states to one share a lane once each has passed its label; so do the branches of a re-entering transition.
type layout struct {
	layered.Sheet[place, line]
	t     *chart
	boxes []*node // by index of the stage
}

// laneKey identifies the lane that steps share on a rank: by their target, or by the source of a re-entering
// transition.
type laneKey struct {
	rank  int
	state lifecycle.State
	event lifecycle.Event // re-entering transitions only
	up    bool
}

// builder makes nodes and links from the transitions of a table.
type builder struct {
	*layout
	lanes  map[laneKey]*node
	labels map[laneKey]*node
}

// layOut positions a table with or without its loops.
func layOut(t *chart, loops bool) *layout {
	b := &builder{layout: &layout{t: t}, lanes: map[laneKey]*node{}, labels: map[laneKey]*node{}}
	b.Measures = layered.Measures{
		Margin: margin, ColumnGap: columnGap, LaneGap: columnGap, PortGap: portGap, PortInset: 8,
		RankGap: func(aside float64) float64 { return math.Round(min(gapMost, gapLeast+aside*0.07)) },
	}
	for i, r := range ranks(t) {
		b.boxes = append(b.boxes, b.Add(&node{Rank: 2 * r, Data: place{stage: i}}))
	}
	for i, s := range t.stages {
		b.transitions(i, s, loops)
	}
	for _, rank := range b.Ranks {
		for _, n := range rank {
			measure(n, t)
		}
	}
	b.Arrange()
	b.Width = math.Ceil(b.Width) + columnGap
	return b.layout
}

// ranks returns for each stage the length of the longest path to it. Transitions against the table's order are
// reversed.
func ranks(t *chart) []int {
	rank := make([]int, len(t.stages))
	above := make([][]int, len(t.stages)) // by stage: the stages above it
	for i, s := range t.stages {
		for _, a := range s.Transitions {
			for _, to := range a.Targets() {
				if j := t.index[to]; j > i {
					above[j] = append(above[j], i)
				} else if j < i {
					above[i] = append(above[i], j)
				}
			}
		}
	}
	for i := range t.stages { // all stages above i come before i
		for _, j := range above[i] {
			rank[i] = max(rank[i], rank[j]+1)
		}
	}
	for i := len(rank) - 1; i > 0; i-- { // a stage that only later states lead to is next to its targets
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

func (b *builder) transitions(i int, s lifecycle.Stage, loops bool) {
	for _, a := range s.Transitions {
		for _, to := range a.Targets() {
			switch {
			case a.Class == lifecycle.Loop && !loops:
			case to == s.State:
				b.boxes[i].Data.loops = append(b.boxes[i].Data.loops, a.Event)
			default:
				b.route(i, a, to)
			}
		}
	}
}

// route draws a transition from its box through its label and along its lanes to the target.
func (b *builder) route(i int, a lifecycle.Transition, to lifecycle.State) {
	from, target := b.boxes[i], b.boxes[b.t.index[to]]
	st := step{b.t.stages[i].State, a.Event, to}
	up, by := target.Rank < from.Rank, 1
	if up {
		by = -1
	}
	key := laneKey{state: to, up: up}
	label := laneKey{rank: i, state: to, up: up}
	if a.Class == lifecycle.Reenter {
		key = laneKey{state: st.from, event: a.Event, up: up}
		label = laneKey{rank: i, state: st.from, event: a.Event, up: up}
	}
	at := from
	for r := from.Rank + by; r != target.Rank; r += by {
		key.rank = r
		next := b.lanes[key]
		if r == from.Rank+by {
			next = b.labels[label]
		}
		if next == nil {
			next = &node{Kind: layered.Lane, Rank: r}
			if r == from.Rank+by {
				next.Kind = layered.Label
				b.labels[label] = next
			} else {
				b.lanes[key] = next
			}
			b.Add(next)
		}
		if next.Kind == layered.Label && !slices.Contains(next.Data.words, a.Event) {
			next.Data.words = append(next.Data.words, a.Event)
		}
		next.Data.steps = append(next.Data.steps, st)
		b.lead(at, next, st, a.Class)
		at = next
	}
	b.lead(at, target, st, a.Class)
}

// lead links two nodes in the direction of the transition.
func (b *builder) lead(from, to *node, st step, c lifecycle.Class) {
	top, bottom := from, to
	if from.Rank > to.Rank {
		top, bottom = to, from
	}
	l, fresh := b.Join(top, bottom)
	l.Data.steps = append(l.Data.steps, st)
	l.Data.dashed = (fresh || l.Data.dashed) && c == lifecycle.Reenter
	if to.Kind == layered.Box {
		l.Data.headDown = l.Data.headDown || to == bottom
		l.Data.headUp = l.Data.headUp || to == top
	}
	switch {
	case top.Kind == layered.Lane && bottom.Kind == layered.Lane:
		l.Pull = 8
	case c == lifecycle.Pass && from.Rank < to.Rank:
		l.Pull = max(l.Pull, layered.Straight)
	default:
		l.Pull = max(l.Pull, 1)
	}
}

// measure sets the size of a node.
func measure(n *node, t *chart) {
	switch n.Kind {
	case layered.Box:
		n.W = max(86, textWidth(string(t.stages[n.Data.stage].State), nameSize)*1.1+24)
		n.H = boxHeight
		for _, e := range n.Data.loops {
			n.W = max(n.W, textWidth("↻ "+string(e), wordSize)+24)
			n.H += lineHeight
		}
		n.W = max(n.W, float64(max(len(n.Up), len(n.Down))+1)*portGap)
	case layered.Label:
		for _, word := range n.Data.words {
			n.W = max(n.W, textWidth(string(word), wordSize)+8)
		}
		n.H = float64(len(n.Data.words))*lineHeight + 2
	case layered.Lane:
		n.W, n.H = 2, 0
	}
}

// textWidth estimates the width of a text in a sans-serif face. It errs on the wide side.
func textWidth(s string, size float64) float64 {
	w := 0.0
	for _, r := range s {
		switch {
		case r > 0x2E80: // ideographs and other full-width signs
			w += 1.05
		case r == 'm' || r == 'w' || r == 'M' || r == 'W' || r > 0x7F:
			w += 0.98
		case r >= 'A' && r <= 'Z':
			w += 0.74
		case r == 'i' || r == 'j' || r == 'l' || r == ' ' || r == '.':
			w += 0.36
		default:
			w += 0.64
		}
	}
	return w * size
}
