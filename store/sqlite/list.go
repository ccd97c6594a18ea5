package sqlite

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
	"github.com/stagepost/stagepost/store/internal/rules"
)

// List is part of job.Store. A cursor is the row number of a page's last job.
func (s *Store) List(ctx context.Context, q job.Query) (job.Page, error) {
	if err := q.Check(); err != nil {
		return job.Page{}, err
	}
	from := int64(1)
	if !q.Oldest {
		from = s.lines.last()
	}
	if q.After != "" {
		after, err := strconv.ParseInt(q.After, 10, 64)
		if err != nil || after < 0 {
			return job.Page{}, job.Errorf(job.Invalid, "list", "", "bad cursor %q", q.After)
		}
		from = after + int64(step(&q))
	}
	if q.Worker != "" {
		return s.listClaimed(ctx, &q, from)
	}
	var page job.Page
	err := s.read(ctx, "list", "", func(r *reader) error {
		return r.inSnapshot(func() (err error) {
			page, err = s.page(r, &q, from)
			return err
		})
	})
	return page, err
}

// ListEnded is part of job.Store. The lines have the second in which a job changed, and each block the first one of its
// ended jobs, so no record of a job that changed later is read.
func (s *Store) ListEnded(ctx context.Context, q job.EndedQuery) (job.Page, error) {
	if len(q.States) == 0 || q.Before.IsZero() {
		return job.Page{}, nil
	}
	return s.List(ctx, job.Query{Kinds: []job.Kind{q.Kind}, States: q.States, Before: q.Before, Ended: new(true),
		Oldest: true, After: q.After, Limit: q.Limit})
}

func step(q *job.Query) int {
	if q.Oldest {
		return 1
	}
	return -1
}

// mostRows bounds the jobs of an answer, as job.Store defines.
const mostRows = 1000

// Overdue is part of job.Store.
func (s *Store) Overdue(ctx context.Context, now time.Time, kinds []job.Kind, n int) (jobs []job.Job, err error) {
	ids, err := s.queued(ctx, func(l *ledger.Ledger) []job.ID { return l.Overdue(now, kinds, min(n, mostRows)) })
	if err != nil {
		return nil, err
	}
	err = s.read(ctx, "overdue", "", func(r *reader) error {
		return s.eachOf(r, ids, func(e *entry) {
			if e.job.Overdue(now) {
				jobs = append(jobs, e.job)
			}
		})
	})
	return orNone(jobs, err)
}

// queued asks the queue for jobs.
func (s *Store) queued(ctx context.Context, find func(*ledger.Ledger) []job.ID) (ids []job.ID, err error) {
	err = s.do(ctx, true, func(l *ledger.Ledger) error {
		ids = find(l)
		return nil
	})
	return ids, err
}

// eachOf reads the records of jobs and leaves out those that were purged meanwhile or are damaged.
func (s *Store) eachOf(r *reader, ids []job.ID, f func(*entry)) error {
	for _, id := range ids {
		e, err := s.entry(r, id)
		if job.KindOf(err) == job.NotFound || s.leftOut(err) {
			continue
		}
		if err != nil {
			return err
		}
		f(e)
	}
	return nil
}

// page collects a page and one more job, to detect another page.
func (s *Store) page(r *reader, q *job.Query, from int64) (page job.Page, err error) {
	some, limit := rules.NewPage(q), q.PageSize()
	defer func() { page.Jobs = some.Jobs }()
	w, found, err := s.wanted(r, q)
	if !found || err != nil {
		return page, err
	}
	if len(q.Words) > 0 {
		page.Next, err = s.pageOfWords(r, q, w, &some, from)
		return page, err
	}
	last := int64(0)
	for {
		candidates, err := s.candidates(r, q, w, from, limit+1)
		if err != nil {
			return page, err
		}
		for _, n := range candidates {
			e, err := s.byRow(r, n)
			if s.leftOut(err) {
				continue
			}
			if err != nil {
				return page, err
			}
			if e == nil || !q.Matches(&e.job) {
				continue // it changed meanwhile
			}
			if !some.Add(&e.job) {
				page.Next = strconv.FormatInt(last, 10)
				return page, nil
			}
			last = n
		}
		if len(candidates) <= limit {
			return page, nil
		}
		from = candidates[len(candidates)-1] + int64(step(q))
	}
}

// candidates returns rows that may match, from a row on.
func (s *Store) candidates(r *reader, q *job.Query, w *want, from int64, n int) ([]int64, error) {
	if q.Key == "" {
		return s.lines.search(w, from, step(q), n), nil
	}
	var found []int64
	r.keyed.Text(1, q.Key)
	err := rows(r.keyed, func(k *conn.Stmt) error {
		if row := k.GetInt(0); (q.Oldest && row >= from) || (!q.Oldest && row <= from) {
			found = append(found, row)
		}
		return nil
	})
	for _, row := range r.view.rowsOf(q.Key) {
		if (q.Oldest && row >= from) || (!q.Oldest && row <= from) {
			found = append(found, row)
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	if !q.Oldest {
		slices.Reverse(found)
	}
	return found[:min(n, len(found))], err
}

// wanted translates a query to numbers. found is false when nothing can match.
func (s *Store) wanted(r *reader, q *job.Query) (w *want, found bool, err error) {
	w = &want{ended: q.Ended}
	for _, k := range q.Kinds {
		w.kinds = s.appendName(w.kinds, string(k))
	}
	for _, st := range q.States {
		w.states = s.appendName(w.states, string(st))
	}
	for _, o := range q.Outcomes {
		w.outcomes = s.appendName(w.outcomes, string(o))
	}
	if len(q.Kinds) > 0 && len(w.kinds) == 0 || len(q.States) > 0 && len(w.states) == 0 || len(q.Outcomes) > 0 &&
		len(w.outcomes) == 0 {
		return w, false, nil
	}
	for _, c := range q.Causes {
		w.causes = append(w.causes, *s.numberOf(c))
	}
	if q.Tag != "" {
		w.tags = append(s.names.sets.with(q.Tag), unnumbered)
	}
	if q.Group != "" {
		w.group = s.numberOf(q.Group)
	}
	if q.Owner != "" {
		w.owner = s.numberOf(q.Owner)
	}
	if !q.Before.IsZero() {
		w.before = uint32(max(1, q.Before.Unix()))
	}
	if q.Parent == "" {
		return w, true, nil
	}
	if e := r.view.job(q.Parent); e != nil {
		n := uint32(e.n)
		w.parent = &n
		return w, true, nil
	}
	r.rowOf.Text(1, string(q.Parent))
	err = rows(r.rowOf, func(row *conn.Stmt) error {
		n := uint32(row.GetInt(0))
		w.parent = &n
		return nil
	})
	return w, w.parent != nil, err
}

// leftOut reports whether a read found a damaged record, which a list omits. It is reported once.
func (s *Store) leftOut(err error) bool {
	if !isDamage(err) {
		return false
	}
	s.report(err)
	return true
}

// report passes damage to OnDamage, once for each job.
func (s *Store) report(err error) {
	var e *job.Error
	if !errors.As(err, &e) || s.options.OnDamage == nil {
		return
	}
	if _, known := s.reported.LoadOrStore(e.ID, true); !known {
		s.options.OnDamage(err)
	}
}

func (s *Store) appendName(to []uint32, name string) []uint32 {
	n, ok := s.names.words.find(name)
	if !ok && name != "" {
		return to
	}
	return append(to, uint32(n))
}

func (s *Store) numberOf(word string) *uint32 {
	number := unnumbered
	if word == "" {
		number = 0
	} else if n, ok := s.names.words.find(word); ok {
		number = uint32(n)
	}
	return &number
}
