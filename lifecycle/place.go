package lifecycle

import (
	"math"
	"slices"
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

// measure gives a node its size.
func (n *node) measure(t *Table) {
	switch n.kind {
	case boxNode:
		n.w = max(86, textWidth(string(t.stages[n.stage].State), nameSize)*1.1+24)
		n.h = boxHeight
		for _, e := range n.loops {
			n.w = max(n.w, textWidth("↻ "+string(e), wordSize)+24)
			n.h += lineHeight
		}
		n.w = max(n.w, float64(max(len(n.up), len(n.down))+1)*portGap)
	case labelNode:
		for _, word := range n.words {
			n.w = max(n.w, textWidth(string(word), wordSize)+8)
		}
		n.h = float64(len(n.words))*lineHeight + 2
	case laneNode:
		n.w, n.h = 2, 0
	}
}

// textWidth estimates the width of a text in a sans-serif face, rather too wide than too narrow.
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

// columns sets x: every node wants to stand where its neighbours do, lanes more than boxes, and columns keep their
// distance. Each rank in turn takes its best places while the others stand still.
func (l *layout) columns() {
	for _, rank := range l.ranks {
		x := 0.0
		for _, n := range rank {
			n.x = x + n.w/2
			x += n.w + columnGap
		}
	}
	for round := range 60 {
		for i := range l.ranks {
			r := i
			if round%2 == 1 {
				r = len(l.ranks) - 1 - i
			}
			l.settle(l.ranks[r])
		}
	}
	l.straighten()
	left, right := math.Inf(1), math.Inf(-1)
	for _, rank := range l.ranks {
		for _, n := range rank {
			left, right = min(left, n.x-n.w/2), max(right, n.x+n.w/2)
		}
	}
	for _, rank := range l.ranks {
		for _, n := range rank {
			n.x = math.Round(n.x - left + margin)
		}
	}
	l.width = math.Ceil(right-left) + 2*margin + columnGap
}

// settle places one rank as near as it can be to where its neighbours pull it.
func (l *layout) settle(rank []*node) {
	want := make([]float64, len(rank))
	pull := make([]float64, len(rank))
	apart := make([]float64, len(rank))
	for i, n := range rank {
		sum, weight := 0.0, 0.0
		for _, k := range n.up {
			sum, weight = sum+k.straight*k.top.x, weight+k.straight
		}
		for _, k := range n.down {
			sum, weight = sum+k.straight*k.bottom.x, weight+k.straight
		}
		want[i], pull[i] = n.x, 0.01
		if weight > 0 {
			want[i], pull[i] = sum/weight, weight
		}
		if i > 0 {
			apart[i] = (rank[i-1].w+n.w)/2 + columnGap
		}
	}
	for i, x := range spread(want, pull, apart) {
		rank[i].x = x
	}
}

// spread gives the places nearest to want, by the squares of the distances times pull, of which each is at least apart[i]
// to the right of the one before (pool adjacent violators).
func spread(want, pull, apart []float64) []float64 {
	type block struct {
		sum, weight float64
		n           int
	}
	var blocks []block
	offset := make([]float64, len(want))
	for i := range want {
		if i > 0 {
			offset[i] = offset[i-1] + apart[i]
		}
		blocks = append(blocks, block{(want[i] - offset[i]) * pull[i], pull[i], 1})
		for k := len(blocks) - 1; k > 0 && blocks[k-1].sum/blocks[k-1].weight > blocks[k].sum/blocks[k].weight; k-- {
			b := blocks[k]
			blocks[k-1] = block{blocks[k-1].sum + b.sum, blocks[k-1].weight + b.weight, blocks[k-1].n + b.n}
			blocks = blocks[:k]
		}
	}
	var x []float64
	for _, b := range blocks {
		for range b.n {
			x = append(x, b.sum/b.weight+offset[len(x)])
		}
	}
	return x
}

// ports sets where the lines meet the boxes: side by side, each as near as can be to where it goes.
func (l *layout) ports() {
	for _, k := range l.links {
		k.xTop, k.xBottom = k.top.x, k.bottom.x
	}
	for _, b := range l.boxes {
		up, down := slices.Clone(b.up), slices.Clone(b.down)
		slices.SortStableFunc(up, func(a, c *link) int { return a.top.pos - c.top.pos })
		slices.SortStableFunc(down, func(a, c *link) int { return a.bottom.pos - c.bottom.pos })
		for i, x := range b.dock(up, func(k *link) float64 { return k.top.x }) {
			up[i].xBottom = x
		}
		for i, x := range b.dock(down, func(k *link) float64 { return k.bottom.x }) {
			down[i].xTop = x
		}
	}
}

func (n *node) dock(links []*link, other func(*link) float64) []float64 {
	half := n.w/2 - 8
	want := make([]float64, len(links))
	pull := make([]float64, len(links))
	apart := make([]float64, len(links))
	for i, k := range links {
		want[i], pull[i], apart[i] = min(max(other(k), n.x-half), n.x+half), k.straight, portGap
	}
	x := spread(want, pull, apart)
	for i := range x { // a crowd at one edge is moved inwards
		x[i] = max(x[i], n.x-half+float64(i)*portGap)
	}
	for i := range x {
		j := len(x) - 1 - i
		x[j] = min(x[j], n.x+half-float64(i)*portGap)
	}
	return x
}

// bands sets y: the height of each rank, and gaps that are wider where lines go far aside.
func (l *layout) bands() {
	y := margin
	for r, rank := range l.ranks {
		height, aside, lines := 0.0, 0.0, false
		for _, n := range rank {
			height = max(height, n.h)
			for _, k := range n.down {
				aside, lines = max(aside, math.Abs(k.xTop-k.xBottom)), true
			}
		}
		l.tops, l.bottoms = append(l.tops, y), append(l.bottoms, y+height)
		y += height
		if lines && r+1 < len(l.ranks) {
			y += math.Round(min(gapMost, gapLeast+aside*0.07))
		}
	}
	l.height = y + margin
}

// top and bottom are the edges of a node's rectangle; a lane has none and fills its band.
func (l *layout) top(n *node) float64 {
	if n.kind == laneNode {
		return l.tops[n.rank]
	}
	return (l.tops[n.rank] + l.bottoms[n.rank] - n.h) / 2
}

func (l *layout) bottom(n *node) float64 {
	if n.kind == laneNode {
		return l.bottoms[n.rank]
	}
	return (l.tops[n.rank] + l.bottoms[n.rank] + n.h) / 2
}
