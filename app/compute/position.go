package compute

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// mostAhead is how far a position in the queue is counted.
const mostAhead = 1000

// queueAge is for how long a service's queue, once read, serves all requests: users repeat them.
const queueAge = 500 * time.Millisecond

// queues are the positions of the waiting jobs, by service.
type queues struct {
	mu sync.Mutex // guards by; held while a queue is read, so that many who ask read it once
	by map[string]queue
}

type queue struct {
	read  time.Time
	place map[job.ID]int
}

func newQueues() *queues { return &queues{by: map[string]queue{}} }

// Position reports the position of a job among those of its service that wait, 1 for the next; 0 if it is not among the
// thousand oldest. Owners take turns, so that a job may come earlier.
func (a *App) Position(ctx context.Context, j *job.Job) (int, error) {
	q := a.queues
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.by[j.Group]
	if place, ok := now.place[j.ID]; time.Since(now.read) < queueAge && (ok || now.read.After(j.Changed)) {
		return place, nil
	}
	read := time.Now()
	all, err := Waiting(ctx, a.engine.Store(), j.Group, mostAhead)
	if err != nil {
		return 0, err
	}
	slices.SortStableFunc(all, func(a, b job.Job) int { return cmp.Compare(a.Priority, b.Priority) })
	now = queue{read: read, place: make(map[job.ID]int, len(all))}
	for i := range all {
		now.place[all[i].ID] = i + 1
	}
	q.by[j.Group] = now
	return now.place[j.ID], nil
}

// Waiting returns up to n waiting jobs of a service without their specs and data, the oldest first. Pages of large jobs
// end early.
func Waiting(ctx context.Context, jobs job.Store, service string, n int) (all []job.Job, err error) {
	q := job.Query{Kinds: []job.Kind{JobKind}, States: []lifecycle.State{Queued}, Group: service, Oldest: true}
	for len(all) < n {
		q.Limit = n - len(all)
		page, err := jobs.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Jobs {
			page.Jobs[i].Spec, page.Jobs[i].Data = nil, nil
		}
		all = append(all, page.Jobs...)
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	return all, nil
}
