package sqlite

import (
	"context"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
)

// selectIDPart finds rows by the index of ids (?1 to ?2), and by the end of the id among the newest rows.
const selectIDPart = `SELECT n FROM (SELECT n FROM job_made WHERE id >= ?1 AND id < ?2 ORDER BY id DESC LIMIT 1000)
 UNION SELECT n FROM (SELECT n, id FROM job_made ORDER BY n DESC LIMIT 10000) WHERE substr(id, -length(?1)) = ?1
 ORDER BY n DESC`

// listIDPart returns the page of a query with IDPart.
func (s *Store) listIDPart(ctx context.Context, q *job.Query) (page job.Page, err error) {
	err = s.read(ctx, "list", "", func(r *reader) error {
		return r.inSnapshot(func() error {
			var found []int64
			r.idPart.Text(1, q.IDPart)
			r.idPart.Text(2, q.IDPart+"\U0010ffff")
			err := rows(r.idPart, func(row *conn.Stmt) error {
				found = append(found, row.GetInt(0))
				return nil
			})
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
