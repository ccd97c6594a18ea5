package lifecycle

import (
	"math"
	"slices"
)

// block is a row of nodes, one below the other, that move sideways together so that the line through them is straight.
type block struct {
	nodes       []*node
	x           float64
	left, right []apart // those that must stay to the left and to the right of it
}

// apart says how far a block must be from another.
type apart struct {
	block *block
	by    float64
}

// straighten makes lanes and the way of success vertical: it joins nodes into blocks as far as their order in the ranks
// allows, and moves the blocks to where their other neighbours pull them.
func (l *layout) straighten() {
	of := l.blocks()
	order, _ := l.constrain(of)
	for _, b := range order {
		for _, n := range b.nodes {
			b.x += n.x / float64(len(b.nodes))
		}
	}
	feasible(order)
	for round := range 150 {
		for i := range order {
			if round%2 == 1 {
				i = len(order) - 1 - i
			}
			b := order[i]
			lo, hi := b.room()
			want, _ := b.want(of)
			b.x = max(lo, min(hi, want))
		}
		crowds(order, of)
	}
	for _, b := range order {
		for _, n := range b.nodes {
			n.x = b.x
		}
	}
}

// blocks joins the ends of each straight link if both are free and the order of the columns stays possible.
func (l *layout) blocks() map[*node]*block {
	of := map[*node]*block{}
	for _, rank := range l.ranks {
		for _, n := range rank {
			of[n] = &block{nodes: []*node{n}}
		}
	}
	links := slices.Clone(l.links)
	slices.SortStableFunc(links, func(a, b *link) int { return int(b.straight - a.straight) })
	above, below := map[*node]bool{}, map[*node]bool{}
	for _, k := range links {
		if k.straight < 5 || below[k.top] || above[k.bottom] {
			continue
		}
		top, bottom := of[k.top], of[k.bottom]
		both := &block{nodes: append(slices.Clone(top.nodes), bottom.nodes...)}
		for _, n := range both.nodes {
			of[n] = both
		}
		if _, ok := l.constrain(of); ok {
			below[k.top], above[k.bottom] = true, true
			continue
		}
		for _, n := range top.nodes {
			of[n] = top
		}
		for _, n := range bottom.nodes {
			of[n] = bottom
		}
	}
	return of
}

// constrain notes which block stands beside which and gives the blocks from left to right; ok is false when there is no
// such order.
func (l *layout) constrain(of map[*node]*block) (order []*block, ok bool) {
	var all []*block
	waits := map[*block]int{}
	for _, rank := range l.ranks {
		for _, n := range rank {
			b := of[n]
			if _, seen := waits[b]; !seen {
				waits[b] = 0
				b.left, b.right = nil, nil
				all = append(all, b)
			}
		}
	}
	for _, rank := range l.ranks {
		for i := 1; i < len(rank); i++ {
			a, b := of[rank[i-1]], of[rank[i]]
			by := (rank[i-1].w+rank[i].w)/2 + columnGap
			a.right = append(a.right, apart{b, by})
			b.left = append(b.left, apart{a, by})
			waits[b]++
		}
	}
	for _, b := range all {
		if waits[b] == 0 {
			order = append(order, b)
		}
	}
	for i := 0; i < len(order); i++ {
		for _, r := range order[i].right {
			if waits[r.block]--; waits[r.block] == 0 {
				order = append(order, r.block)
			}
		}
	}
	return order, len(order) == len(all)
}

// feasible moves blocks out of each other: the mean of pushing all to the right and pushing all to the left, each of
// which keeps the distances.
func feasible(order []*block) {
	start := make([]float64, len(order))
	for i, b := range order {
		start[i] = b.x
	}
	for _, b := range order {
		lo, _ := b.room()
		b.x = max(b.x, lo)
	}
	pushed := make([]float64, len(order))
	for i, b := range order {
		pushed[i], b.x = b.x, start[i]
	}
	for _, b := range slices.Backward(order) {
		_, hi := b.room()
		b.x = min(b.x, hi)
	}
	for i, b := range order {
		b.x = (b.x + pushed[i]) / 2
	}
}

// room gives the places a block can take while the others stand still.
func (b *block) room() (lo, hi float64) {
	lo, hi = math.Inf(-1), math.Inf(1)
	for _, l := range b.left {
		lo = max(lo, l.block.x+l.by)
	}
	for _, r := range b.right {
		hi = min(hi, r.block.x-r.by)
	}
	return lo, hi
}

// want gives the place that the neighbours outside pull a block to, and how hard.
func (b *block) want(of map[*node]*block) (x, pull float64) {
	sum := 0.0
	for _, n := range b.nodes {
		for _, k := range n.up {
			if other := of[k.top]; other != b {
				sum, pull = sum+k.straight*other.x, pull+k.straight
			}
		}
		for _, k := range n.down {
			if other := of[k.bottom]; other != b {
				sum, pull = sum+k.straight*other.x, pull+k.straight
			}
		}
	}
	if pull == 0 {
		return b.x, 0
	}
	return sum / pull, pull
}

// crowds moves blocks that touch each other together, because each alone would be held by the next.
func crowds(order []*block, of map[*node]*block) {
	const touch = 0.01
	seen := map[*block]bool{}
	for _, first := range order {
		if seen[first] {
			continue
		}
		seen[first] = true
		crowd := []*block{first}
		for i := 0; i < len(crowd); i++ {
			for _, side := range [][]apart{crowd[i].left, crowd[i].right} {
				for _, s := range side {
					if !seen[s.block] && math.Abs(s.block.x-crowd[i].x) < s.by+touch {
						seen[s.block] = true
						crowd = append(crowd, s.block)
					}
				}
			}
		}
		if len(crowd) > 1 {
			shift(crowd, of)
		}
	}
}

func shift(crowd []*block, of map[*node]*block) {
	sum, weight := 0.0, 0.0
	in := map[*block]bool{}
	for _, b := range crowd {
		in[b] = true
		want, pull := b.want(of)
		sum, weight = sum+(want-b.x)*pull, weight+pull
	}
	if weight == 0 {
		return
	}
	by := sum / weight
	for _, b := range crowd {
		for _, l := range b.left {
			if !in[l.block] {
				by = max(by, l.block.x+l.by-b.x)
			}
		}
		for _, r := range b.right {
			if !in[r.block] {
				by = min(by, r.block.x-r.by-b.x)
			}
		}
	}
	for _, b := range crowd {
		b.x += by
	}
}
