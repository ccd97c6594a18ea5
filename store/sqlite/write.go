package sqlite

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/internal/answers"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
)

// Create is part of job.Store.
func (s *Store) Create(ctx context.Context, jobs ...job.Created) (created []job.Job, err error) {
	memory := answers.TakeRecords(len(jobs))
	err = s.doAs(ctx, writesRecords, func(l *ledger.Ledger) (err error) {
		created, err = l.Create(s.records, jobs, memory[:0])
		return err
	})
	return orNone(ledger.Owned(created, err))
}

// Claim is part of job.Store.
func (s *Store) Claim(ctx context.Context, c job.Claim) (claimed []job.Job, err error) {
	err = s.doAs(ctx, writesRecords, func(l *ledger.Ledger) (err error) {
		claimed, err = l.Claim(s.records, &c)
		return err
	})
	return orNone(ledger.Owned(claimed, err))
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
	results := answers.Take(len(changes))
	o := s.freeOps.get()
	o.kind, o.changes, o.results = writesRecords, changes, results
	for i := range changes {
		if changes[i].Purge {
			o.kind = writesDatabase
		}
	}
	err := s.send(ctx, o)
	answers.Own(results, changes)
	return orNone(results, err)
}

// Peek is part of job.Store.
func (s *Store) Peek(ctx context.Context, c job.Claim, id job.ID) (f job.Forecast, err error) {
	err = s.do(ctx, true, func(l *ledger.Ledger) error {
		f = l.Peek(&c, id)
		return nil
	})
	return f, err
}

// Holds is part of job.Store.
func (s *Store) Holds(ctx context.Context) (holds []job.Hold, err error) {
	err = s.do(ctx, true, func(l *ledger.Ledger) error {
		holds = l.Holds()
		return nil
	})
	return orNone(holds, err)
}

// Hold is part of job.Store.
func (s *Store) Hold(ctx context.Context, h job.Hold) (holds []job.Hold, err error) {
	err = s.doAs(ctx, writesRecords, func(l *ledger.Ledger) (err error) {
		holds, err = l.Hold(s.records, h)
		return err
	})
	return orNone(holds, err)
}

// Release is part of job.Store.
func (s *Store) Release(ctx context.Context, h job.Hold) (holds []job.Hold, err error) {
	err = s.doAs(ctx, writesRecords, func(l *ledger.Ledger) (err error) {
		holds, err = l.Release(s.records, h)
		return err
	})
	return orNone(holds, err)
}

// Take is part of job.Store.
func (s *Store) Take(ctx context.Context, t job.Taking) (taken []job.Message, err error) {
	err = s.do(ctx, false, func(l *ledger.Ledger) (err error) {
		taken, err = l.Take(s.records, &t)
		return err
	})
	return orNone(taken, err)
}

// Settle is part of job.Store.
func (s *Store) Settle(ctx context.Context, messages ...job.Message) error {
	return s.doAs(ctx, writesRecords, func(l *ledger.Ledger) error { return l.Settle(s.records, messages) })
}

// Replay is part of job.Store.
func (s *Store) Replay(ctx context.Context, now time.Time, keys ...string) (again []job.Message, err error) {
	err = s.doAs(ctx, writesRecords, func(l *ledger.Ledger) (err error) {
		again, err = l.Replay(s.records, now, keys)
		return err
	})
	return orNone(again, err)
}

// Note is part of job.Store.
func (s *Store) Note(ctx context.Context, a job.Audit) error {
	return s.doAs(ctx, writesRecords, func(l *ledger.Ledger) error { return l.Note(s.records, a) })
}

// orNone returns nothing together with an error.
func orNone[T any](answer []T, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	return answer, nil
}
