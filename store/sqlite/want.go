package sqlite

import "slices"

// want is a query against lines. Empty fields do not restrict.
type want struct {
	kinds, states, outcomes []uint32
	tags, causes            []uint32
	group, owner, parent    *uint32
	ended                   *bool
	before                  uint32 // changed not after this second
}

// matches checks the most selective columns first.
func (w *want) matches(b *block, i int) bool {
	c := &b.columns
	return is(w.parent, c[parentColumn][i]) && is(w.owner, c[ownerColumn][i]) && is(w.group, c[groupColumn][i]) &&
		in(w.states, c[stateColumn][i]) &&
		c[kindColumn][i] != 0 && in(w.kinds, c[kindColumn][i]) && in(w.outcomes, c[outcomeColumn][i]) &&
		in(w.tags, c[tagsColumn][i]) && in(w.causes, c[causeColumn][i]) &&
		(w.ended == nil || *w.ended == b.ended[i]) && (w.before == 0 || c[changedColumn][i] <= w.before)
}

// mayMatch reports whether some line of the block may match.
func (w *want) mayMatch(b *block) bool {
	if w.before != 0 && w.ended != nil && *w.ended && b.oldest > w.before {
		return false
	}
	may := func(v *uint32, column int) bool { return v == nil || b.seen[column].has(*v) }
	if !may(w.group, groupColumn) || !may(w.owner, ownerColumn) || !may(w.parent, parentColumn) {
		return false
	}
	if !anyOf(w.outcomes, &b.seen[outcomeColumn]) || !anyOf(w.tags, &b.seen[tagsColumn]) ||
		!anyOf(w.causes, &b.seen[causeColumn]) {
		return false
	}
	if len(w.kinds) == 0 && len(w.states) == 0 {
		return true
	}
	for _, p := range b.places {
		if p.n > 0 && in(w.kinds, p.kind) && in(w.states, p.state) {
			return true
		}
	}
	return false
}

// driver returns a column and the only number in it that matches, 0 if there is none: most lines need no further
// check.
func (w *want) driver(b *block) (column []uint32, number uint32) {
	switch {
	case w.parent != nil:
		return b.columns[parentColumn], *w.parent
	case w.owner != nil:
		return b.columns[ownerColumn], *w.owner
	case w.group != nil:
		return b.columns[groupColumn], *w.group
	}
	return b.columns[kindColumn], 0
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
