package mem

import (
	"context"
	"strconv"

	"github.com/stagepost/stagepost/job"
)

// List is part of job.Store.
func (s *Store) List(ctx context.Context, q job.Query) (job.Page, error) {
	if err := q.Validate(); err != nil {
		return job.Page{}, err
	}
	return do(s, ctx, func() (job.Page, error) {
		if q.Number != 0 {
			return s.those([]job.ID{s.numbers[number{q.Kinds[0], q.Number}]}, q), nil
		}
		if !q.Overdue.IsZero() || q.Worker != "" {
			return s.those(s.ledger.Live(&q, q.PageSize()), q), nil
		}
		step, at := -1, len(s.order)-1
		if q.Oldest {
			step, at = 1, 0
		}
		if q.After != "" {
			last, err := strconv.Atoi(q.After)
			if err != nil {
				return job.Page{}, job.Errorf(job.Invalid, "list", "", "bad cursor %q", q.After)
			}
			at = last + step
		}
		var page job.Page
		limit := q.PageSize()
		for ; at >= 0 && at < len(s.order); at += step {
			j, there := s.jobs[s.order[at]]
			if !there || !q.Matches(&j) {
				continue
			}
			if len(page.Jobs) == limit && q.IDPart != "" {
				break
			}
			if len(page.Jobs) == limit {
				page.Next = strconv.Itoa(s.place[page.Jobs[limit-1].ID])
				break
			}
			page.Jobs = append(page.Jobs, j)
		}
		return page, nil
	})
}

func (s *Store) those(ids []job.ID, q job.Query) job.Page {
	var page job.Page
	for _, id := range ids {
		if j, there := s.jobs[id]; there && q.Matches(&j) && len(page.Jobs) < q.PageSize() {
			page.Jobs = append(page.Jobs, j)
		}
	}
	return page
}
