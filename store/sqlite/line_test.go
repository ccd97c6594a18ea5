package sqlite

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A search over many leaves finds the same as a check of every line, up and down, whatever it skips.
func TestSearch(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const n = 3*leaf + 100
	l, plain := &lines{}, make([]line, n+1)
	for range 4 * n {
		row := 1 + random.Int64N(n)
		region := uint32(row / leaf) // so that some leaves lack some numbers
		v := line{
			kind: 1 + random.Uint32N(2), state: region + random.Uint32N(3), group: random.Uint32N(50) * (1 + region),
			owner:   random.Uint32N(9),
			outcome: random.Uint32N(2), ended: random.IntN(2) == 0, changed: random.Uint32N(1000),
			tags: random.Uint32N(4) * region, cause: random.Uint32N(20),
		}
		if random.IntN(20) == 0 { // a job that is purged
			l.apply([]lineChange{{n: row, gone: true}})
			plain[row] = line{}
			continue
		}
		l.apply([]lineChange{{n: row, line: v}})
		plain[row] = v
	}
	group, owner, ended := uint32(40), uint32(3), true
	for i, w := range []*want{
		{}, {kinds: []uint32{2}}, {states: []uint32{5}}, {states: []uint32{0, 1}, ended: &ended}, {group: &group},
		{group: &group, owner: &owner},
		{outcomes: []uint32{1}, before: 10}, {states: []uint32{99}}, {owner: &owner, kinds: []uint32{1}},
		{tags: []uint32{2, 6}}, {causes: []uint32{7}, states: []uint32{4}}, {tags: []uint32{unnumbered}},
	} {
		var want []int64
		one := &leafLines{}
		for row, v := range plain {
			one.kind[0], one.state[0], one.outcome[0], one.group[0] = v.kind, v.state, v.outcome, v.group
			one.owner[0], one.changed[0], one.ended[0] = v.owner, v.changed, v.ended
			one.tags[0], one.cause[0] = v.tags, v.cause
			if w.matches(one, 0) {
				want = append(want, int64(row))
			}
		}
		if got := l.search(w, 1, 1, n); !slices.Equal(got, want) {
			t.Errorf("query %d upwards: %d rows, want %d", i, len(got), len(want))
		}
		slices.Reverse(want)
		if got := l.search(w, l.last(), -1, n); !slices.Equal(got, want) {
			t.Errorf("query %d downwards: %d rows, want %d", i, len(got), len(want))
		}
		if len(want) > 7 {
			if got := l.search(w, want[3], -1, 4); !slices.Equal(got, want[3:7]) {
				t.Errorf("query %d from row %d: %v, want %v", i, want[3], got, want[3:7])
			}
		}
	}
}
