package sqlite

import (
	"slices"
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
		if number, ok := n.words.numbers[w]; ok || w == "" {
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

// leaf is the number of lines that are summarized together.
const leaf = 4096

// leafLines are consecutive lines, column by column so that a search touches few of them, with a summary, so that it
// skips those without a hit.
type leafLines struct {
	kind, state, outcome, group, owner, parent, tags, cause, changed [leaf]uint32
	ended                                                            [leaf]bool

	places []placeCount
	seen   [6]filter // groups, owners, parents, outcomes, sets of tags, causes that ever occurred in it
}

// line returns line i; the empty one for a gap, which matches nothing: no kind has number 0.
func (f *leafLines) line(i int) line {
	return line{
		kind: f.kind[i], state: f.state[i], outcome: f.outcome[i], group: f.group[i], owner: f.owner[i],
		parent: f.parent[i],
		tags:   f.tags[i], cause: f.cause[i], changed: f.changed[i], ended: f.ended[i],
	}
}

type placeCount struct {
	kind, state uint32
	n           int32
}

// filter is a set of numbers with false positives.
type filter [8]uint64

func (f *filter) add(v uint32)      { h := v * 2654435769 >> 23; f[h>>6] |= 1 << (h & 63) }
func (f *filter) has(v uint32) bool { h := v * 2654435769 >> 23; return f[h>>6]&(1<<(h&63)) != 0 }

// lines are the lines of all jobs by row number, from 1.
type lines struct {
	mu     sync.RWMutex // guards all below
	leaves []*leafLines
	n      int64 // number of lines
}

// apply applies the changes of a commit.
func (l *lines) apply(changes []lineChange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range changes {
		if changes[i].gone {
			l.drop(changes[i].n)
			continue
		}
		l.set(changes[i].n, changes[i].line)
	}
}

// drop empties the line of a purged row. The caller holds the lock.
func (l *lines) drop(n int64) {
	if at := int(n - 1); at/leaf < len(l.leaves) {
		f, i := l.leaves[at/leaf], at%leaf
		f.count(f.kind[i], f.state[i], -1)
		f.kind[i], f.state[i], f.outcome[i], f.group[i], f.owner[i], f.parent[i] = 0, 0, 0, 0, 0, 0
		f.tags[i], f.cause[i], f.changed[i], f.ended[i] = 0, 0, 0, false
	}
}

// set stores the line of row n. The caller holds the lock.
func (l *lines) set(n int64, v line) {
	at := int(n - 1)
	for at/leaf >= len(l.leaves) {
		l.leaves = append(l.leaves, &leafLines{})
	}
	f := l.leaves[at/leaf]
	i := at % leaf
	old := f.line(i)
	if v.parent == 0 {
		v.parent = old.parent
	}
	if old.kind != v.kind || old.state != v.state {
		f.count(old.kind, old.state, -1)
		f.count(v.kind, v.state, 1)
	}
	f.seen[0].add(v.group)
	f.seen[1].add(v.owner)
	f.seen[2].add(v.parent)
	f.seen[3].add(v.outcome)
	f.seen[4].add(v.tags)
	f.seen[5].add(v.cause)
	f.kind[i], f.state[i], f.outcome[i], f.group[i] = v.kind, v.state, v.outcome, v.group
	f.owner[i], f.parent[i], f.changed[i], f.ended[i] = v.owner, v.parent, v.changed, v.ended
	f.tags[i], f.cause[i] = v.tags, v.cause
	l.n = max(l.n, n)
}

func (f *leafLines) count(kind, state uint32, by int32) {
	if kind == 0 {
		return
	}
	for i := range f.places {
		if p := &f.places[i]; p.kind == kind && p.state == state {
			p.n += by
			return
		}
	}
	f.places = append(f.places, placeCount{kind, state, by})
}

// want is a query against lines. Empty fields do not restrict.
type want struct {
	kinds, states, outcomes []uint32
	tags, causes            []uint32
	group, owner, parent    *uint32
	ended                   *bool
	before                  uint32 // changed not after this second
}

// matches checks the most selective columns first.
func (w *want) matches(f *leafLines, i int) bool {
	return is(w.parent, f.parent[i]) && is(w.owner, f.owner[i]) && is(w.group, f.group[i]) &&
		in(w.states, f.state[i]) &&
		f.kind[i] != 0 && in(w.kinds, f.kind[i]) && in(w.outcomes, f.outcome[i]) &&
		in(w.tags, f.tags[i]) && in(w.causes, f.cause[i]) &&
		(w.ended == nil || *w.ended == f.ended[i]) && (w.before == 0 || f.changed[i] <= w.before)
}

// mayMatch reports whether some line of the leaf may match.
func (w *want) mayMatch(f *leafLines) bool {
	may := func(v *uint32, seen *filter) bool { return v == nil || seen.has(*v) }
	if !may(w.group, &f.seen[0]) || !may(w.owner, &f.seen[1]) || !may(w.parent, &f.seen[2]) {
		return false
	}
	if !anyOf(w.outcomes, &f.seen[3]) || !anyOf(w.tags, &f.seen[4]) || !anyOf(w.causes, &f.seen[5]) {
		return false
	}
	if len(w.kinds) == 0 && len(w.states) == 0 {
		return true
	}
	for _, p := range f.places {
		if p.n > 0 && in(w.kinds, p.kind) && in(w.states, p.state) {
			return true
		}
	}
	return false
}

// driver returns a column and the only number in it that matches, 0 if there is none: most lines need no further
// check.
func (w *want) driver(f *leafLines) (column *[leaf]uint32, number uint32) {
	switch {
	case w.parent != nil:
		return &f.parent, *w.parent
	case w.owner != nil:
		return &f.owner, *w.owner
	case w.group != nil:
		return &f.group, *w.group
	}
	return &f.kind, 0
}

// anyOf reports whether one of the numbers may be in the filter, or none is given.
func anyOf(wanted []uint32, seen *filter) bool {
	return len(wanted) == 0 || slices.ContainsFunc(wanted, seen.has)
}

func in(wanted []uint32, got uint32) bool {
	if len(wanted) == 0 {
		return true
	}
	for _, w := range wanted {
		if w == got {
			return true
		}
	}
	return false
}

func is(wanted *uint32, got uint32) bool { return wanted == nil || *wanted == got }

// search returns up to limit rows that match, beginning with row from and going up (step 1) or down (step -1).
func (l *lines) search(w *want, from int64, step, limit int) []int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var found []int64
	for at := int(from - 1); at >= 0 && at < int(l.n); {
		f := l.leaves[at/leaf]
		if !w.mayMatch(f) {
			at = (at/leaf+1)*leaf - 1 // the leaf's end in the direction of the search
			if step < 0 {
				at = at / leaf * leaf
			}
			at += step
			continue
		}
		column, value := w.driver(f)
		base := at / leaf * leaf
		i := at - base
		for ; i >= 0 && i < leaf; i += step {
			if (value == 0 || column[i] == value) && w.matches(f, i) {
				if found = append(found, int64(base+i+1)); len(found) == limit {
					return found
				}
			}
		}
		at = base + i
	}
	return found
}

// may reports whether a row may match.
func (l *lines) may(w *want, n int64) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	at := int(n - 1)
	return at >= 0 && at < int(l.n) && w.matches(l.leaves[at/leaf], at%leaf)
}

// last is the highest row number.
func (l *lines) last() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.n
}
