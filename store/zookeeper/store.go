package zookeeper

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
	"github.com/stagepost/stagepost/store/internal/rules"
	"github.com/stagepost/stagepost/store/internal/watchers"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// Store is a job.Store in ZooKeeper. Call Open.
type Store struct {
	servers []string
	options Options
	root    root

	turn   chan struct{} // of one element: the goroutine that put it carries out calls
	queued sync.Mutex    // guards calls
	calls  []*call       // that wait

	mu           sync.Mutex // guards all below; it is held during requests, because one multi at a time is made
	session      *session.Session
	epoch        int32    // version of the node epoch under which this process owns the store
	last         string   // what the node commit has
	r            *replica // nil: to be read again
	closed       bool
	open         bool   // every client may change the nodes
	mirror       Mirror // nil: none
	installation string
	watchers     watchers.List
}

var (
	_ job.Store      = (*Store)(nil)
	_ job.ClockStore = (*Store)(nil)
)

// perMulti bounds the records of a multi where the caller bounds their number.
const perMulti = 64

// Create is part of job.Store.
func (s *Store) Create(ctx context.Context, jobs ...job.Created) ([]job.Job, error) {
	return do(s, ctx, func(r *records) ([]job.Job, error) { return ledger.Owned(r.ledger.Create(r, jobs, nil)) })
}

// Get is part of job.Store.
func (s *Store) Get(ctx context.Context, id job.ID) (job.Job, error) {
	return do(s, ctx, func(r *records) (job.Job, error) { return r.one(id) })
}

// one returns a copy of a record.
func (r *replica) one(id job.ID) (job.Job, error) {
	one := r.jobs[id]
	if one == nil {
		return job.Job{}, job.Errorf(job.NotFound, "get", id, "there is no such job")
	}
	j := one.job
	j.Own()
	return j, nil
}

// Numbered is part of job.Store.
func (s *Store) Numbered(ctx context.Context, kind job.Kind, n int64) (job.Job, error) {
	return do(s, ctx, func(r *records) (job.Job, error) {
		id, found := r.numbers[kindNumber{kind, n}]
		if !found {
			return job.Job{}, job.Errorf(job.NotFound, "find", "", "there is no %s with number %d", kind, n)
		}
		return r.one(id)
	})
}

// Named is part of job.Store.
func (s *Store) Named(ctx context.Context, part, owner string, n int) ([]job.Job, error) {
	return do(s, ctx, func(r *records) ([]job.Job, error) { return r.named(part, owner, min(n, mostRows)), nil })
}

// mostRows bounds the jobs of an answer, as job.Store defines.
const mostRows = 1000

// List is part of job.Store.
func (s *Store) List(ctx context.Context, q job.Query) (job.Page, error) {
	if len(q.Words) > 0 {
		return job.Page{}, job.Errorf(job.Refused, "list", "", "a store in ZooKeeper has no index of words: search by "+
			"other filters, such as owner and group")
	}
	return do(s, ctx, func(r *records) (job.Page, error) { return r.list(&q) })
}

// ListEnded is part of job.Store.
func (s *Store) ListEnded(ctx context.Context, q job.EndedQuery) (job.Page, error) {
	return do(s, ctx, func(r *records) (job.Page, error) { return r.listEnded(&q) })
}

// Count is part of job.Store.
func (s *Store) Count(ctx context.Context) ([]job.Tally, error) {
	return do(s, ctx, func(r *records) ([]job.Tally, error) { return r.ledger.Tally(), nil })
}

// History is part of job.Store.
func (s *Store) History(ctx context.Context, id job.ID, seq int64, n int) ([]job.Event, error) {
	return do(s, ctx, func(r *records) ([]job.Event, error) {
		one := r.jobs[id]
		if one == nil {
			return nil, job.Errorf(job.NotFound, "history", id, "there is no such job")
		}
		all := one.history
		if seq < 0 || seq >= int64(len(all)) {
			return nil, nil
		}
		if all = all[seq:]; n > 0 && n < len(all) {
			all = all[:n]
		}
		return slices.Clone(all), nil
	})
}

// Tasks is part of job.Store.
func (s *Store) Tasks(ctx context.Context, id job.ID) ([]job.Task, error) {
	return do(s, ctx, func(r *records) ([]job.Task, error) { return r.tasks(id), nil })
}

// Commit is part of job.Store. Each change is an operation of its own.
func (s *Store) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	results, failed := make([]job.Result, len(changes)), make([]error, len(changes))
	calls := make([]*call, len(changes))
	for i := range changes {
		calls[i] = newCall(ctx, func(r *records) {
			results[i] = job.Result{}
			failed[i] = r.ledger.Commit(r, changes[i:i+1], results[i:i+1])
			results[i].Job.Own()
		})
	}
	s.wait(calls...)
	for i, c := range calls {
		err := cmp.Or(c.failed, failed[i])
		if err != nil && !refused(err) {
			return nil, err
		}
		if err != nil {
			results[i].Err = err
		}
	}
	return results, nil
}

// Claim is part of job.Store.
func (s *Store) Claim(ctx context.Context, c job.Claim) ([]job.Job, error) {
	return do(s, ctx, func(r *records) ([]job.Job, error) {
		r.apart = true
		return rules.InParts(&c, perMulti, func(part *job.Claim) ([]job.Job, error) {
			own := *part
			if r.s.mirror != nil {
				if free, err := r.passBusy(&own); !free {
					return nil, err
				}
			}
			jobs, err := ledger.Owned(r.ledger.Claim(r, &own))
			if refused(err) { // another program was faster: the next claim finds that
				return nil, nil
			}
			return jobs, err
		})
	})
}

// Peek is part of job.Store.
func (s *Store) Peek(ctx context.Context, c job.Claim, id job.ID) (job.Forecast, error) {
	return do(s, ctx, func(r *records) (job.Forecast, error) { return r.ledger.Peek(&c, id), nil })
}

// Renew is part of job.Store.
func (s *Store) Renew(ctx context.Context, c job.Renewal) ([]job.Lease, error) {
	return do(s, ctx, func(r *records) (lost []job.Lease, err error) {
		r.apart = true
		for leases := range slices.Chunk(c.Leases, perMulti) {
			part := c
			part.Leases = leases
			ended, err := r.ledger.Renew(r, &part)
			if err != nil {
				return nil, err
			}
			lost = append(lost, ended...)
		}
		return lost, nil
	})
}

// Overdue is part of job.Store.
func (s *Store) Overdue(ctx context.Context, now time.Time, kinds []job.Kind, n int) ([]job.Job, error) {
	return do(s, ctx, func(r *records) (jobs []job.Job, err error) {
		for _, id := range r.ledger.Overdue(now, kinds, min(n, mostRows)) {
			j, err := r.one(id)
			if err != nil {
				return nil, err
			}
			jobs = append(jobs, j)
		}
		return jobs, nil
	})
}

// Holds is part of job.Store.
func (s *Store) Holds(ctx context.Context) ([]job.Hold, error) {
	return do(s, ctx, func(r *records) ([]job.Hold, error) { return r.ledger.Holds(), nil })
}

// Hold is part of job.Store.
func (s *Store) Hold(ctx context.Context, h job.Hold) ([]job.Hold, error) {
	return do(s, ctx, func(r *records) ([]job.Hold, error) { return r.ledger.Hold(r, h) })
}

// Release is part of job.Store.
func (s *Store) Release(ctx context.Context, h job.Hold) ([]job.Hold, error) {
	return do(s, ctx, func(r *records) ([]job.Hold, error) { return r.ledger.Release(r, h) })
}

// Watch is part of job.Store.
func (s *Store) Watch(ctx context.Context, wake func([]job.Hint)) {
	s.watchers.Watch(ctx, wake)
}

// mostSpawned is how many jobs fit one multi, with the nodes of a mirror: about 4 KiB each.
const mostSpawned = 128

// Properties is part of job.Store. A search by words would read all records.
func (s *Store) Properties() job.Properties {
	return job.Properties{Name: "zookeeper", Durable: true, Exclusive: true, Spawn: mostSpawned}
}
