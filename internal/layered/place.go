package layered

import (
	"math"
	"slices"
)

// columns sets x: every node is put near its neighbours, lanes more than boxes, and columns keep their
// distance. Each rank in turn is moved to its best positions while the others keep theirs.
func (s *Sheet[N, L]) columns(thorough bool) {
	for _, rank := range s.Ranks {
		for i, n := range rank {
			if n.X = n.W / 2; i > 0 {
				n.X = rank[i-1].X + s.distance(rank[i-1], n)
			}
		}
	}
	rounds := 6
	if thorough {
		rounds = 60
	}
	for round := range rounds {
		for i := range s.Ranks {
			r := i
			if round%2 == 1 {
				r = len(s.Ranks) - 1 - i
			}
			s.settle(s.Ranks[r], thorough || round%2 == 0, thorough || round%2 == 1)
		}
	}
	if thorough {
		s.straighten()
	}
	left, right := math.Inf(1), math.Inf(-1)
	for _, rank := range s.Ranks {
		for _, n := range rank {
			left, right = min(left, n.X-n.W/2), max(right, n.X+n.W/2)
		}
	}
	for _, rank := range s.Ranks {
		for _, n := range rank {
			n.X = math.Round(n.X - left + s.Margin)
		}
	}
	s.Width = right - left + 2*s.Margin
}

// settle moves one rank as near as possible to its neighbours above, below or on both sides.
func (s *Sheet[N, L]) settle(rank []*Node[N, L], above, below bool) {
	want := make([]float64, len(rank))
	pull := make([]float64, len(rank))
	apart := make([]float64, len(rank))
	for i, n := range rank {
		sum, weight := 0.0, 0.0
		for _, k := range n.Up {
			if above {
				sum, weight = sum+k.Pull*k.Top.X, weight+k.Pull
			}
		}
		for _, k := range n.Down {
			if below {
				sum, weight = sum+k.Pull*k.Bottom.X, weight+k.Pull
			}
		}
		want[i], pull[i] = n.X, 0.01
		if weight > 0 {
			want[i], pull[i] = sum/weight, weight
		}
		if i > 0 {
			apart[i] = s.distance(rank[i-1], n)
		}
	}
	for i, x := range spread(want, pull, apart) {
		rank[i].X = x
	}
}

// spread returns the positions nearest to want, by the squares of the distances times pull. Each is at least apart[i]
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
func (s *Sheet[N, L]) ports() {
	for _, k := range s.Links {
		k.XTop, k.XBottom = k.Top.X, k.Bottom.X
	}
	for _, rank := range s.Ranks {
		for _, n := range rank {
			if n.Kind == Box {
				s.dock(n)
			}
		}
	}
}

// dock sets the ends of the lines at a box.
func (s *Sheet[N, L]) dock(b *Node[N, L]) {
	up, down := slices.Clone(b.Up), slices.Clone(b.Down)
	slices.SortStableFunc(up, func(a, c *Link[N, L]) int { return a.Top.pos - c.Top.pos })
	slices.SortStableFunc(down, func(a, c *Link[N, L]) int { return a.Bottom.pos - c.Bottom.pos })
	for i, x := range s.along(b, up, func(k *Link[N, L]) float64 { return k.Top.X }) {
		up[i].XBottom = x
	}
	for i, x := range s.along(b, down, func(k *Link[N, L]) float64 { return k.Bottom.X }) {
		down[i].XTop = x
	}
}

// along gives the ends of links at one edge of a box, each as near as can be to its other end.
func (s *Sheet[N, L]) along(n *Node[N, L], links []*Link[N, L], other func(*Link[N, L]) float64) []float64 {
	half, gap := n.W/2-s.PortInset, s.PortGap
	if len(links) > 1 {
		gap = min(gap, 2*half/float64(len(links)-1))
	}
	if s.PortsCentred {
		half = gap * float64(len(links)-1) / 2
	}
	want := make([]float64, len(links))
	pull := make([]float64, len(links))
	apart := make([]float64, len(links))
	for i, k := range links {
		want[i], pull[i], apart[i] = min(max(other(k), n.X-half), n.X+half), k.Pull, gap
	}
	x := spread(want, pull, apart)
	for i := range x { // a crowd at one edge is moved inwards
		x[i] = max(x[i], n.X-half+float64(i)*gap)
	}
	for i := range x {
		j := len(x) - 1 - i
		x[j] = min(x[j], n.X+half-float64(i)*gap)
	}
	return x
}

// bands sets y: the height of each rank, and gaps that are wider where lines go far aside.
func (s *Sheet[N, L]) bands() {
	y := s.Margin
	for r, rank := range s.Ranks {
		height, aside, lines := 0.0, 0.0, false
		for _, n := range rank {
			height = max(height, n.H)
			for _, k := range n.Down {
				aside, lines = max(aside, math.Abs(k.XTop-k.XBottom)), true
			}
		}
		s.Tops, s.Bottoms = append(s.Tops, y), append(s.Bottoms, y+height)
		y += height
		if lines && r+1 < len(s.Ranks) {
			y += s.RankGap(aside)
		}
	}
	s.Height = y + s.Margin
}
