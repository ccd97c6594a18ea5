package mem

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
	"github.com/stagepost/stagepost/store/internal/rules"
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

// Named is part of job.Store. The newest rows are compared one by one, older ones are found by the index of ids.
func (s *Store) Named(ctx context.Context, part, owner string, n int) ([]job.Job, error) {
	return do(s, ctx, func() ([]job.Job, error) {
		const newest = 10_000
		n = min(n, mostRows)
		var found []job.Job
		at, from := len(s.order)-1, s.lastRow // of what is left
		for rows := 0; at >= 0 && rows < newest && len(found) < n; at-- {
			from = s.order[at].n - 1
			j, there := s.jobs[s.order[at].id]
			if !there {
				continue
			}
			rows++
			id := string(j.ID)
			fits := strings.HasPrefix(id, part) || strings.HasSuffix(id, part)
			if fits && (owner == "" || owner == j.Owner) {
				found = append(found, j)
			}
			s.rows++
		}
		if len(found) < n {
			found = append(found, s.named(part, owner, from, n-len(found))...)
		}
		return ledger.Owned(found, nil)
	})
}

// named returns up to n jobs whose id begins with part, newest first, of the rows up to number from: those with the
// highest ids. It passes over as many jobs as the contract allows.
func (s *Store) named(part, owner string, from, n int) (found []job.Job) {
	const most = 10_000
	first, _ := slices.BinarySearch(s.ids, job.ID(part))
	last := first + sort.Search(len(s.ids)-first, func(i int) bool {
		return !strings.HasPrefix(string(s.ids[first+i]), part)
	})
	for passed := 0; last > first && len(found) < n && passed <= most; last-- {
		id := s.ids[last-1]
		s.rows++
		if j := s.jobs[id]; s.place[id] <= from && (owner == "" || owner == j.Owner) {
			found = append(found, j)
		} else {
			passed++
		}
	}
	slices.SortFunc(found, func(a, b job.Job) int { return cmp.Compare(s.place[b.ID], s.place[a.ID]) })
	return found
}

// List is part of job.Store.
func (s *Store) List(ctx context.Context, q job.Query) (job.Page, error) {
	if err := q.Check(); err != nil {
		return job.Page{}, err
	}
	return do(s, ctx, func() (job.Page, error) {
		step, at, from := -1, len(s.order)-1, s.lastRow
		if q.Oldest {
			step, at, from = 1, 0, 1
		}
		if q.After != "" {
			last, err := strconv.Atoi(q.After)
			if err != nil {
				return job.Page{}, job.Errorf(job.Invalid, "list", "", "bad cursor %q", q.After)
			}
			at, from = s.beyond(last, q.Oldest), last+step
		}
		if len(q.Words) > 0 {
			return s.pageOfWords(&q, from)
		}
		page, next := rules.NewPage(&q), ""
		for at := range s.positions(&q, at, step) {
			s.rows++
			j, there := s.jobs[s.order[at].id]
			if !there || !q.Matches(&j) {
				continue
			}
			j.Own()
			if !page.Add(&j) {
				next = strconv.Itoa(s.place[page.Jobs[len(page.Jobs)-1].ID])
				break
			}
		}
		return job.Page{Jobs: page.Jobs, Next: next}, nil
	})
}

// positions returns the positions of the jobs that a query may select, from one on: of all jobs, or of those that its
// workers have claimed.
func (s *Store) positions(q *job.Query, from, step int) iter.Seq[int] {
	if q.Worker == "" {
		return func(yield func(int) bool) {
			for at := from; at >= 0 && at < len(s.order) && yield(at); at += step {
			}
		}
	}
	var all []int
	for _, kind := range s.ledger.ClaimKinds(q.Worker) {
		for _, c := range s.ledger.ClaimedBy(q.Worker, kind, 0, 1, math.MaxInt) {
			if at := s.position(s.place[c.ID]); (at-from)*step >= 0 {
				all = append(all, at)
			}
		}
	}
	slices.SortFunc(all, func(a, b int) int { return step * cmp.Compare(a, b) })
	return slices.Values(all)
}

// beyond returns where in the order a list goes on after the row with number n.
func (s *Store) beyond(n int, oldest bool) int {
	if oldest {
		return s.position(n + 1)
	}
	return s.position(n) - 1
}

// position returns where in the order the first row is whose number is not below n.
func (s *Store) position(n int) int {
	return sort.Search(len(s.order), func(i int) bool { return s.order[i].n >= n })
}

func (s *Store) those(ids []job.ID) []job.Job {
	jobs := make([]job.Job, len(ids))
	s.rows += int64(len(ids))
	for i, id := range ids {
		jobs[i] = s.jobs[id]
	}
	return jobs
}
