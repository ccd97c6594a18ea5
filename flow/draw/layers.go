package draw

import (
	"cmp"
	"math"
	"slices"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/internal/layered"
)

// cell is what a node of a graph flow stands for: an item, the label of a link, or the lane of links that pass.
type cell struct {
	block *block // of an item
	label *tag   // of a label
}

// node is a node of the layout. The data of a link states whether it is dashed.
type node = layered.Node[cell, bool]

// sheet is the layout of one connected component.
type sheet struct {
	layered.Sheet[cell, bool]
	lanes map[laneKey]*node
}

// laneKey names the lane that plain links to one item share on a rank.
type laneKey struct{ item, rank int }

// layers lays out the items of a graph flow: each component in ranks by the longest way to it, the components side by
// side.
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

// ranksOf gives each item the length of the longest path to it. Labels of links have ranks of their own.
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
	s := &sheet{lanes: map[laneKey]*node{}}
	s.Measures = layered.Measures{
		ColumnGap: gutter, LaneGap: 8, PortGap: 16, PortInset: 14, PortsCentred: true,
		RankGap: func(aside float64) float64 { return min(max(drop, aside*0.12), 90) },
	}
	nodes := make(map[int]*node, len(members))
	for _, i := range members {
		nodes[i] = s.Add(&node{Rank: rank[i], W: items[i].w, H: items[i].h, Data: cell{block: items[i]}})
	}
	for _, l := range links {
		if from, to := nodes[l.From], nodes[l.To]; from != nil && to != nil {
			s.route(l, from, to)
		}
	}
	s.Arrange()
	return s
}

// route leads a link along its lanes. Links with a decider have lanes of their own, the first of which is the label.
func (s *sheet) route(l flow.OutlinedLink, from, to *node) {
	at := from
	for r := from.Rank + 1; r < to.Rank; r++ {
		next := s.lanes[laneKey{l.To, r}]
		switch {
		case l.Depth != "" && at == from:
			text := "if: " + cut(clean(string(l.Depth)), 12)
			w := math.Ceil(textWidth(text)) + 6
			next = s.Add(&node{Kind: layered.Label, Rank: r, W: w, H: linePitch, Data: cell{label: &tag{text: text}}})
		case l.Depth != "" || next == nil:
			next = s.Add(&node{Kind: layered.Lane, Rank: r, W: 6})
			if l.Depth == "" {
				s.lanes[laneKey{l.To, r}] = next
			}
		}
		s.join(at, next, l.Depth != "")
		at = next
	}
	s.join(at, to, l.Depth != "")
}

func (s *sheet) join(top, bottom *node, dashed bool) {
	l, fresh := s.Join(top, bottom)
	if !fresh {
		return
	}
	l.Data, l.Pull = dashed, 1
	switch {
	case top.Kind != layered.Box && bottom.Kind != layered.Box:
		l.Pull = layered.Straight + 3
	case top.Kind != layered.Box && dashed:
		l.Pull = layered.Straight
	case top.Kind != layered.Box:
		l.Pull = layered.Straight + 1
	}
}

// onto moves what was laid out to a block, from 0, 0.
func (s *sheet) onto(b *block) {
	b.w, b.h = s.Width, s.Height
	for _, rank := range s.Ranks {
		for _, n := range rank {
			left, top := n.X-n.W/2, s.Top(n)
			switch c := n.Data; {
			case c.block != nil:
				c.block.shift(left, top)
				b.items = append(b.items, c.block)
			case c.label != nil:
				c.label.x, c.label.y, c.label.w, c.label.h = left, top, n.W, n.H
				b.labels = append(b.labels, c.label)
			case s.Bottom(n) > top:
				b.strokes = append(b.strokes, &stroke{
					x1: n.X, x2: n.X, y1: top, bend1: top, bend2: top, y2: s.Bottom(n),
					dashed: len(n.Down) > 0 && n.Down[0].Data,
				})
			}
		}
	}
	for _, l := range s.Links {
		top, bottom := l.Top.Data, l.Bottom.Data
		b.strokes = append(b.strokes, &stroke{
			x1: l.XTop, x2: l.XBottom, y1: s.Bottom(l.Top), bend1: s.Bottoms[l.Top.Rank], bend2: s.Tops[l.Bottom.Rank],
			y2:     s.Top(l.Bottom),
			dashed: l.Data, head: bottom.block != nil, from: top.block, to: bottom.block,
			label: cmp.Or(bottom.label, top.label),
		})
	}
}
