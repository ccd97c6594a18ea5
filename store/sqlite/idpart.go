package sqlite

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
)

// selectIDBegin finds rows by the index of ids (?1 to ?2), selectIDEnd by the end of the id among the newest rows.
const (
	selectIDBegin = "SELECT n, id FROM job_made WHERE id >= ?1 AND id < ?2 ORDER BY id DESC"
	selectIDEnd   = `SELECT n, id FROM (SELECT n, id FROM job_made ORDER BY n DESC LIMIT 10000)
 WHERE substr(id, -length(?1)) = ?1 ORDER BY n DESC`
)

// mostIDs bounds the ids that IDs returns for one end of an id.
const mostIDs = 1000

// idMatch is a row whose id begins or ends with a part.
type idMatch struct {
	n   int64
	id  job.ID
	job job.Job // of [Store.Named]
}

// IDs returns the ids that begin or end with a part, newest first, those of damaged records too.
func (s *Store) IDs(ctx context.Context, part string) (ids []job.ID, err error) {
	err = s.read(ctx, "ids", "", func(r *reader) error {
		return r.inSnapshot(func() error {
			all, err := r.withPart(part, mostIDs, func(*idMatch) (bool, error) { return true, nil })
			for _, m := range all {
				ids = append(ids, m.id)
			}
			return err
		})
	})
	return ids, err
}

// idEnd is one end of an id: where a part is compared.
type idEnd struct {
	stmt  *conn.Stmt                 // rows of the database, in order
	fits  func(id, part string) bool // the same for rows of the overlay
	order func(a, b idMatch) int
}

// withPart returns the rows whose id begins or ends with a part and that fit, newest first, at most n of either.
func (r *reader) withPart(part string, n int, fits func(*idMatch) (bool, error)) (all []idMatch, err error) {
	newest := func(a, b idMatch) int { return cmp.Compare(b.n, a.n) }
	r.idBegin.Text(1, part)
	r.idBegin.Text(2, part+"\U0010ffff")
	r.idEnd.Text(1, part)
	for _, end := range []idEnd{
		{r.idBegin, strings.HasPrefix, func(a, b idMatch) int { return cmp.Compare(b.id, a.id) }},
		{r.idEnd, strings.HasSuffix, newest},
	} {
		found, err := r.withEnd(end, part, n, fits)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, newest)
	return slices.CompactFunc(all, func(a, b idMatch) bool { return a.n == b.n }), nil
}

// withEnd is withPart for one end of the id: rows of the overlay and of the database in one order.
func (r *reader) withEnd(
	end idEnd, part string, n int, fits func(*idMatch) (bool, error),
) (all []idMatch, err error) {
	newer := r.view.ids(func(id job.ID) bool { return end.fits(string(id), part) })
	slices.SortFunc(newer, end.order)
	newer = slices.CompactFunc(newer, func(a, b idMatch) bool { return a.n == b.n }) // of both generations
	enough := errors.New("enough")
	take := func(m idMatch) error {
		ok, err := fits(&m)
		if !ok || err != nil {
			return err
		}
		if all = append(all, m); len(all) == n {
			return enough
		}
		return nil
	}
	upTo := func(m idMatch) error { // takes what the overlay has before a row of the database
		for len(newer) > 0 && end.order(newer[0], m) <= 0 {
			next := newer[0]
			newer = newer[1:]
			if err := take(next); err != nil {
				return err
			}
		}
		return nil
	}
	known := map[int64]bool{}
	for _, m := range newer {
		known[m.n] = true
	}
	err = rows(end.stmt, func(row *conn.Stmt) error {
		m := idMatch{n: row.GetInt(0), id: job.ID(row.GetText(1))}
		if err := upTo(m); err != nil || known[m.n] {
			return err
		}
		return take(m)
	})
	for err == nil && len(newer) > 0 {
		m := newer[0]
		newer = newer[1:]
		err = take(m)
	}
	if errors.Is(err, enough) {
		err = nil
	}
	return all, err
}

// Named is part of job.Store. The owner is compared with the lines in memory, so that jobs of others cost one step in
// the index of ids.
func (s *Store) Named(ctx context.Context, part, owner string, n int) (jobs []job.Job, err error) {
	q := job.Query{Owner: owner}
	n = max(0, min(n, mostRows))
	err = s.read(ctx, "find", "", func(r *reader) error {
		return r.inSnapshot(func() error {
			w, found, err := s.wanted(r, &q)
			if !found || err != nil {
				return err
			}
			all, err := r.withPart(part, n, func(m *idMatch) (bool, error) {
				if !s.lines.may(w, m.n) {
					return false, ctx.Err()
				}
				e, err := s.byRow(r, m.n)
				if s.leftOut(err) {
					return false, nil
				}
				if err != nil || e == nil || !q.Matches(&e.job) {
					return false, err
				}
				m.job = e.job
				return true, nil
			})
			for _, m := range all[:min(len(all), n)] {
				jobs = append(jobs, m.job)
			}
			return err
		})
	})
	return orNone(jobs, err)
}
