package draw

import (
	"math"
	"slices"

	"github.com/stagepost/stagepost/flow"
)

// cell is something that has a column on a rank of a graph flow: an item, the label of a link, or the lane of links that pass.
type cell struct {
	block    *block // nil: a lane or label
	label    *tag   // nil: a lane or item
	rank     int
	w, h     float64
	x        float64 // centre
	top      float64
	pos      int // place in the rank
	up, down []*wire
}

// wire joins cells of neighbouring ranks.
type wire struct {
	top, bottom   *cell
	xTop, xBottom float64
	dashed        bool
}

// sheet is the layout of one connected component.
type sheet struct {
	ranks   [][]*cell
	wires   []*wire
	tops    []float64 // of each rank's band
	bottoms []float64
	lanes   map[laneKey]*cell
	joined  map[[2]*cell]*wire
}

// laneKey names the lane that plain links to one item share on a rank.
type laneKey struct{ item, rank int }

// layers lays out the items of a graph flow: each component in ranks by the longest way to it, the components side by side.
func (b *block) layers() *block {
	links := needed(len(b.items), b.part.links)
	rank := ranksOf(len(b.items), links)
	var parts []*block
	for _, members := range components(len(b.items), links) {
		part := &block{}
		if len(members) == 1 {
			part.items = []*block{b.items[members[0]]}
			part.w, part.h = part.items[0].w, part.items[0].h
		} else {
			sheetOf(b.items, members, links, rank).onto(part)
		}
		parts = append(parts, part)
	}
	inner := &block{}
	inner.w, inner.h = pack(parts)
	for _, part := range parts {
		b.strokes = append(b.strokes, part.strokes...)
		b.labels = append(b.labels, part.labels...)
	}
	return inner
}

// needed leaves out the links without a decider that follow from others: the picture shows the same order without them.
func needed(n int, links []flow.OutlinedLink) []flow.OutlinedLink {
	out := make([][]flow.OutlinedLink, n)
	for _, l := range links {
		out[l.From] = append(out[l.From], l)
	}
	words := (n + 63) / 64
	reach := make([][]uint64, n)
	var all []flow.OutlinedLink
	for i := n - 1; i >= 0; i-- {
		slices.SortStableFunc(out[i], func(a, b flow.OutlinedLink) int { return a.To - b.To })
		reach[i] = make([]uint64, words)
		for _, l := range out[i] {
			if l.Depth == "" && reach[i][l.To/64]&(1<<(l.To%64)) != 0 {
				continue
			}
			all = append(all, l)
			reach[i][l.To/64] |= 1 << (l.To % 64)
			for w, bits := range reach[l.To] {
				reach[i][w] |= bits
			}
		}
	}
	slices.SortStableFunc(all, func(a, b flow.OutlinedLink) int { return a.From - b.From })
	return all
}

// ranksOf gives each item the length of the longest way to it; where links have labels, these stand on ranks of their own.
func ranksOf(n int, links []flow.OutlinedLink) []int {
	step := 1
	if slices.ContainsFunc(links, func(l flow.OutlinedLink) bool { return l.Depth != "" }) {
		step = 2
	}
	rank := make([]int, n)
	for _, l := range links { // by From, and all that lead to From are smaller
		rank[l.To] = max(rank[l.To], rank[l.From]+step)
	}
	return rank
}

// components lists the items that hang together, each in order.
func components(n int, links []flow.OutlinedLink) [][]int {
	root := make([]int, n)
	for i := range root {
		root[i] = i
	}
	find := func(i int) int {
		for root[i] != i {
			root[i] = root[root[i]]
			i = root[i]
		}
		return i
	}
	for _, l := range links {
		a, b := find(l.From), find(l.To)
		root[max(a, b)] = min(a, b)
	}
	at := map[int]int{}
	var all [][]int
	for i := range n {
		r := find(i)
		if _, ok := at[r]; !ok {
			at[r] = len(all)
			all = append(all, nil)
		}
		all[at[r]] = append(all[at[r]], i)
	}
	return all
}

func sheetOf(items []*block, members []int, links []flow.OutlinedLink, rank []int) *sheet {
	s := &sheet{lanes: map[laneKey]*cell{}, joined: map[[2]*cell]*wire{}}
	cells := make(map[int]*cell, len(members))
	for _, i := range members {
		cells[i] = s.add(&cell{block: items[i], rank: rank[i], w: items[i].w, h: items[i].h})
	}
	for _, l := range links {
		if from, to := cells[l.From], cells[l.To]; from != nil && to != nil {
			s.route(l, from, to)
		}
	}
	s.order()
	s.align()
	s.ports()
	s.bands()
	return s
}

func (s *sheet) add(c *cell) *cell {
	for len(s.ranks) <= c.rank {
		s.ranks = append(s.ranks, nil)
	}
	c.pos = len(s.ranks[c.rank])
	s.ranks[c.rank] = append(s.ranks[c.rank], c)
	return c
}

// route leads a link along its lanes. Links with a decider have lanes of their own, the first of which is the label.
func (s *sheet) route(l flow.OutlinedLink, from, to *cell) {
	at := from
	for r := from.rank + 1; r < to.rank; r++ {
		next := s.lanes[laneKey{l.To, r}]
		switch {
		case l.Depth != "" && at == from:
			text := "if: " + cut(clean(string(l.Depth)), 12)
			next = s.add(&cell{rank: r, label: &tag{text: text}, w: math.Ceil(textWidth(text)) + 6, h: linePitch})
		case l.Depth != "" || next == nil:
			next = s.add(&cell{rank: r, w: 6})
			if l.Depth == "" {
				s.lanes[laneKey{l.To, r}] = next
			}
		}
		s.join(at, next, l.Depth != "")
		at = next
	}
	s.join(at, to, l.Depth != "")
}

func (s *sheet) join(top, bottom *cell, dashed bool) {
	if s.joined[[2]*cell{top, bottom}] != nil {
		return
	}
	w := &wire{top: top, bottom: bottom, dashed: dashed}
	s.joined[[2]*cell{top, bottom}] = w
	s.wires = append(s.wires, w)
	top.down = append(top.down, w)
	bottom.up = append(bottom.up, w)
}

// ports spreads the ends of wires along the edges of their items, in the order of their other ends.
func (s *sheet) ports() {
	spread := func(c *cell, wires []*wire, far func(*wire) *cell, set func(*wire, float64)) {
		sorted := slices.Clone(wires)
		slices.SortStableFunc(sorted, func(a, b *wire) int { return far(a).pos - far(b).pos })
		pitch := 0.0
		if c.block != nil && len(sorted) > 1 {
			pitch = min(16, (c.w-28)/float64(len(sorted)-1))
		}
		for i, w := range sorted {
			set(w, c.x+pitch*(float64(i)-float64(len(sorted)-1)/2))
		}
	}
	for _, rank := range s.ranks {
		for _, c := range rank {
			spread(c, c.down, func(w *wire) *cell { return w.bottom }, func(w *wire, x float64) { w.xTop = x })
			spread(c, c.up, func(w *wire) *cell { return w.top }, func(w *wire, x float64) { w.xBottom = x })
		}
	}
}

// bands gives each rank its height, and the gaps so much that lines cross them at a fair angle.
func (s *sheet) bands() {
	y := 0.0
	for r, rank := range s.ranks {
		high, far := 0.0, 0.0
		for _, c := range rank {
			high = max(high, c.h)
			for _, w := range c.up {
				far = max(far, math.Abs(w.xTop-w.xBottom))
			}
		}
		if r > 0 {
			y += min(max(drop, far*0.12), 90)
		}
		s.tops, s.bottoms = append(s.tops, y), append(s.bottoms, y+high)
		for _, c := range rank {
			c.top = y + (high-c.h)/2
			if c.block == nil && c.label == nil {
				c.top, c.h = y, high
			}
		}
		y += high
	}
}

// onto moves what was laid out to a block, from 0, 0.
func (s *sheet) onto(b *block) {
	left, right := math.Inf(1), math.Inf(-1)
	for _, rank := range s.ranks {
		for _, c := range rank {
			left, right = min(left, c.x-c.w/2), max(right, c.x+c.w/2)
		}
	}
	b.w, b.h = right-left, s.bottoms[len(s.bottoms)-1]
	for _, rank := range s.ranks {
		for _, c := range rank {
			x := c.x - left
			switch {
			case c.block != nil:
				c.block.shift(x-c.w/2, c.top)
				b.items = append(b.items, c.block)
			case c.label != nil:
				c.label.x, c.label.y, c.label.w, c.label.h = x-c.w/2, c.top, c.w, c.h
				b.labels = append(b.labels, c.label)
			case c.h > 0:
				b.strokes = append(b.strokes, &stroke{x1: x, x2: x, y1: c.top, bend1: c.top, bend2: c.top, y2: c.top + c.h, dashed: len(c.down) > 0 && c.down[0].dashed})
			}
		}
	}
	for _, w := range s.wires {
		k := &stroke{x1: w.xTop - left, x2: w.xBottom - left, y1: w.top.top + w.top.h, y2: w.bottom.top, dashed: w.dashed, head: w.bottom.block != nil,
			from: w.top.block, to: w.bottom.block, label: w.bottom.label}
		if k.label == nil {
			k.label = w.top.label
		}
		k.bend1, k.bend2 = s.bottoms[w.top.rank], s.tops[w.bottom.rank]
		b.strokes = append(b.strokes, k)
	}
}
