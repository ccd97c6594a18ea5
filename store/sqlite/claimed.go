package sqlite

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
	"github.com/stagepost/stagepost/store/internal/rules"
)

// claimedList is a list of the jobs of workers. The queue has the claims of each kind in order of number, which is the
// order of rows too. So a page reads the row numbers of about as many claims of each kind as it has jobs.
type claimedList struct {
	s     *Store
	q     *job.Query
	from  int64 // row from which the page begins
	step  int64
	kinds []*claimedKind
	page  rules.Page
	after int64 // row of the last job of the page
	next  string
}

// claimedKind has the claims of one kind.
type claimedKind struct {
	job.Kind
	number int64        // from which claims are to be read
	rows   []claimedRow // of those that were read, in order
	after  int64        // number from which claims follow them
	more   bool         // some may
}

// claimedRow is the row of a claimed job, with its number.
type claimedRow struct{ n, number int64 }

// listClaimed lists the jobs of workers.
func (s *Store) listClaimed(ctx context.Context, q *job.Query, from int64) (page job.Page, err error) {
	l := &claimedList{s: s, q: q, from: from, step: int64(step(q)), page: rules.NewPage(q)}
	err = l.begin(ctx)
	for more := true; more && err == nil; {
		more, err = l.extend(ctx)
	}
	return job.Page{Jobs: l.page.Jobs, Next: l.next}, err
}

// begin finds the kinds of the claims, and the number of each at which the page begins.
func (l *claimedList) begin(ctx context.Context) error {
	err := l.s.do(ctx, true, func(of *ledger.Ledger) error {
		for _, k := range of.ClaimKinds(l.q.Worker) {
			if len(l.q.Kinds) == 0 || slices.Contains(l.q.Kinds, k) {
				l.kinds = append(l.kinds, &claimedKind{Kind: k, number: l.order(math.MinInt64)})
			}
		}
		return nil
	})
	if err != nil || l.q.After == "" {
		return err
	}
	return l.s.read(ctx, "list", "", func(r *reader) error {
		var left []*claimedKind
		for _, k := range l.kinds {
			found, err := l.s.firstNumber(r, k, l.from, int(l.step))
			if err != nil {
				return err
			}
			if found {
				left = append(left, k)
			}
		}
		l.kinds = left
		return nil
	})
}

// order returns a position in the order of the list, which increases, for a row or number, and the reverse.
func (l *claimedList) order(n int64) int64 {
	if l.step < 0 {
		return ^n // for any number, unlike -n
	}
	return n
}

// firstNumber sets the number of a kind to that of its first job from a row on. It reports whether there is one.
func (s *Store) firstNumber(r *reader, k *claimedKind, from int64, step int) (found bool, err error) {
	word, known := s.names.words.find(string(k.Kind))
	if !known {
		return true, nil // the rows are compared too
	}
	for of := (&want{kinds: []uint32{uint32(word)}}); ; {
		rows := s.lines.search(of, from, step, 1)
		if len(rows) == 0 {
			return false, nil
		}
		if k.number, err = r.numberOf(rows[0]); k.number != 0 || err != nil {
			return true, err
		}
		from = rows[0] + int64(step) // it was purged
	}
}

// extend adds the jobs of the next claims. It reports whether the page is not full and more claims may follow.
func (l *claimedList) extend(ctx context.Context) (more bool, err error) {
	most, claims := l.q.PageSize()+1, make([][]ledger.Claimed, len(l.kinds))
	err = l.s.do(ctx, true, func(of *ledger.Ledger) error {
		for i, k := range l.kinds {
			claims[i] = of.ClaimedBy(l.q.Worker, k.Kind, k.number, int(l.step), most)
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	err = l.s.read(ctx, "list", "", func(r *reader) error {
		end := int64(math.MaxInt64)
		for i, k := range l.kinds {
			if err := l.read(r, k, claims[i], most); err != nil {
				return err
			}
			if more = more || k.more; k.more {
				end = min(end, l.last(k))
			}
		}
		full, err := l.add(r, l.upTo(end))
		more = more && !full
		return err
	})
	return more, err
}

// read reads the row numbers of claims of a kind.
func (l *claimedList) read(r *reader, k *claimedKind, claims []ledger.Claimed, most int) error {
	k.rows, k.after, k.more = k.rows[:0], k.number, len(claims) == most
	for _, c := range claims {
		k.after = c.Number + l.step
		n, err := r.rowNumber(c.ID)
		if err != nil {
			return err
		}
		if n != 0 { // else it was purged meanwhile
			k.rows = append(k.rows, claimedRow{n, c.Number})
		}
	}
	return nil
}

// last returns the position of the last row of a kind that was read.
func (l *claimedList) last(k *claimedKind) int64 {
	if len(k.rows) == 0 {
		return math.MinInt64
	}
	return l.order(k.rows[len(k.rows)-1].n)
}

// upTo returns the rows that were read up to a position, in the order of the list. The others are read again: before
// them may be rows of another kind that were not read.
func (l *claimedList) upTo(end int64) (all []int64) {
	for _, k := range l.kinds {
		k.number = k.after
		for _, c := range k.rows {
			if l.order(c.n) > end {
				k.number = c.number
				break
			}
			all = append(all, c.n)
		}
	}
	slices.SortFunc(all, func(a, b int64) int { return cmp.Compare(l.order(a), l.order(b)) })
	return all
}

// rowNumber returns the number of the row of a job, 0 if there is none.
func (r *reader) rowNumber(id job.ID) (n int64, err error) {
	if e := r.view.job(id); e != nil {
		return e.n, nil
	}
	r.rowOf.Text(1, string(id))
	err = rows(r.rowOf, func(row *conn.Stmt) error { n = row.GetInt(0); return nil })
	return n, err
}

// add adds the jobs of rows to the page, and reports whether it is full.
func (l *claimedList) add(r *reader, rows []int64) (full bool, err error) {
	w, found, err := l.s.wanted(r, l.q)
	if !found || err != nil {
		return true, err // no job matches
	}
	for _, n := range rows {
		if l.order(n) < l.order(l.from) || !l.s.lines.may(w, n) {
			continue
		}
		e, err := l.s.byRow(r, n)
		if l.s.leftOut(err) {
			continue
		}
		if err != nil {
			return true, err
		}
		if e == nil || !l.q.Matches(&e.job) {
			continue // it changed meanwhile
		}
		if !l.page.Add(&e.job) {
			l.next = strconv.FormatInt(l.after, 10)
			return true, nil
		}
		l.after = n
	}
	return false, nil
}
