package lifecycle

import "slices"

// order sets the places within the ranks so that few lines cross: sweeps by barycentre, then swaps of neighbours, and the
// best arrangement met is kept.
func (l *layout) order() {
	best, fewest := l.places(), l.crossings()
	for sweep := range 24 {
		if sweep%2 == 0 {
			for r := 1; r < len(l.ranks); r++ {
				l.sortRank(r, true)
			}
		} else {
			for r := len(l.ranks) - 2; r >= 0; r-- {
				l.sortRank(r, false)
			}
		}
		for round := 0; round < 8 && l.swaps(); round++ {
		}
		if n := l.crossings(); n < fewest {
			best, fewest = l.places(), n
		}
		if fewest == 0 {
			break
		}
	}
	l.restore(best)
}

func (l *layout) places() [][]*node {
	all := make([][]*node, len(l.ranks))
	for i, rank := range l.ranks {
		all[i] = slices.Clone(rank)
	}
	return all
}

func (l *layout) restore(all [][]*node) {
	l.ranks = all
	for _, rank := range all {
		number(rank)
	}
}

func number(rank []*node) {
	for i, n := range rank {
		n.pos = i
	}
}

// sortRank orders a rank by where the neighbours in the rank above or below stand.
func (l *layout) sortRank(r int, above bool) {
	rank := l.ranks[r]
	key := make(map[*node]float64, len(rank))
	for i, n := range rank {
		sum, count := 0.0, 0.0
		for _, other := range n.neighbours(above) {
			size := float64(max(1, len(l.ranks[other.rank])-1))
			sum += float64(other.pos) / size
			count++
		}
		key[n] = float64(i) / float64(max(1, len(rank)-1))
		if count > 0 {
			key[n] = sum / count
		}
	}
	slices.SortStableFunc(rank, func(a, b *node) int {
		switch {
		case key[a] < key[b]:
			return -1
		case key[a] > key[b]:
			return 1
		}
		return 0
	})
	number(rank)
}

func (n *node) neighbours(above bool) []*node {
	var others []*node
	if above {
		for _, l := range n.up {
			others = append(others, l.top)
		}
		return others
	}
	for _, l := range n.down {
		others = append(others, l.bottom)
	}
	return others
}

// swaps exchanges neighbours where that saves crossings, and tells whether any did.
func (l *layout) swaps() bool {
	better := false
	for _, rank := range l.ranks {
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
func between(left, right []*node) int {
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

func (l *layout) crossings() int {
	n := 0
	for _, rank := range l.ranks {
		for i, a := range rank {
			for _, b := range rank[i+1:] {
				n += between(a.neighbours(false), b.neighbours(false))
			}
		}
	}
	return n
}
