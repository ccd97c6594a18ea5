package mem

import (
	"context"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/job"
)

// mostRows bounds the jobs of an answer, as job.Store defines.
const mostRows = 1000

// Numbered is part of job.Store.
func (s *Store) Numbered(ctx context.Context, kind job.Kind, n int64) (job.Job, error) {
	return do(s, ctx, func() (job.Job, error) {
		id, known := s.numbers[number{kind, n}]
		if !known {
			return job.Job{}, job.Errorf(job.NotFound, "find", "", "there is no %s with number %d", kind, n)
		}
		return s.one(id)
	})
}

// Named is part of job.Store.
func (s *Store) Named(ctx context.Context, part, owner string, n int) ([]job.Job, error) {
	return do(s, ctx, func() ([]job.Job, error) {
		const newest = 10_000
		var found []job.Job
		rows := 0
		for at := len(s.order) - 1; at >= 0 && len(found) < min(n, mostRows); at-- {
			j, there := s.jobs[s.order[at]]
			if !there {
				continue
			}
			rows++
			id := string(j.ID)
			fits := strings.HasPrefix(id, part) || rows <= newest && strings.HasSuffix(id, part)
			if fits && (owner == "" || owner == j.Owner) {
				found = append(found, j)
			}
		}
		return owned(found, nil)
	})
}

// List is part of job.Store.
func (s *Store) List(ctx context.Context, q job.Query) (job.Page, error) {
	return do(s, ctx, func() (job.Page, error) {
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
			if len(page.Jobs) == limit {
				page.Next = strconv.Itoa(s.place[page.Jobs[limit-1].ID])
				break
			}
			j.Own()
			page.Jobs = append(page.Jobs, j)
		}
		return page, nil
	})
}

func (s *Store) those(ids []job.ID) []job.Job {
	jobs := make([]job.Job, len(ids))
	for i, id := range ids {
		jobs[i] = s.jobs[id]
	}
	return jobs
}
