package layered

import (
	"math"
	"slices"
)

// block is a row of nodes, one below the other, that move sideways together so that the line through them is straight.
type block[N, L any] struct {
	nodes       []*Node[N, L]
	x           float64
	left, right []apart[N, L] // those that must stay to the left and to the right of it
}

// apart is how far a block must be from another.
type apart[N, L any] struct {
	block *block[N, L]
	by    float64
}

// straighten makes lanes and the way of success vertical: it joins nodes into blocks as far as their order in the ranks
// allows, and moves the blocks to where their other neighbours pull them.
func (s *Sheet[N, L]) straighten() {
	of := s.blocks()
	order, _ := s.constrain(of)
	for _, b := range order {
		for _, n := range b.nodes {
			b.x += n.X / float64(len(b.nodes))
		}
	}
	feasible(order)
	for round := range 150 {
		for i := range order {
			if round%2 == 1 {
				i = len(order) - 1 - i
			}
			b := order[i]
			lo, hi := b.bounds()
			want, _ := b.want(of)
			b.x = max(lo, min(hi, want))
		}
		crowds(order, of)
	}
	for _, b := range order {
		for _, n := range b.nodes {
			n.X = b.x
		}
	}
}

// blocks joins the ends of each straight link if both are free and the order of the columns stays possible.
func (s *Sheet[N, L]) blocks() map[*Node[N, L]]*block[N, L] {
	of := map[*Node[N, L]]*block[N, L]{}
	for _, rank := range s.Ranks {
		for _, n := range rank {
			of[n] = &block[N, L]{nodes: []*Node[N, L]{n}}
		}
	}
	links := slices.Clone(s.Links)
	slices.SortStableFunc(links, func(a, b *Link[N, L]) int { return int(b.Pull - a.Pull) })
	above, below := map[*Node[N, L]]bool{}, map[*Node[N, L]]bool{}
	for _, k := range links {
		if k.Pull < Straight || below[k.Top] || above[k.Bottom] {
			continue
		}
		top, bottom := of[k.Top], of[k.Bottom]
		both := &block[N, L]{nodes: append(slices.Clone(top.nodes), bottom.nodes...)}
		for _, n := range both.nodes {
			of[n] = both
		}
		if _, ok := s.constrain(of); ok {
			below[k.Top], above[k.Bottom] = true, true
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
func (s *Sheet[N, L]) constrain(of map[*Node[N, L]]*block[N, L]) (order []*block[N, L], ok bool) {
	var all []*block[N, L]
	waits := map[*block[N, L]]int{}
	for _, rank := range s.Ranks {
		for _, n := range rank {
			b := of[n]
			if _, seen := waits[b]; !seen {
				waits[b] = 0
				b.left, b.right = nil, nil
				all = append(all, b)
			}
		}
	}
	for _, rank := range s.Ranks {
		for i := 1; i < len(rank); i++ {
			a, b := of[rank[i-1]], of[rank[i]]
			by := s.distance(rank[i-1], rank[i])
			a.right = append(a.right, apart[N, L]{b, by})
			b.left = append(b.left, apart[N, L]{a, by})
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
func feasible[N, L any](order []*block[N, L]) {
	start := make([]float64, len(order))
	for i, b := range order {
		start[i] = b.x
	}
	for _, b := range order {
		lo, _ := b.bounds()
		b.x = max(b.x, lo)
	}
	pushed := make([]float64, len(order))
	for i, b := range order {
		pushed[i], b.x = b.x, start[i]
	}
	for _, b := range slices.Backward(order) {
		_, hi := b.bounds()
		b.x = min(b.x, hi)
	}
	for i, b := range order {
		b.x = (b.x + pushed[i]) / 2
	}
}

// bounds returns how far a block can move while the others keep their positions.
func (b *block[N, L]) bounds() (lo, hi float64) {
	lo, hi = math.Inf(-1), math.Inf(1)
	for _, l := range b.left {
		lo = max(lo, l.block.x+l.by)
	}
	for _, r := range b.right {
		hi = min(hi, r.block.x-r.by)
	}
	return lo, hi
}

// want returns the position that the neighbours outside pull a block to, and how hard.
func (b *block[N, L]) want(of map[*Node[N, L]]*block[N, L]) (x, pull float64) {
	sum := 0.0
	for _, n := range b.nodes {
		for _, k := range n.Up {
			if other := of[k.Top]; other != b {
				sum, pull = sum+k.Pull*other.x, pull+k.Pull
			}
		}
		for _, k := range n.Down {
			if other := of[k.Bottom]; other != b {
				sum, pull = sum+k.Pull*other.x, pull+k.Pull
			}
		}
	}
	if pull == 0 {
		return b.x, 0
	}
	return sum / pull, pull
}

// crowds moves blocks that touch each other together, because each alone would be held by the next.
func crowds[N, L any](order []*block[N, L], of map[*Node[N, L]]*block[N, L]) {
	const touch = 0.01
	seen := map[*block[N, L]]bool{}
	for _, first := range order {
		if seen[first] {
			continue
		}
		seen[first] = true
		crowd := []*block[N, L]{first}
		for i := 0; i < len(crowd); i++ {
			for _, side := range [][]apart[N, L]{crowd[i].left, crowd[i].right} {
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

func shift[N, L any](crowd []*block[N, L], of map[*Node[N, L]]*block[N, L]) {
	sum, weight := 0.0, 0.0
	in := map[*block[N, L]]bool{}
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
