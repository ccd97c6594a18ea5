package sqlite

import (
	"context"
	"slices"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
)

// Create is part of job.Store.
func (s *Store) Create(ctx context.Context, jobs ...job.Created) (created []job.Job, err error) {
	err = s.doAs(ctx, writesRecords, func(l *ledger.Ledger) (err error) {
		created, err = l.Create(s.records, jobs)
		return err
	})
	return orNone(created, err)
}

// Claim is part of job.Store.
func (s *Store) Claim(ctx context.Context, c job.Claim) (claimed []job.Job, err error) {
	err = s.doAs(ctx, writesRecords, func(l *ledger.Ledger) (err error) {
		claimed, err = l.Claim(s.records, &c)
		return err
	})
	return orNone(claimed, err)
}

// Renew is part of job.Store.
func (s *Store) Renew(ctx context.Context, c job.Renewal) (lost []job.Lease, err error) {
	err = s.doAs(ctx, writesRecords, func(l *ledger.Ledger) (err error) {
		lost, err = l.Renew(s.records, &c)
		return err
	})
	return orNone(lost, err)
}

// Commit is part of job.Store.
func (s *Store) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	results := make([]job.Result, len(changes))
	kind := writesRecords
	if slices.ContainsFunc(changes, func(c job.Change) bool { return c.Purge }) {
		kind = writesDatabase
	}
	err := s.doAs(ctx, kind, func(l *ledger.Ledger) error {
		for i := range changes {
			results[i].Job, results[i].Err = l.Commit(s.records, &changes[i])
			if s.records.failed != nil {
				return s.records.failed
			}
		}
		return nil
	})
	return orNone(results, err)
}

// Hold is part of job.Store.
func (s *Store) Hold(ctx context.Context, c *job.HoldChange) (holds []job.Hold, err error) {
	kind := writesRecords
	if c == nil {
		kind = readsMemory
	}
	err = s.doAs(ctx, kind, func(l *ledger.Ledger) (err error) {
		holds, err = l.Hold(s.records, c)
		return err
	})
	return orNone(holds, err)
}

// Outbox is part of job.Store.
func (s *Store) Outbox(ctx context.Context, call job.OutboxCall) (taken []job.Message, err error) {
	if call.List != nil {
		return s.messagesOf(ctx, call.List)
	}
	err = s.do(ctx, false, func(l *ledger.Ledger) (err error) {
		taken, err = l.Outbox(s.records, &call)
		return err
	})
	return orNone(taken, err)
}

// orNone returns nothing together with an error.
func orNone[T any](answer []T, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	return answer, nil
}
