// Package layered lays out directed drawings in ranks, one below another.
//
// Boxes stand in ranks that the caller chooses. A line that passes a rank has a lane there, and a label is a node, so
// everything on a rank has a column of its own. Lines leave their column only in the gaps between the ranks. That is
// why no line can cross a box or the label of another line.
package layered

// Kind is what a node is.
type Kind int

// The kinds of nodes.
const (
	Box   Kind = iota // lines end at ports along its edges
	Label             // lines pass through its centre
	Lane              // a line passes; it fills its band
)

// Node is something that has a column on a rank. The caller sets Kind, Rank, W, H and Data; [Sheet.Arrange] sets X.
type Node[N, L any] struct {
	Kind     Kind
	Rank     int
	W, H     float64
	X        float64 // centre
	Up, Down []*Link[N, L]
	Data     N
	pos      int // position in the rank
}

// Link joins nodes of neighbouring ranks.
type Link[N, L any] struct {
	Top, Bottom   *Node[N, L]
	Pull          float64 // how strongly it is made vertical, see [Straight]
	XTop, XBottom float64 // where it leaves and enters; set by [Sheet.Arrange]
	Data          L
}

// Straight is the least pull of links that are made vertical as far as the order of the columns allows.
const Straight = 5.0

// Measures are the distances of a layout, in pixels.
type Measures struct {
	Margin       float64                     // around the whole
	ColumnGap    float64                     // beside a box
	LaneGap      float64                     // between lanes and labels
	PortGap      float64                     // between the ends of lines at a box, if it is wide enough
	PortInset    float64                     // from the end of a line to the corner of its box
	PortsCentred bool                        // lines end about the centre of an edge; else where they are shortest
	RankGap      func(aside float64) float64 // between two ranks, of which the most slanting line goes so far aside
}

// Sheet is a layout. Add its nodes, join them, then arrange them.
type Sheet[N, L any] struct {
	Measures
	Ranks         [][]*Node[N, L]
	Links         []*Link[N, L]
	Tops, Bottoms []float64 // of each rank's band
	Width, Height float64   // with the margins

	joined map[[2]*Node[N, L]]*Link[N, L]
}

// Add puts a node at the end of its rank and returns it.
func (s *Sheet[N, L]) Add(n *Node[N, L]) *Node[N, L] {
	for len(s.Ranks) <= n.Rank {
		s.Ranks = append(s.Ranks, nil)
	}
	n.pos = len(s.Ranks[n.Rank])
	s.Ranks[n.Rank] = append(s.Ranks[n.Rank], n)
	return n
}

// Join links two nodes of neighbouring ranks, once.
func (s *Sheet[N, L]) Join(top, bottom *Node[N, L]) (l *Link[N, L], fresh bool) {
	ends := [2]*Node[N, L]{top, bottom}
	if l := s.joined[ends]; l != nil {
		return l, false
	}
	if s.joined == nil {
		s.joined = map[[2]*Node[N, L]]*Link[N, L]{}
	}
	l = &Link[N, L]{Top: top, Bottom: bottom}
	s.joined[ends] = l
	s.Links = append(s.Links, l)
	top.Down = append(top.Down, l)
	bottom.Up = append(bottom.Up, l)
	return l, true
}

// manyLinks is from where on a sheet gets a quick layout: the thorough one takes time that grows with the square of it.
const manyLinks = 500

// Arrange sets the position of every node and of every end of a link.
func (s *Sheet[N, L]) Arrange() {
	thorough := len(s.Links) < manyLinks
	s.order(thorough)
	s.columns(thorough)
	s.ports()
	s.bands()
}

// Top is the upper edge of a node's rectangle; a lane has none and fills its band.
func (s *Sheet[N, L]) Top(n *Node[N, L]) float64 {
	if n.Kind == Lane {
		return s.Tops[n.Rank]
	}
	return (s.Tops[n.Rank] + s.Bottoms[n.Rank] - n.H) / 2
}

// Bottom is the lower edge of a node's rectangle.
func (s *Sheet[N, L]) Bottom(n *Node[N, L]) float64 {
	if n.Kind == Lane {
		return s.Bottoms[n.Rank]
	}
	return (s.Tops[n.Rank] + s.Bottoms[n.Rank] + n.H) / 2
}

// distance is how far the centres of neighbours must be from each other.
func (s *Sheet[N, L]) distance(a, b *Node[N, L]) float64 {
	if a.Kind != Box && b.Kind != Box {
		return (a.W+b.W)/2 + s.LaneGap
	}
	return (a.W+b.W)/2 + s.ColumnGap
}
