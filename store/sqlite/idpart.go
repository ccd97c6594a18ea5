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

// selectIDPart finds rows by the beginning or end of the id among the newest ones, selectIDBegin by the index of ids
// (?1 to ?2).
const (
	selectIDPart = `SELECT n, id FROM (SELECT n, id FROM job_made ORDER BY n DESC LIMIT 10000)
 WHERE substr(id, -length(?1)) = ?1 OR substr(id, 1, length(?1)) = ?1 ORDER BY n DESC`
	selectIDBegin = "SELECT n, id FROM job_made WHERE id >= ?1 AND id < ?2 ORDER BY id DESC"
)

// mostPassed bounds the rows of the index of ids that are read and do not fit, as the jobs of other owners.
const mostPassed = 10_000

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

// idSearch is a search for ids with a part.
type idSearch struct {
	stmt  *conn.Stmt                 // rows of the database, in order
	fits  func(id, part string) bool // the same for rows of the overlay
	order func(a, b idMatch) int
}

// withPart returns up to n rows whose id begins or ends with a part and that fit, newest first. Of those that are not
// among the newest rows, it finds the ones with the highest ids that begin with the part.
func (r *reader) withPart(part string, n int, fits func(*idMatch) (bool, error)) (all []idMatch, err error) {
	newest := func(a, b idMatch) int { return cmp.Compare(b.n, a.n) }
	r.idPart.Text(1, part)
	all, err = r.search(idSearch{r.idPart, func(id, part string) bool {
		return strings.HasPrefix(id, part) || strings.HasSuffix(id, part)
	}, newest}, part, n, fits)
	if err != nil || len(all) >= n {
		return all, err
	}
	r.idBegin.Text(1, part)
	r.idBegin.Text(2, part+"\U0010ffff")
	older, err := r.search(idSearch{r.idBegin, strings.HasPrefix, func(a, b idMatch) int {
		return cmp.Compare(b.id, a.id)
	}}, part, n, fits)
	if err != nil {
		return nil, err
	}
	all = append(all, older...)
	slices.SortFunc(all, newest)
	all = slices.CompactFunc(all, func(a, b idMatch) bool { return a.n == b.n })
	return all[:min(n, len(all))], nil
}

// search makes one search: rows of the overlay and of the database in one order.
func (r *reader) search(
	by idSearch, part string, n int, fits func(*idMatch) (bool, error),
) (all []idMatch, err error) {
	newer := r.view.ids(func(id job.ID) bool { return by.fits(string(id), part) })
	slices.SortFunc(newer, by.order)
	newer = slices.CompactFunc(newer, func(a, b idMatch) bool { return a.n == b.n }) // of both generations
	enough, passed := errors.New("enough"), 0
	take := func(m idMatch) error {
		ok, err := fits(&m)
		if err != nil {
			return err
		}
		if !ok {
			if passed++; passed > mostPassed {
				return enough
			}
			return nil
		}
		if all = append(all, m); len(all) == n {
			return enough
		}
		return nil
	}
	upTo := func(m idMatch) error { // takes what the overlay has before a row of the database
		for len(newer) > 0 && by.order(newer[0], m) <= 0 {
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
	err = rows(by.stmt, func(row *conn.Stmt) error {
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
	if n == 0 {
		return nil, nil
	}
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
			for _, m := range all {
				jobs = append(jobs, m.job)
			}
			return err
		})
	})
	return orNone(jobs, err)
}
