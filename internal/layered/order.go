package layered

import (
	"cmp"
	"slices"
)

// order sets the order within the ranks so that few lines cross: sweeps by barycentre, then exchanges of neighbours.
// The best arrangement met is kept.
func (s *Sheet[N, L]) order(thorough bool) {
	sweeps, rounds := 6, 0
	if thorough {
		sweeps, rounds = 24, 8
	}
	best, fewest := s.arrangement(), s.crossings()
	for sweep := 0; sweep < sweeps && fewest > 0; sweep++ {
		if sweep%2 == 0 {
			for r := 1; r < len(s.Ranks); r++ {
				s.sortRank(r, true)
			}
		} else {
			for r := len(s.Ranks) - 2; r >= 0; r-- {
				s.sortRank(r, false)
			}
		}
		for round := 0; round < rounds && s.exchange(); round++ {
		}
		if n := s.crossings(); n < fewest {
			best, fewest = s.arrangement(), n
		}
	}
	s.Ranks = best
	for _, rank := range best {
		number(rank)
	}
}

func (s *Sheet[N, L]) arrangement() [][]*Node[N, L] {
	all := make([][]*Node[N, L], len(s.Ranks))
	for i, rank := range s.Ranks {
		all[i] = slices.Clone(rank)
	}
	return all
}

func number[N, L any](rank []*Node[N, L]) {
	for i, n := range rank {
		n.pos = i
	}
}

// sortRank orders a rank by where the neighbours in the rank above or below stand.
func (s *Sheet[N, L]) sortRank(r int, above bool) {
	rank := s.Ranks[r]
	key := make(map[*Node[N, L]]float64, len(rank))
	for i, n := range rank {
		sum, count := 0.0, 0.0
		for _, other := range n.neighbours(above) {
			size := float64(max(1, len(s.Ranks[other.Rank])-1))
			sum += float64(other.pos) / size
			count++
		}
		key[n] = float64(i) / float64(max(1, len(rank)-1))
		if count > 0 {
			key[n] = sum / count
		}
	}
	slices.SortStableFunc(rank, func(a, b *Node[N, L]) int { return cmp.Compare(key[a], key[b]) })
	number(rank)
}

func (n *Node[N, L]) neighbours(above bool) []*Node[N, L] {
	var others []*Node[N, L]
	if above {
		for _, l := range n.Up {
			others = append(others, l.Top)
		}
		return others
	}
	for _, l := range n.Down {
		others = append(others, l.Bottom)
	}
	return others
}

// exchange swaps neighbours where that saves crossings, and reports whether any did.
func (s *Sheet[N, L]) exchange() bool {
	better := false
	for _, rank := range s.Ranks {
		for i := 0; i+1 < len(rank); i++ {
			a, b := rank[i], rank[i+1]
			now := between(a.neighbours(true), b.neighbours(true)) + between(a.neighbours(false), b.neighbours(false))
			then := between(b.neighbours(true), a.neighbours(true)) + between(b.neighbours(false), a.neighbours(false))
			if then < now {
				rank[i], rank[i+1] = b, a
				a.pos, b.pos = i+1, i
				better = true
			}
		}
	}
	return better
}

// between counts the crossings of the lines of two nodes of which the first stands to the left.
func between[N, L any](left, right []*Node[N, L]) int {
	n := 0
	for _, a := range left {
		for _, b := range right {
			if a.pos > b.pos {
				n++
			}
		}
	}
	return n
}

// crossings counts the pairs of links that cross: the inversions between neighbouring ranks.
func (s *Sheet[N, L]) crossings() int {
	total := 0
	for r := 1; r < len(s.Ranks); r++ {
		var ends []int
		for _, n := range s.Ranks[r-1] {
			from := len(ends)
			for _, l := range n.Down {
				ends = append(ends, l.Bottom.pos)
			}
			slices.Sort(ends[from:])
		}
		tree := make([]int, len(s.Ranks[r])+1) // sums of those seen, by position (Fenwick)
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
