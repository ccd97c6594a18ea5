package zookeeper

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
	"github.com/stagepost/stagepost/store/internal/rules"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// Store is a job.Store in ZooKeeper. Call Open.
type Store struct {
	servers []string
	options Options
	root    root

	mu       sync.Mutex // guards all below; it is held during requests, because one operation at a time is made
	session  *session.Session
	epoch    int32    // version of the node epoch under which this process owns the store
	r        *replica // nil: to be read again
	closed   bool
	mirror   Mirror // nil: none
	watchers map[int]func([]job.Hint)
	nextID   int
}

var (
	_ job.Store      = (*Store)(nil)
	_ job.ClockStore = (*Store)(nil)
)

// do runs one operation under the lock, and then notifies the watchers.
func do[T any](s *Store, ctx context.Context, op func(*records) (T, error)) (T, error) {
	answer, hints, wake, err := locked(s, ctx, op)
	for _, w := range wake {
		w(slices.Clone(hints))
	}
	return answer, err
}

func locked[T any](s *Store, ctx context.Context, op func(*records) (T, error)) (answer T, hints []job.Hint,
	wake []func([]job.Hint), err error) {
	if err := ctx.Err(); err != nil {
		return answer, nil, nil, &job.Error{Op: "store", Kind: job.Unavailable, Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return answer, nil, nil, err
	}
	r := &records{s: s, replica: s.r, ctx: context.WithoutCancel(ctx)}
	answer, err = op(r)
	if r.failed != nil {
		s.r = nil // the queue may have changed without the records
		if k := session.KindOf(r.failed); k == session.Unknown || k == session.Lost || k == session.BadVersion {
			s.drop()
		}
	}
	for _, j := range slices.Clone(r.ledger.Touched()) {
		hints = append(hints, job.HintOf(&j))
	}
	if len(hints) > 0 && r.failed == nil {
		for _, w := range s.watchers {
			wake = append(wake, w)
		}
	}
	return answer, hints, wake, err
}

// records is the store as its ledger uses it, during one operation.
type records struct {
	*replica
	s      *Store
	ctx    context.Context
	failed error // of a write
}

var _ ledger.Records = (*records)(nil)

// Read is part of ledger.Records.
func (r *records) Read(n *rules.Needs, k *rules.Known) error {
	r.read(n, k)
	return nil
}

// Due is part of ledger.Records.
func (r *records) Due(t *job.Taking) ([]job.Message, error) { return r.due(t), nil }

// Write is part of ledger.Records.
func (r *records) Write(w *rules.Writes) error {
	if r.s.mirror != nil {
		return r.writeShown(w)
	}
	if err := r.commit(operations(r.s.root, r.replica, w, nil)); err != nil {
		return err
	}
	r.apply(w)
	return nil
}

// commit makes operations in one multi, if this process still owns the store. Without operations it does nothing.
func (r *records) commit(ops []session.Op) error {
	if len(ops) == 0 {
		return nil
	}
	if n := session.Size(ops); n > session.MostBytes-1000 {
		r.failed = job.Errorf(job.Refused, "commit", "", "%d nodes with %d bytes are too large for one commit (%d)",
			len(ops), n, session.MostBytes)
		return r.failed
	}
	id := rand.Text()
	all := append([]session.Op{session.Check(r.s.root.epoch(), r.s.epoch),
		session.Set(r.s.root.commit(), []byte(id), session.AnyVersion)}, ops...)
	before, err := r.s.session.Get(r.ctx, r.s.root.commit())
	if err == nil {
		err = r.s.session.Apply(r.ctx, all, func(ctx context.Context) (session.Outcome, error) {
			n, err := r.s.session.Get(ctx, r.s.root.commit())
			switch string(n.Data) {
			case id:
				return session.Made, err
			case string(before.Data):
				return session.NotMade, err
			}
			return session.Changed, err
		})
	}
	if err == nil {
		return nil
	}
	r.failed = err
	if k := session.KindOf(err); k == session.NoNode || k == session.NodeExists || k == session.NotEmpty {
		return job.Errorf(job.Internal, "commit", "", "the nodes are not those of the records: %w", err)
	}
	return unavailable("commit", err)
}

// perMulti bounds the records of a multi where the caller bounds their number.
const perMulti = 64

// Create is part of job.Store.
func (s *Store) Create(ctx context.Context, jobs ...job.Created) ([]job.Job, error) {
	return do(s, ctx, func(r *records) ([]job.Job, error) { return owned(r.ledger.Create(r, jobs)) })
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
	return do(s, ctx, func(r *records) (job.Page, error) { return r.list(&q) })
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

// Commit is part of job.Store. Each change is one multi.
func (s *Store) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	results := make([]job.Result, len(changes))
	for i := range changes {
		_, err := do(s, ctx, func(r *records) (bool, error) {
			err := r.ledger.Commit(r, changes[i:i+1], results[i:i+1])
			results[i].Job.Own()
			return true, err
		})
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
	return do(s, ctx, func(r *records) (all []job.Job, err error) {
		for n := c.N; ; n -= perMulti {
			part := c
			part.N = min(n, perMulti)
			if r.s.mirror != nil {
				if free, err := r.passBusy(&part); !free {
					return all, err
				}
			}
			jobs, err := owned(r.ledger.Claim(r, &part))
			if refused(err) { // another program was faster: the next search finds that
				return all, nil
			}
			if err != nil {
				return nil, err
			}
			if all = append(all, jobs...); len(jobs) < part.N || n <= perMulti {
				return all, nil
			}
		}
	})
}

// Peek is part of job.Store.
func (s *Store) Peek(ctx context.Context, c job.Claim, id job.ID) (job.Forecast, error) {
	return do(s, ctx, func(r *records) (job.Forecast, error) { return r.ledger.Peek(&c, id), nil })
}

// Renew is part of job.Store.
func (s *Store) Renew(ctx context.Context, c job.Renewal) ([]job.Lease, error) {
	return do(s, ctx, func(r *records) (lost []job.Lease, err error) {
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
	s.mu.Lock()
	id := s.nextID
	s.nextID++
	s.watchers[id] = wake
	s.mu.Unlock()
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		delete(s.watchers, id)
		s.mu.Unlock()
	})
}

// Properties is part of job.Store.
func (s *Store) Properties() job.Properties {
	return job.Properties{Name: "zookeeper", Durable: true, Exclusive: true}
}

// owned makes records the caller's own.
func owned(jobs []job.Job, err error) ([]job.Job, error) {
	for i := range jobs {
		jobs[i].Own()
	}
	return jobs, err
}
