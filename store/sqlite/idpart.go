package sqlite

import (
	"cmp"
	"context"
	"errors"
	"slices"

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
	if err := s.applier.flush(ctx); err != nil {
		return nil, err
	}
	err = s.readDatabase(ctx, "ids", "", func(r *reader) error {
		all, err := r.withPart(part, mostIDs, func(*idMatch) (bool, error) { return true, nil })
		for _, m := range all {
			ids = append(ids, m.id)
		}
		return err
	})
	return ids, err
}

// withPart returns the rows whose id begins or ends with a part and that fit, newest first, at most n of either.
func (r *reader) withPart(part string, n int, fits func(*idMatch) (bool, error)) (all []idMatch, err error) {
	enough := errors.New("enough")
	for _, s := range []*conn.Stmt{r.idBegin, r.idEnd} {
		s.Text(1, part)
		if s == r.idBegin {
			s.Text(2, part+"\U0010ffff")
		}
		found := 0
		err := rows(s, func(row *conn.Stmt) error {
			m := idMatch{n: row.GetInt(0), id: job.ID(row.GetText(1))}
			ok, err := fits(&m)
			if !ok || err != nil {
				return err
			}
			all = append(all, m)
			if found++; found == n {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b idMatch) int { return cmp.Compare(b.n, a.n) })
	return slices.CompactFunc(all, func(a, b idMatch) bool { return a.n == b.n }), nil
}

// Named is part of job.Store. The owner is compared with the lines in memory, so that jobs of others cost one step in
// the index of ids.
func (s *Store) Named(ctx context.Context, part, owner string, n int) (jobs []job.Job, err error) {
	q := job.Query{Owner: owner}
	n = min(n, mostRows)
	if err := s.applier.flush(ctx); err != nil {
		return nil, err
	}
	err = s.readDatabase(ctx, "find", "", func(r *reader) error {
		return r.inSnapshot(func() error {
			w, found, err := s.wanted(r, &q)
			if !found || err != nil {
				return err
			}
			all, err := r.withPart(part, n, func(m *idMatch) (bool, error) {
				if !s.lines.may(w, m.n) {
					return false, ctx.Err()
				}
				r.byRow.Int(1, m.n)
				e, err := s.row(r.byRow)
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
