package sqlite

import (
	"math"
	"slices"
	"sort"
)

// blockLines is the greatest number of lines of a block: those are summarized together.
const blockLines = 4096

// The columns of a block. The first ones have filters.
const (
	groupColumn = iota
	ownerColumn
	parentColumn
	outcomeColumn
	tagsColumn
	causeColumn
	kindColumn // 0: the line was dropped, and matches nothing
	stateColumn
	changedColumn

	columnCount
	filterCount = causeColumn + 1
)

// block has lines in order of their rows, column by column so that a search touches few of them, with a summary, so
// that the search skips blocks without a hit. A line of a purged row stays, empty, until the block is compacted.
type block struct {
	first   int64    // row of the first line
	rows    []uint32 // by line: distance of its row from first; nil: each row follows the one before
	n       int      // lines, with dropped ones
	live    int      // lines that were not dropped
	columns [columnCount][]uint32
	ended   []bool

	places []placeCount
	seen   [filterCount]filter // numbers that occurred in a column
	oldest uint32              // no line of an ended job has an earlier second in changedColumn
}

type placeCount struct {
	kind, state uint32
	n           int32
}

// rowLine is a line with its row.
type rowLine struct {
	n    int64
	line line
}

// filter is a set of numbers with false positives.
type filter [8]uint64

func (f *filter) add(v uint32)      { h := v * 2654435769 >> 23; f[h>>6] |= 1 << (h & 63) }
func (f *filter) has(v uint32) bool { h := v * 2654435769 >> 23; return f[h>>6]&(1<<(h&63)) != 0 }

// newBlock returns an empty block whose first line will be of row first.
func newBlock(first int64, space int) *block {
	b := &block{first: first, ended: make([]bool, space), oldest: math.MaxUint32}
	cells := make([]uint32, columnCount*space)
	for i := range b.columns {
		b.columns[i] = cells[i*space : (i+1)*space : (i+1)*space]
	}
	return b
}

// blocksOf returns blocks of lines, in order of their rows, that take no more.
func blocksOf(all []rowLine) []*block {
	if len(all) == 0 {
		return nil
	}
	if n := len(all); n > blockLines || all[n-1].n-all[0].n > math.MaxUint32 {
		return append(blocksOf(all[:n/2]), blocksOf(all[n/2:])...)
	}
	b := newBlock(all[0].n, len(all))
	for i := range all {
		b.add(all[i].n, &all[i].line)
	}
	b.places = slices.Clip(b.places)
	return []*block{b}
}

// rest appends the lines that were not dropped.
func (b *block) rest(to []rowLine) []rowLine {
	to = slices.Grow(to, b.live)
	for i := range b.n {
		if b.columns[kindColumn][i] != 0 {
			to = append(to, rowLine{b.row(i), b.line(i)})
		}
	}
	return to
}

// row returns the row of line i.
func (b *block) row(i int) int64 {
	if b.rows == nil {
		return b.first + int64(i)
	}
	return b.first + int64(b.rows[i])
}

// index returns the first line of row n or a later one; b.n if there is none.
func (b *block) index(n int64) int {
	if b.rows == nil {
		return int(min(max(n-b.first, 0), int64(b.n)))
	}
	return sort.Search(b.n, func(i int) bool { return b.first+int64(b.rows[i]) >= n })
}

// has reports whether there is a line of row n, which may have been dropped.
func (b *block) has(n int64) bool {
	i := b.index(n)
	return i < b.n && b.row(i) == n
}

// accepts reports whether the line of a row fits after all others.
func (b *block) accepts(n int64) bool { return b.n < len(b.ended) && n-b.first <= math.MaxUint32 }

// add adds the line of a row after all others.
func (b *block) add(n int64, v *line) {
	if b.rows == nil && n != b.first+int64(b.n) {
		b.rows = make([]uint32, len(b.ended))
		for i := range b.n {
			b.rows[i] = uint32(i)
		}
	}
	if b.rows != nil {
		b.rows[b.n] = uint32(n - b.first)
	}
	b.n++
	b.set(b.n-1, v)
}

// line returns line i; an empty one if it was dropped.
func (b *block) line(i int) line {
	c := &b.columns
	return line{
		kind: c[kindColumn][i], state: c[stateColumn][i], outcome: c[outcomeColumn][i], group: c[groupColumn][i],
		owner: c[ownerColumn][i], parent: c[parentColumn][i], tags: c[tagsColumn][i], cause: c[causeColumn][i],
		changed: c[changedColumn][i], ended: b.ended[i],
	}
}

// set replaces line i. A line of kind 0 drops it; otherwise parent 0 keeps the current parent.
func (b *block) set(i int, v *line) {
	c := &b.columns
	kind, state := c[kindColumn][i], c[stateColumn][i]
	if kind != v.kind || state != v.state {
		b.count(kind, state, -1)
		b.count(v.kind, v.state, 1)
	}
	parent := v.parent
	if v.kind != 0 && parent == 0 {
		parent = c[parentColumn][i]
	}
	c[groupColumn][i], c[ownerColumn][i], c[parentColumn][i] = v.group, v.owner, parent
	c[outcomeColumn][i], c[tagsColumn][i], c[causeColumn][i] = v.outcome, v.tags, v.cause
	c[kindColumn][i], c[stateColumn][i], c[changedColumn][i] = v.kind, v.state, v.changed
	b.ended[i] = v.ended
	if v.ended {
		b.oldest = min(b.oldest, v.changed)
	}
	if v.kind != 0 {
		for column := range b.seen {
			b.seen[column].add(c[column][i])
		}
	}
}

// count counts by more lines of a kind in a state.
func (b *block) count(kind, state uint32, by int) {
	if kind == 0 {
		return
	}
	b.live += by
	for i := range b.places {
		if p := &b.places[i]; p.kind == kind && p.state == state {
			p.n += int32(by)
			return
		}
	}
	b.places = append(b.places, placeCount{kind, state, int32(by)})
}

// search appends rows that match to found, up to limit in all: those from row from on, or down from it.
func (b *block) search(w *want, from int64, step, limit int, found []int64) []int64 {
	i := b.index(from)
	if step < 0 && (i == b.n || b.row(i) > from) {
		i--
	}
	column, value := w.driver(b)
	column = column[:b.n]
	for ; i >= 0 && i < len(column); i += step {
		if (value == 0 || column[i] == value) && w.matches(b, i) {
			if found = append(found, b.row(i)); len(found) == limit {
				return found
			}
		}
	}
	return found
}
