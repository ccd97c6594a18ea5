package zookeeper

import (
	"context"
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// Take is part of job.Store.
func (s *Store) Take(ctx context.Context, t job.Taking) ([]job.Message, error) {
	return do(s, ctx, func(r *records) (all []job.Message, err error) {
		r.apart = true
		for n := t.N; ; n -= perMulti {
			part := t
			part.N = min(n, perMulti)
			taken, err := ledger.OwnedMessages(r.ledger.Take(r, &part))
			if err != nil {
				return nil, err
			}
			if all = append(all, taken...); len(taken) < part.N || n <= perMulti {
				return all, nil
			}
		}
	})
}

// Settle is part of job.Store.
func (s *Store) Settle(ctx context.Context, messages ...job.Message) error {
	_, err := do(s, ctx, func(r *records) (bool, error) {
		r.apart = true
		return true, r.ledger.Settle(r, messages)
	})
	return err
}

// Replay is part of job.Store.
func (s *Store) Replay(ctx context.Context, now time.Time, keys ...string) ([]job.Message, error) {
	return do(s, ctx, func(r *records) ([]job.Message, error) {
		return ledger.OwnedMessages(r.ledger.Replay(r, now, keys))
	})
}

// Messages is part of job.Store.
func (s *Store) Messages(ctx context.Context, q job.MessageQuery) ([]job.Message, error) {
	return do(s, ctx, func(r *records) (page []job.Message, err error) {
		for _, key := range slices.Backward(r.posted) {
			if len(page) == q.PageSize() {
				break
			}
			if m := r.messages[key]; q.Matches(m) {
				page = append(page, *m)
			}
		}
		return ledger.OwnedMessages(page, nil)
	})
}

// Note is part of job.Store.
func (s *Store) Note(ctx context.Context, a job.Audit) error {
	_, err := do(s, ctx, func(r *records) (bool, error) { return true, r.ledger.Note(r, a) })
	return err
}

// Audit is part of job.Store.
func (s *Store) Audit(ctx context.Context, seq int64, n int) ([]job.Audit, error) {
	return do(s, ctx, func(r *records) ([]job.Audit, error) { return ledger.AuditPage(r.audit, seq, n), nil })
}

// AuditHolds is part of job.Store.
func (s *Store) AuditHolds(ctx context.Context, seq int64, n int) ([]job.Audit, error) {
	return do(s, ctx, func(r *records) ([]job.Audit, error) { return ledger.HoldsPage(r.held, seq, n), nil })
}

// KeptClock is part of job.ClockStore.
func (s *Store) KeptClock(ctx context.Context) (job.KeptClock, error) {
	return do(s, ctx, func(r *records) (job.KeptClock, error) { return r.clock, nil })
}

// KeepClock is part of job.ClockStore.
func (s *Store) KeepClock(ctx context.Context, k job.KeptClock) error {
	_, err := do(s, ctx, func(r *records) (bool, error) {
		for _, t := range []*time.Time{&k.Trusted, &k.Latest, &k.Confirmed} {
			*t = t.Truncate(time.Microsecond)
		}
		op := session.Create(s.root.clock(), encode(&k))
		if r.clocked {
			op = session.Set(s.root.clock(), encode(&k), session.AnyVersion)
		}
		if err := r.add(op); err != nil {
			return false, err
		}
		r.clock, r.clocked = k, true
		return true, nil
	})
	return err
}
