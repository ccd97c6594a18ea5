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
	page, err := a.engine.Store().List(ctx, job.Query{Kinds: []job.Kind{JobKind}, States: []lifecycle.State{Queued},
		Group: j.Group, Oldest: true, Limit: mostAhead})
	if err != nil {
		return 0, err
	}
	slices.SortStableFunc(page.Jobs, func(a, b job.Job) int { return cmp.Compare(a.Priority, b.Priority) })
	now = queue{read: read, place: make(map[job.ID]int, len(page.Jobs))}
	for i := range page.Jobs {
		now.place[page.Jobs[i].ID] = i + 1
	}
	q.by[j.Group] = now
	return now.place[j.ID], nil
}
