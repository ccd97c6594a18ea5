package draw

import (
	"cmp"
	"slices"
)

// sweeps is how often the ranks are sorted and aligned, downwards and upwards.
const sweeps = 6

// order sorts the cells of each rank by where their neighbours stand, and keeps the order with the fewest crossings.
func (s *sheet) order() {
	best, least := s.save(), s.crossings()
	for k := 0; k < sweeps && least > 0; k++ {
		for i := range s.ranks {
			if k%2 == 0 {
				s.sort(i, func(c *cell) []*wire { return c.up }, func(w *wire) *cell { return w.top })
			} else {
				s.sort(len(s.ranks)-1-i, func(c *cell) []*wire { return c.down }, func(w *wire) *cell { return w.bottom })
			}
		}
		if n := s.crossings(); n < least {
			best, least = s.save(), n
		}
	}
	s.ranks = best
	for _, rank := range s.ranks {
		for i, c := range rank {
			c.pos = i
		}
	}
}

func (s *sheet) save() [][]*cell {
	ranks := make([][]*cell, len(s.ranks))
	for i := range s.ranks {
		ranks[i] = slices.Clone(s.ranks[i])
	}
	return ranks
}

// sort orders a rank by the mean place of the neighbours; who has none stays about where it is.
func (s *sheet) sort(rank int, wires func(*cell) []*wire, far func(*wire) *cell) {
	cells := s.ranks[rank]
	mean := make(map[*cell]float64, len(cells))
	for _, c := range cells {
		mean[c] = float64(c.pos)
		if all := wires(c); len(all) > 0 {
			sum := 0
			for _, w := range all {
				sum += far(w).pos
			}
			mean[c] = float64(sum) / float64(len(all))
		}
	}
	slices.SortStableFunc(cells, func(a, b *cell) int { return cmp.Compare(mean[a], mean[b]) })
	for i, c := range cells {
		c.pos = i
	}
}

// crossings counts the pairs of wires that cross: the inversions between neighbouring ranks.
func (s *sheet) crossings() int {
	total := 0
	for r := 1; r < len(s.ranks); r++ {
		var ends []int
		for _, c := range s.ranks[r-1] {
			from := len(ends)
			for _, w := range c.down {
				ends = append(ends, w.bottom.pos)
			}
			slices.Sort(ends[from:])
		}
		tree := make([]int, len(s.ranks[r])+1) // sums of those seen, by place (Fenwick)
		for seen, e := range ends {
			upTo := 0
			for i := e + 1; i > 0; i &= i - 1 {
				upTo += tree[i]
			}
			total += seen - upTo
			for i := e + 1; i < len(tree); i += i & -i {
				tree[i]++
			}
		}
	}
	return total
}

// align gives the cells their columns: near their neighbours, in their order, with room between them.
func (s *sheet) align() {
	for _, rank := range s.ranks {
		x := 0.0
		for i, c := range rank {
			if i > 0 {
				x += apart(rank[i-1], c)
			}
			c.x = x
		}
	}
	for k := range sweeps {
		for i := range s.ranks {
			if k%2 == 0 {
				settle(s.ranks[i], func(c *cell) []*wire { return c.up }, func(w *wire) *cell { return w.top })
			} else {
				settle(s.ranks[len(s.ranks)-1-i], func(c *cell) []*wire { return c.down }, func(w *wire) *cell { return w.bottom })
			}
		}
	}
}

// apart is how far the centres of neighbours must be from each other.
func apart(a, b *cell) float64 {
	if a.block == nil && b.block == nil {
		return (a.w+b.w)/2 + 8
	}
	return (a.w+b.w)/2 + gutter
}

// pool is a run of cells that stand as close as they may.
type pool struct {
	sum, weight float64
	from        int
}

// settle moves the cells of a rank to the mean of their neighbours as far as order and room allow, with the least sum of squares
// (isotonic regression by pooling adjacent violators).
func settle(rank []*cell, wires func(*cell) []*wire, far func(*wire) *cell) {
	var pools []pool
	offset := make([]float64, len(rank))
	for i, c := range rank {
		if i > 0 {
			offset[i] = offset[i-1] + apart(rank[i-1], c)
		}
		want, weight := c.x, 0.1
		if all := wires(c); len(all) > 0 {
			want, weight = 0, 1
			for _, w := range all {
				want += far(w).x
			}
			want /= float64(len(all))
			if c.block == nil {
				weight = 4
			}
		}
		pools = append(pools, pool{(want - offset[i]) * weight, weight, i})
		for n := len(pools); n > 1 && pools[n-2].sum*pools[n-1].weight > pools[n-1].sum*pools[n-2].weight; n = len(pools) {
			pools[n-2].sum += pools[n-1].sum
			pools[n-2].weight += pools[n-1].weight
			pools = pools[:n-1]
		}
	}
	for k, p := range pools {
		to := len(rank)
		if k+1 < len(pools) {
			to = pools[k+1].from
		}
		for i := p.from; i < to; i++ {
			rank[i].x = p.sum/p.weight + offset[i]
		}
	}
}
