package layered

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func anySheet(t *rapid.T) *Sheet[int, int] {
	s := &Sheet[int, int]{Measures: Measures{
		Margin: 10, ColumnGap: 14, LaneGap: 4, PortGap: 12, PortInset: 8,
		PortsCentred: rapid.Bool().Draw(t, "centred"),
		RankGap:      func(float64) float64 { return 20 },
	}}
	for r := range rapid.IntRange(1, 5).Draw(t, "ranks") {
		for range rapid.IntRange(1, 6).Draw(t, "nodes") {
			kind := rapid.SampledFrom([]Kind{Box, Label, Lane}).Draw(t, "kind")
			n := s.Add(&Node[int, int]{Kind: kind, Rank: r, W: 2})
			if n.Kind != Lane {
				n.W, n.H = rapid.Float64Range(30, 200).Draw(t, "w"), 20
			}
			for range rapid.IntRange(0, 3).Draw(t, "links") {
				if r > 0 {
					l, _ := s.Join(rapid.SampledFrom(s.Ranks[r-1]).Draw(t, "top"), n)
					l.Pull = rapid.SampledFrom([]float64{1, Straight, 8}).Draw(t, "pull")
				}
			}
		}
	}
	return s
}

// TestColumnsKeepTheirDistance: whatever the links are, quick or thorough, neighbours keep their distance, ends of
// lines are within their boxes, and all is within the margins.
func TestColumnsKeepTheirDistance(t *testing.T) {
	const rounding = 1.01 // of two centres
	rapid.Check(t, func(t *rapid.T) {
		s := anySheet(t)
		thorough := rapid.Bool().Draw(t, "thorough")
		s.order(thorough)
		s.columns(thorough)
		s.ports()
		s.bands()
		for _, rank := range s.Ranks {
			for i, n := range rank {
				if n.pos != i || i > 0 && n.X-rank[i-1].X < s.distance(rank[i-1], n)-rounding {
					t.Fatalf("%+v is too near to %+v", n, rank[i-1])
				}
				if n.X-n.W/2 < s.Margin-rounding || n.X+n.W/2 > s.Width-s.Margin+rounding || s.Bottom(n) > s.Height {
					t.Fatalf("%+v leaves the sheet of %g by %g", n, s.Width, s.Height)
				}
			}
		}
		for _, l := range s.Links {
			if math.Abs(l.XTop-l.Top.X) > l.Top.W/2 || math.Abs(l.XBottom-l.Bottom.X) > l.Bottom.W/2 {
				t.Fatalf("a link from %g to %g leaves the edges of %+v and %+v", l.XTop, l.XBottom, l.Top, l.Bottom)
			}
		}
	})
}

// TestCrossingsAreAvoided: two links that cross are put side by side, and count as crossing before.
func TestCrossingsAreAvoided(t *testing.T) {
	for _, thorough := range []bool{false, true} {
		s := &Sheet[int, int]{}
		var n [4]*Node[int, int]
		for i := range n {
			n[i] = s.Add(&Node[int, int]{Rank: i / 2, W: 30, H: 20})
		}
		s.Join(n[0], n[3])
		s.Join(n[1], n[2])
		if got := s.crossings(); got != 1 {
			t.Errorf("%d crossings before", got)
		}
		if s.order(thorough); s.crossings() != 0 {
			t.Errorf("%d crossings are left", s.crossings())
		}
	}
}
