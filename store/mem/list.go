package mem

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
)

// List is part of job.Store.
func (s *Store) List(ctx context.Context, q job.Query) (job.Page, error) {
	return do(s, ctx, func() (job.Page, error) {
		if !q.Overdue.IsZero() || q.Worker != "" {
			return s.those(s.ledger.Live(&q, pageSize(q.Limit)), q), nil
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
		limit := pageSize(q.Limit)
		for ; at >= 0 && at < len(s.order); at += step {
			j := s.jobs[s.order[at]]
			if !matches(&q, &j) {
				continue
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
		if j := s.jobs[id]; matches(&q, &j) {
			page.Jobs = append(page.Jobs, j)
		}
	}
	return page
}

func pageSize(n int) int {
	switch {
	case n <= 0:
		return 50
	case n > 1000:
		return 1000
	}
	return n
}

func matches(q *job.Query, j *job.Job) bool {
	return in(q.Kinds, j.Kind) && in(q.States, j.State) && in(q.Outcomes, j.Outcome) &&
		is(q.Group, j.Group) && is(q.Owner, j.Owner) && is(q.Parent, j.Parent) && is(q.Key, j.Key) &&
		(q.Ended == nil || *q.Ended == j.Ended) && (q.Before.IsZero() || j.Changed.Before(q.Before)) &&
		(q.Overdue.IsZero() || overdue(j, q.Overdue)) && strings.HasPrefix(j.Worker, q.Worker)
}

func overdue(j *job.Job, now time.Time) bool {
	past := func(t time.Time) bool { return !t.IsZero() && !t.After(now) }
	return !j.Ended && ((j.Claimed() && past(j.Until)) || past(j.Expires))
}

func in[T comparable](wanted []T, got T) bool {
	return len(wanted) == 0 || slices.Contains(wanted, got)
}

func is[T ~string](wanted, got T) bool { return wanted == "" || wanted == got }
