package sqlite

import "slices"

// tracked are the rows that changed. The lock of the lines guards it.
type tracked struct{ rows map[int64]struct{} }

// track begins to note the rows that change, until untrack.
func (l *lines) track() *tracked {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &tracked{rows: map[int64]struct{}{}}
	l.tracks = append(l.tracks, w)
	return w
}

func (l *lines) untrack(w *tracked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tracks = slices.DeleteFunc(l.tracks, func(one *tracked) bool { return one == w })
}

// has reports whether a row has changed.
func (l *lines) has(w *tracked, n int64) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	_, changed := w.rows[n]
	return changed
}

// take returns up to n rows that have changed, and forgets them.
func (l *lines) take(w *tracked, n int) (rows []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for row := range w.rows {
		if len(rows) == n {
			break
		}
		rows = append(rows, row)
		delete(w.rows, row)
	}
	slices.Sort(rows)
	return rows
}

// differ counts the lines that differ from those of other and have not changed since tracking began, and returns the
// first. A commit waits for a comparison of one block at most.
func (l *lines) differ(other *lines, w *tracked) (first, n int64) {
	for from := int64(1); from > 0; {
		from = l.differPart(other, w, from, &first, &n)
	}
	return first, n
}

// differPart compares the lines from a row on and returns the row to continue with, 0 at the end.
func (l *lines) differPart(other *lines, w *tracked, from int64, first, n *int64) (next int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	a, b := l.page(from, blockLines), other.page(from, blockLines)
	if len(a) == blockLines {
		next = a[len(a)-1].n + 1
	}
	if len(b) == blockLines && (next == 0 || b[len(b)-1].n+1 < next) {
		next = b[len(b)-1].n + 1
	}
	for len(a) > 0 || len(b) > 0 {
		row, same := int64(0), false
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].n < b[0].n:
			row, a = a[0].n, a[1:]
		case len(a) == 0 || b[0].n < a[0].n:
			row, b = b[0].n, b[1:]
		default:
			row, same = a[0].n, a[0] == b[0]
			a, b = a[1:], b[1:]
		}
		if next > 0 && row >= next {
			break
		}
		if _, changed := w.rows[row]; changed || same {
			continue
		}
		if *n == 0 {
			*first = row
		}
		*n++
	}
	return next
}

// page returns up to n lines beginning with the line of row from. The caller holds the lock.
func (l *lines) page(from int64, n int) (all []rowLine) {
	for at := l.block(from); at < len(l.blocks) && len(all) < n; at++ {
		b := l.blocks[at]
		for i := b.index(from); i < b.n && len(all) < n; i++ {
			if b.columns[kindColumn][i] != 0 {
				all = append(all, rowLine{b.row(i), b.line(i)})
			}
		}
	}
	return all
}

// follow copies the line of a row, except for the parent of one that is there already: that never changes.
func (l *lines) follow(n int64, from *lines) {
	from.mu.RLock()
	v := from.at(n)
	from.mu.RUnlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if v.kind == 0 {
		l.drop(n)
		return
	}
	if l.at(n).kind != 0 {
		v.parent = 0
	}
	l.put(n, &v)
}
