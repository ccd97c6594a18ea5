package sqlite

import (
	"context"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
)

// selectIDPart finds rows by the index of ids (?1 to ?2), and by the end of the id among the newest rows.
const selectIDPart = `SELECT n, id FROM (SELECT n, id FROM job_made WHERE id >= ?1 AND id < ?2 ORDER BY id DESC LIMIT 1000)
 UNION SELECT n, id FROM (SELECT n, id FROM job_made ORDER BY n DESC LIMIT 10000) WHERE substr(id, -length(?1)) = ?1
 ORDER BY n DESC`

// IDs returns the ids that begin or end with a part, newest first, those of damaged records too.
func (s *Store) IDs(ctx context.Context, part string) (ids []job.ID, err error) {
	err = s.read(ctx, "ids", "", func(r *reader) error {
		return r.withPart(part, func(row *conn.Stmt) { ids = append(ids, job.ID(row.GetText(1))) })
	})
	return ids, err
}

// withPart calls f for the rows whose id begins or ends with a part.
func (r *reader) withPart(part string, f func(row *conn.Stmt)) error {
	r.idPart.Text(1, part)
	r.idPart.Text(2, part+"\U0010ffff")
	return rows(r.idPart, func(row *conn.Stmt) error {
		f(row)
		return nil
	})
}

// listIDPart returns the page of a query with IDPart.
func (s *Store) listIDPart(ctx context.Context, q *job.Query) (page job.Page, err error) {
	err = s.read(ctx, "list", "", func(r *reader) error {
		return r.inSnapshot(func() error {
			var found []int64
			err := r.withPart(q.IDPart, func(row *conn.Stmt) { found = append(found, row.GetInt(0)) })
			for _, n := range found {
				if err != nil || len(page.Jobs) == q.PageSize() {
					break
				}
				r.byRow.Int(1, n)
				var e *entry
				if e, err = s.row(r.byRow); s.leftOut(err) {
					err = nil
				} else if err == nil && e != nil && q.Matches(&e.job) {
					page.Jobs = append(page.Jobs, e.job)
				}
			}
			return err
		})
	})
	return page, err
}
