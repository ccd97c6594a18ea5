package mem

import (
	"context"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
)

// Note is part of job.Store.
func (s *Store) Note(ctx context.Context, a job.Audit) error {
	_, err := do(s, ctx, func() (bool, error) { return true, s.ledger.Note((*records)(s), a) })
	return err
}

// Audit is part of job.Store.
func (s *Store) Audit(ctx context.Context, seq int64, n int) ([]job.Audit, error) {
	return do(s, ctx, func() ([]job.Audit, error) {
		page := ledger.AuditPage(s.audit, seq, n)
		s.rows += int64(len(page))
		return page, nil
	})
}

// AuditHolds is part of job.Store.
func (s *Store) AuditHolds(ctx context.Context, seq int64, n int) ([]job.Audit, error) {
	return do(s, ctx, func() ([]job.Audit, error) {
		list := ledger.HoldsPage(s.held, seq, n)
		s.rows += int64(len(list))
		return list, nil
	})
}
