package sqlite

import (
	"slices"
	"sort"
	"sync"

	"github.com/stagepost/stagepost/job"
)

// line has the fields by which lists filter, for one job; words by number. It replaces every index that a transition
// would change. A line may match too much (a word without a number is `unnumbered`, times are rounded): the reader of
// a list checks the record.
type line struct {
	kind, state, outcome uint32
	group, owner, parent uint32
	tags, cause          uint32
	changed              uint32 // seconds since 1970
	ended                bool
}

// unnumbered is the number of every word that is not in the dictionary.
const unnumbered = ^uint32(0)

type lineChange struct {
	n    int64
	line line
	gone bool // the record was purged; line is empty
}

// line returns the line of a record; for the loop, after the record was bound. parent 0 keeps the current one.
func (n *names) line(j *job.Job, parent int64) line {
	word := func(w string) uint32 {
		if number, ok := n.known(w); ok {
			return uint32(number)
		}
		return unnumbered
	}
	return line{
		kind: word(string(j.Kind)), state: word(string(j.State)), outcome: word(string(j.Outcome)),
		group: word(j.Group), owner: word(j.Owner), parent: uint32(parent), tags: n.tagsNumber(j.Tags),
		cause:   word(j.Cause),
		changed: uint32(max(0, j.Changed.Unix())), ended: j.Ended,
	}
}

// lines are the lines of all jobs by row number, from 1. The lines of purged rows are removed: the memory, and what a
// search visits, follow the number of jobs and not the number of rows that ever were. A row number remains valid as
// the begin of a search after its row is purged.
type lines struct {
	mu      sync.RWMutex // guards all below
	blocks  []*block     // by row number; only the last one takes more
	highest int64        // row number so far
	tracks  []*tracked
}

// apply applies the changes of a commit.
func (l *lines) apply(changes []lineChange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.tracks {
		for i := range changes {
			w.rows[changes[i].n] = struct{}{}
		}
	}
	for i := range changes {
		if changes[i].gone {
			l.drop(changes[i].n)
			continue
		}
		l.put(changes[i].n, &changes[i].line)
	}
}

// load stores the lines of rows.
func (l *lines) load(all []rowLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range all {
		l.put(all[i].n, &all[i].line)
	}
}

// block returns the index of the block that has row n, if there is a line of it: the last one that begins at n or
// before it; 0 if all begin later. The caller holds the lock.
func (l *lines) block(n int64) int {
	if last := len(l.blocks) - 1; last >= 0 && l.blocks[last].first <= n {
		return last
	}
	return max(0, sort.Search(len(l.blocks), func(i int) bool { return l.blocks[i].first > n })-1)
}

// at returns the line of a row, an empty one if there is none. The caller holds the lock.
func (l *lines) at(n int64) line {
	if at := l.block(n); at < len(l.blocks) {
		if b := l.blocks[at]; b.has(n) {
			return b.line(b.index(n))
		}
	}
	return line{}
}

// put stores a line. The caller holds the lock.
func (l *lines) put(n int64, v *line) {
	at := l.block(n)
	switch {
	case n > l.highest || len(l.blocks) == 0:
		l.add(n, v)
	case l.blocks[at].has(n):
		b := l.blocks[at]
		b.set(b.index(n), v)
	default:
		l.insert(at, n, v)
	}
	l.highest = max(l.highest, n)
}

// add stores the line of a row after all others. The caller holds the lock.
func (l *lines) add(n int64, v *line) {
	last := len(l.blocks) - 1
	if last < 0 || !l.blocks[last].accepts(n) {
		l.blocks = append(l.blocks, newBlock(n, blockLines))
		if last >= 0 {
			l.shrink(last)
		}
		last = len(l.blocks) - 1
	}
	l.blocks[last].add(n, v)
}

// insert stores the line of a row between others that has none, which no commit does. The caller holds the lock.
func (l *lines) insert(at int, n int64, v *line) {
	all := l.blocks[at].rest(nil)
	i := sort.Search(len(all), func(i int) bool { return all[i].n >= n })
	l.blocks = slices.Replace(l.blocks, at, at+1, blocksOf(slices.Insert(all, i, rowLine{n, *v}))...)
}

// drop removes the line of a purged row. The caller holds the lock.
func (l *lines) drop(n int64) {
	at := l.block(n)
	if at >= len(l.blocks) || !l.blocks[at].has(n) {
		return
	}
	b := l.blocks[at]
	b.set(b.index(n), &line{})
	if at < len(l.blocks)-1 {
		l.shrink(at)
	}
}

// shrink gives back the memory of a block that has lost half of its lines, and joins it with a neighbor if one block
// can have both. A line is copied once for each line that was dropped, on average. The caller holds the lock.
func (l *lines) shrink(at int) {
	b := l.blocks[at]
	if b.live > b.n/2 {
		return
	}
	from, to := at, at+1
	space := blockLines - b.live
	if at > 0 && l.blocks[at-1].live <= space {
		from--
		space -= l.blocks[from].live
	}
	if to < len(l.blocks)-1 && l.blocks[to].live <= space { // the last one still grows
		to++
	}
	var all []rowLine
	for _, part := range l.blocks[from:to] {
		all = part.rest(all)
	}
	l.blocks = slices.Replace(l.blocks, from, to, blocksOf(all)...)
}

// search returns up to limit rows that match, beginning with row from and going up (step 1) or down (step -1). from
// may be a row without a line.
func (l *lines) search(w *want, from int64, step, limit int) []int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var found []int64
	for at := l.block(from); at >= 0 && at < len(l.blocks) && len(found) < limit; at += step {
		if b := l.blocks[at]; w.mayMatch(b) {
			found = b.search(w, from, step, limit, found)
		}
	}
	return found
}

// may reports whether a row may match.
func (l *lines) may(w *want, n int64) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	at := l.block(n)
	return at < len(l.blocks) && l.blocks[at].has(n) && w.matches(l.blocks[at], l.blocks[at].index(n))
}

// last is the highest row number so far.
func (l *lines) last() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.highest
}

// next returns the first row from one on that has a line, 0 if there is none.
func (l *lines) next(from int64) int64 {
	if found := l.search(&want{}, from, 1, 1); len(found) == 1 {
		return found[0]
	}
	return 0
}

// replace replaces all lines.
func (l *lines) replace(by *lines) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blocks, l.highest = by.blocks, max(l.highest, by.highest)
}
