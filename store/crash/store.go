package crash

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Store passes calls through to another store until the fuse blows; then every call gives kind Unavailable.
type Store struct {
	inner job.Store
	fuse  *Fuse
}

var _ job.Store = (*Store)(nil)

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

// Numbered is part of job.Store.
func (s *Store) Numbered(ctx context.Context, kind job.Kind, number int64) (job.Job, error) {
	return call(s, "numbered", func() (job.Job, error) { return s.inner.Numbered(ctx, kind, number) })
}

// Named is part of job.Store.
func (s *Store) Named(ctx context.Context, part, owner string, n int) ([]job.Job, error) {
	return call(s, "named", func() ([]job.Job, error) { return s.inner.Named(ctx, part, owner, n) })
}

// List is part of job.Store.
func (s *Store) List(ctx context.Context, q job.Query) (job.Page, error) {
	return call(s, "list", func() (job.Page, error) { return s.inner.List(ctx, q) })
}

// ListEnded is part of job.Store.
func (s *Store) ListEnded(ctx context.Context, q job.EndedQuery) (job.Page, error) {
	return call(s, "list ended", func() (job.Page, error) { return s.inner.ListEnded(ctx, q) })
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

// Peek is part of job.Store.
func (s *Store) Peek(ctx context.Context, c job.Claim, id job.ID) (job.Forecast, error) {
	return call(s, "peek", func() (job.Forecast, error) { return s.inner.Peek(ctx, c, id) })
}

// Overdue is part of job.Store.
func (s *Store) Overdue(ctx context.Context, now time.Time, kinds []job.Kind, n int) ([]job.Job, error) {
	return call(s, "overdue", func() ([]job.Job, error) { return s.inner.Overdue(ctx, now, kinds, n) })
}

// Renew is part of job.Store.
func (s *Store) Renew(ctx context.Context, c job.Renewal) ([]job.Lease, error) {
	return call(s, "renew", func() ([]job.Lease, error) { return s.inner.Renew(ctx, c) })
}

// Commit is part of job.Store.
func (s *Store) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	return call(s, "commit", func() ([]job.Result, error) { return s.inner.Commit(ctx, changes...) })
}

// Holds is part of job.Store.
func (s *Store) Holds(ctx context.Context) ([]job.Hold, error) {
	return call(s, "holds", func() ([]job.Hold, error) { return s.inner.Holds(ctx) })
}

// Hold is part of job.Store.
func (s *Store) Hold(ctx context.Context, h job.Hold) ([]job.Hold, error) {
	return call(s, "hold", func() ([]job.Hold, error) { return s.inner.Hold(ctx, h) })
}

// Release is part of job.Store.
func (s *Store) Release(ctx context.Context, h job.Hold) ([]job.Hold, error) {
	return call(s, "release", func() ([]job.Hold, error) { return s.inner.Release(ctx, h) })
}

// Take is part of job.Store.
func (s *Store) Take(ctx context.Context, t job.Taking) ([]job.Message, error) {
	return call(s, "take", func() ([]job.Message, error) { return s.inner.Take(ctx, t) })
}

// Settle is part of job.Store.
func (s *Store) Settle(ctx context.Context, messages ...job.Message) error {
	_, err := call(s, "settle", func() (bool, error) { return true, s.inner.Settle(ctx, messages...) })
	return err
}

// Messages is part of job.Store.
func (s *Store) Messages(ctx context.Context, q job.MessageQuery) ([]job.Message, error) {
	return call(s, "messages", func() ([]job.Message, error) { return s.inner.Messages(ctx, q) })
}

// Replay is part of job.Store.
func (s *Store) Replay(ctx context.Context, now time.Time, keys ...string) ([]job.Message, error) {
	return call(s, "replay", func() ([]job.Message, error) { return s.inner.Replay(ctx, now, keys...) })
}

// Note is part of job.Store.
func (s *Store) Note(ctx context.Context, a job.Audit) error {
	_, err := call(s, "note", func() (bool, error) { return true, s.inner.Note(ctx, a) })
	return err
}

// Audit is part of job.Store.
func (s *Store) Audit(ctx context.Context, seq int64, n int) ([]job.Audit, error) {
	return call(s, "audit", func() ([]job.Audit, error) { return s.inner.Audit(ctx, seq, n) })
}

// AuditHolds is part of job.Store.
func (s *Store) AuditHolds(ctx context.Context, seq int64, n int) ([]job.Audit, error) {
	return call(s, "audit of holds", func() ([]job.Audit, error) { return s.inner.AuditHolds(ctx, seq, n) })
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
