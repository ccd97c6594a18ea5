package crash

import (
	"context"

	"github.com/stagepost/stagepost/job"
)

// Store passes calls through to another store until the fuse blows; then every call gives kind Unavailable.
type Store struct {
	inner job.Store
	fuse  *Fuse
}

var (
	_ job.Store   = (*Store)(nil)
	_ job.Auditor = (*Store)(nil)
)

// NewStore makes a store that stops with the fuse.
func NewStore(inner job.Store, fuse *Fuse) *Store { return &Store{inner, fuse} }

// call runs one method of the inner store under the fuse.
func call[T any](s *Store, op string, do func() (T, error)) (got T, err error) {
	stopped := s.fuse.Call(func() error { got, err = do(); return nil })
	if stopped != nil {
		var none T
		return none, &job.Error{Op: op, Kind: job.Unavailable, Err: stopped}
	}
	return got, err
}

// Create is part of job.Store.
func (s *Store) Create(ctx context.Context, jobs ...job.Created) ([]job.Job, error) {
	return call(s, "create", func() ([]job.Job, error) { return s.inner.Create(ctx, jobs...) })
}

// Get is part of job.Store.
func (s *Store) Get(ctx context.Context, id job.ID) (job.Job, error) {
	return call(s, "get", func() (job.Job, error) { return s.inner.Get(ctx, id) })
}

// List is part of job.Store.
func (s *Store) List(ctx context.Context, q job.Query) (job.Page, error) {
	return call(s, "list", func() (job.Page, error) { return s.inner.List(ctx, q) })
}

// Count is part of job.Store.
func (s *Store) Count(ctx context.Context) ([]job.Tally, error) {
	return call(s, "count", func() ([]job.Tally, error) { return s.inner.Count(ctx) })
}

// History is part of job.Store.
func (s *Store) History(ctx context.Context, id job.ID, seq int64, n int) ([]job.Event, error) {
	return call(s, "history", func() ([]job.Event, error) { return s.inner.History(ctx, id, seq, n) })
}

// Tasks is part of job.Store.
func (s *Store) Tasks(ctx context.Context, id job.ID) ([]job.Task, error) {
	return call(s, "tasks", func() ([]job.Task, error) { return s.inner.Tasks(ctx, id) })
}

// Claim is part of job.Store.
func (s *Store) Claim(ctx context.Context, c job.Claim) ([]job.Job, error) {
	return call(s, "claim", func() ([]job.Job, error) { return s.inner.Claim(ctx, c) })
}

// Renew is part of job.Store.
func (s *Store) Renew(ctx context.Context, c job.Renewal) ([]job.Lease, error) {
	return call(s, "renew", func() ([]job.Lease, error) { return s.inner.Renew(ctx, c) })
}

// Commit is part of job.Store.
func (s *Store) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	return call(s, "commit", func() ([]job.Result, error) { return s.inner.Commit(ctx, changes...) })
}

// Hold is part of job.Store.
func (s *Store) Hold(ctx context.Context, change *job.HoldChange) ([]job.Hold, error) {
	return call(s, "hold", func() ([]job.Hold, error) { return s.inner.Hold(ctx, change) })
}

// Outbox is part of job.Store.
func (s *Store) Outbox(ctx context.Context, c job.OutboxCall) ([]job.Message, error) {
	return call(s, "outbox", func() ([]job.Message, error) { return s.inner.Outbox(ctx, c) })
}

// Audit is part of job.Auditor, for a store that is one.
func (s *Store) Audit(ctx context.Context, seq int64, n int) ([]job.Audit, error) {
	auditor, ok := s.inner.(job.Auditor)
	if !ok {
		return nil, job.Errorf(job.Invalid, "audit", "", "the store keeps no audit log")
	}
	return call(s, "audit", func() ([]job.Audit, error) { return auditor.Audit(ctx, seq, n) })
}

// Watch is part of job.Store. The fuse does not count it; hints end with the crash.
func (s *Store) Watch(ctx context.Context, wake func([]job.Hint)) {
	s.inner.Watch(ctx, func(hints []job.Hint) {
		if !s.fuse.Blown() {
			wake(hints)
		}
	})
}

// Properties is part of job.Store.
func (s *Store) Properties() job.Properties { return s.inner.Properties() }
