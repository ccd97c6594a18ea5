package mem

import (
	"context"

	"github.com/stagepost/stagepost/job"
)

// ListEnded is part of job.Store.
func (s *Store) ListEnded(ctx context.Context, q job.EndedQuery) (job.Page, error) {
	return do(s, ctx, func() (job.Page, error) {
		page, visited, err := s.ends.Page(&q, func(row int64) job.Job {
			return s.jobs[s.order[s.position(int(row))].id]
		})
		s.rows += int64(visited)
		return page, err
	})
}
