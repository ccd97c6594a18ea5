package sqlite

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

var indexRows = flag.Int64("index-rows", 1_000_000, "rows that TestLinesShrink adds, of which 1 in 100 remains")

// plainLines are the lines of a model: every row that ever was.
type plainLines []line

// set does what lines.set does.
func (p *plainLines) set(n int64, v line) {
	for int64(len(*p)) <= n {
		*p = append(*p, line{})
	}
	if v.kind != 0 && v.parent == 0 {
		v.parent = (*p)[n].parent
	}
	(*p)[n] = v
}

// search checks every line.
func (p plainLines) search(w *want, from int64, step, limit int) (found []int64) {
	one := newBlock(1, 1)
	one.n = 1
	from = max(0, from)
	if step < 0 {
		from = min(from, int64(len(p)-1))
	}
	for n := from; n >= 0 && n < int64(len(p)) && len(found) < limit; n += int64(step) {
		one.columns[parentColumn][0] = 0
		if one.set(0, &p[n]); w.matches(one, 0) {
			found = append(found, n)
		}
	}
	return found
}

// randomLine returns a line of a region of rows, so that some blocks lack some numbers.
func randomLine(random *rand.Rand, row int64) line {
	region := uint32(row / blockLines)
	return line{
		kind: 1 + random.Uint32N(2), state: region + random.Uint32N(3), group: random.Uint32N(50) * (1 + region),
		owner: random.Uint32N(9), parent: random.Uint32N(3) * (row32(row)/100 + 1),
		outcome: random.Uint32N(2), ended: random.IntN(2) == 0, changed: 200*region + random.Uint32N(1000),
		tags: random.Uint32N(4) * region, cause: random.Uint32N(20),
	}
}

func row32(row int64) uint32 { return uint32(row) }

// queries are of all sorts.
func queries() []*want {
	group, owner, ended, parent := uint32(40), uint32(3), true, uint32(2)
	return []*want{
		{}, {kinds: []uint32{2}}, {states: []uint32{5}}, {states: []uint32{0, 1}, ended: &ended}, {group: &group},
		{group: &group, owner: &owner}, {parent: &parent}, {parent: &parent, states: []uint32{0}},
		{outcomes: []uint32{1}, before: 10}, {states: []uint32{99}}, {owner: &owner, kinds: []uint32{1}},
		{tags: []uint32{2, 6}}, {causes: []uint32{7}, states: []uint32{4}}, {tags: []uint32{unnumbered}},
		{ended: &ended, before: 150}, {ended: &ended, before: 500, kinds: []uint32{1}}, {before: 150},
	}
}

// A search over many blocks finds the same as a check of every line, up and down, whatever it skips and whatever was
// purged. So does a search that continues from a row which was purged since.
func TestSearch(t *testing.T) {
	for _, purged := range []int{0, 5, 60, 99, 100} {
		t.Run(fmt.Sprintf("purged=%d%%", purged), func(t *testing.T) {
			random := rand.New(rand.NewPCG(3, uint64(purged)))
			const n = 4*blockLines + 100
			l, plain := &lines{}, plainLines{}
			for row := int64(1); row <= n; row++ {
				change(l, &plain, row, randomLine(random, row))
				if random.IntN(3) == 0 {
					back := 1 + random.Int64N(row)
					if plain[back].kind != 0 {
						change(l, &plain, back, randomLine(random, back))
					}
				}
			}
			cursors := make([]int64, 6)
			for i := range cursors {
				cursors[i] = 1 + random.Int64N(n)
			}
			for row := int64(1); row <= n; row++ {
				if random.IntN(100) < purged {
					change(l, &plain, row, line{})
				}
			}
			compare(t, l, plain, append(cursors, 0, 1, n, n+1, n+50))
			checkBlocks(t, l)
		})
	}
}

// TestSearchOfOldEnds: a block whose ended jobs all changed later is not searched. Controls: one of them changed
// earlier, and jobs that have not ended are searched too.
func TestSearchOfOldEnds(t *testing.T) {
	ended := true
	for name, c := range map[string]struct {
		w    want
		line line
		want bool
	}{
		"later":     {want{ended: &ended, before: 99}, line{kind: 1, changed: 100, ended: true}, false},
		"earlier":   {want{ended: &ended, before: 99}, line{kind: 1, changed: 99, ended: true}, true},
		"not ended": {want{before: 99}, line{kind: 1, changed: 100}, true},
		"any":       {want{ended: &ended}, line{kind: 1, changed: 100, ended: true}, true},
	} {
		b := newBlock(1, 4)
		b.add(1, &line{kind: 1, changed: 1}) // has not ended
		b.add(2, &c.line)
		if got := c.w.mayMatch(b); got != c.want {
			t.Errorf("%s: searched %t, want %t", name, got, c.want)
		}
	}
}

// change changes a line in both; the empty line purges the row.
func change(l *lines, p *plainLines, row int64, v line) {
	p.set(row, v)
	l.apply([]lineChange{{n: row, line: v, gone: v.kind == 0}})
}

// compare compares all queries, from cursors in both directions, and each line.
func compare(t *testing.T, l *lines, plain plainLines, cursors []int64) {
	t.Helper()
	for i, w := range queries() {
		for _, from := range cursors {
			for _, step := range []int{1, -1} {
				for _, limit := range []int{4, len(plain)} {
					want, got := plain.search(w, from, step, limit), l.search(w, from, step, limit)
					if !slices.Equal(got, want) {
						t.Fatalf("query %d from row %d by %d: %d rows, want %d", i, from, step, len(got), len(want))
					}
				}
			}
		}
	}
	live := l.page(0, len(plain))
	for n, v := range plain {
		if v.kind == 0 {
			continue
		}
		if len(live) == 0 || live[0] != (rowLine{int64(n), v}) || l.at(int64(n)) != v || !l.may(&want{}, int64(n)) {
			t.Fatalf("row %d: line %v, want %v", n, l.at(int64(n)), v)
		}
		live = live[1:]
	}
	if len(live) != 0 || l.last() != int64(len(plain))-1 {
		t.Fatalf("%d lines too many, last %d", len(live), l.last())
	}
}

// checkBlocks checks what bounds memory and the cost of a search, and what blocks count.
func checkBlocks(t *testing.T, l *lines) (live int) {
	t.Helper()
	slots := 0
	for at, b := range l.blocks {
		n, places := 0, int32(0)
		for i := range b.n {
			if b.columns[kindColumn][i] != 0 {
				n++
			}
		}
		for _, p := range b.places {
			places += p.n
		}
		if n != b.live || int(places) != n || b.n > blockLines {
			t.Errorf("block %d has %d lines and counts %d, %d", at, n, b.live, places)
		}
		if at > 0 && l.blocks[at-1].row(l.blocks[at-1].n-1) >= b.first {
			t.Errorf("block %d begins before the end of the one before", at)
		}
		live, slots = live+n, slots+b.n
	}
	if most := 2*live + 2*blockLines; slots > most {
		t.Errorf("%d lines are left of %d, at most %d", live, slots, most)
	}
	if most := 4*live/blockLines + 3; len(l.blocks) > most {
		t.Errorf("%d lines are in %d blocks, at most %d", live, len(l.blocks), most)
	}
	return live
}

// Changes, purges and searches in random order, with cursors that stay in use, agree with the model all the time.
func TestLinesModel(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 9))
	l, plain := &lines{}, plainLines{{}}
	next, cursors := int64(1), []int64{0, 1}
	for round := range 30 {
		for range random.IntN(blockLines) { // new jobs; some rows are never used
			if random.IntN(20) == 0 {
				next += random.Int64N(30)
			}
			change(l, &plain, next, randomLine(random, next))
			next++
		}
		from := 1 + random.Int64N(next)
		for row := from; row < min(next, from+random.Int64N(2*blockLines)); row++ { // a stretch is purged or moves
			if plain[row].kind != 0 {
				v := line{}
				if random.IntN(3) == 0 {
					v = randomLine(random, row)
				}
				change(l, &plain, row, v)
			}
		}
		cursors = append(cursors, random.Int64N(next+2))
		if round%6 == 5 {
			compare(t, l, plain, cursors[max(0, len(cursors)-4):])
		}
		checkBlocks(t, l)
	}
}

// Rows that are far apart, and rows that come out of order, are found too.
func TestLinesFarApart(t *testing.T) {
	random := rand.New(rand.NewPCG(10, 11))
	l, rows := &lines{}, map[int64]line{}
	for range 2 * blockLines {
		n := 1 + random.Int64N(1<<uint(1+random.IntN(50)))
		rows[n] = line{kind: 1, state: random.Uint32N(9)}
		l.set(n, rows[n])
	}
	for range 2 {
		for n, v := range rows {
			if l.at(n) != v {
				t.Fatalf("row %d: %v, want %v", n, l.at(n), v)
			}
		}
		var all []int64
		for n := range rows {
			all = append(all, n)
		}
		slices.Sort(all)
		if got := l.search(&want{}, 0, 1, math.MaxInt); !slices.Equal(got, all) {
			t.Fatalf("%d rows, want %d", len(got), len(all))
		}
		for _, n := range all[:len(all)*9/10] {
			delete(rows, n)
			l.apply([]lineChange{{n: n, gone: true}})
		}
	}
}

// set stores the line of row n; parent 0 keeps the current one.
func (l *lines) set(n int64, v line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(n, &v)
}

// bytes returns the memory of the lines.
func (l *lines) bytes() int64 {
	sum := int64(cap(l.blocks)) * 8
	for _, b := range l.blocks {
		sum += int64(unsafe.Sizeof(*b)) + int64(cap(b.rows))*4 + int64(cap(b.ended)) +
			int64(cap(b.places))*int64(unsafe.Sizeof(placeCount{}))
		for _, c := range b.columns {
			sum += int64(cap(c)) * 4
		}
	}
	return sum
}

// Memory follows the number of jobs, not that of rows: a job of a hundred remains, wherever it is. The figures are
// those of a store with 100 million rows and 1 million jobs in under 200 MB, scaled.
func TestLinesShrink(t *testing.T) {
	rows := *indexRows
	for name, stays := range map[string]func(n int64) bool{
		"scattered": func(n int64) bool { return n%100 == 0 },
		"newest":    func(n int64) bool { return n > rows-rows/100 },
	} {
		t.Run(name, func(t *testing.T) {
			l := &lines{}
			const window = 10 * blockLines // jobs are purged some time after their creation
			most := int64(0)
			for n := int64(1); n <= rows+window; n++ {
				if n <= rows {
					l.put(n, &line{kind: 1, state: uint32(n % 8), group: uint32(n % 10), owner: uint32(n % 100)})
				}
				if old := n - window; old > 0 && !stays(old) {
					l.drop(old)
				}
				if n%(8*blockLines) == 0 {
					most = max(most, l.bytes())
				}
			}
			const slack = 20 * blockLines * 45 // the window and the last block
			live, bytes := checkBlocks(t, l), l.bytes()
			t.Logf("%d rows ever, %d jobs, %d blocks: %d bytes, %d at most", rows, live, len(l.blocks), bytes, most)
			if limit := rows * 2; int64(live) != rows/100 || bytes > limit || most > limit+slack {
				t.Errorf("%d jobs take %d bytes, at most %d; on the way %d", live, bytes, limit, most)
			}
		})
	}
}

// Two sets of lines are compared block by block, whatever was purged in one of them; rows that changed since tracking
// began do not count.
func TestLinesDiffer(t *testing.T) {
	random := rand.New(rand.NewPCG(12, 13))
	for _, n := range []int64{0, 1, blockLines, 3*blockLines + 10} {
		a, b, first, count := &lines{}, &lines{}, int64(0), int64(0)
		changed := a.track()
		for row := int64(1); row <= n; row++ {
			v, w := randomLine(random, row), line{}
			switch w = v; random.IntN(3000) {
			case 0:
				v = line{}
			case 1:
				w = line{}
			case 2:
				w.cause++
			case 3:
				v, w = line{}, line{}
			}
			for l, v := range map[*lines]line{a: v, b: w} {
				if v.kind != 0 {
					l.set(row, v)
				}
			}
			if v == w {
				continue
			}
			if random.IntN(2) == 0 {
				a.apply([]lineChange{{n: row, line: v, gone: v.kind == 0}})
				continue
			}
			if first == 0 {
				first = row
			}
			count++
		}
		if gotFirst, got := a.differ(b, changed); got != count || gotFirst != first {
			t.Errorf("%d rows: %d differ, the first in row %d; want %d, %d", n, got, gotFirst, count, first)
		}
		if n > blockLines && count < 3 {
			t.Errorf("only %d lines differ", count)
		}
		a.untrack(changed)
		if rows := a.take(changed, 10); len(a.tracks) != 0 || n > blockLines && len(rows) == 0 {
			t.Errorf("%d rows changed, %d trackings", len(rows), len(a.tracks))
		}
	}
}
