package mem

import (
	"context"
	"slices"
	"sort"

	"github.com/stagepost/stagepost/job"
)

// Note is part of job.Store.
func (s *Store) Note(ctx context.Context, a job.Audit) error {
	_, err := do(s, ctx, func() (bool, error) { return true, s.ledger.Note((*records)(s), a) })
	return err
}

// Audit is part of job.Store.
func (s *Store) Audit(ctx context.Context, seq int64, n int) ([]job.Audit, error) {
	return do(s, ctx, func() ([]job.Audit, error) {
		from, to := max(seq, 0), int64(len(s.audit))
		if n < 0 {
			if seq > 0 {
				to = min(to, seq-1)
			}
			from = max(0, to+int64(n))
		} else {
			to = from + max(0, min(to-from, int64(n)))
		}
		if from >= to {
			return nil, nil
		}
		s.rows += to - from
		return slices.Clone(s.audit[from:to]), nil
	})
}

// AuditHolds is part of job.Store.
func (s *Store) AuditHolds(ctx context.Context, seq int64, n int) ([]job.Audit, error) {
	return do(s, ctx, func() ([]job.Audit, error) {
		from := sort.Search(len(s.held), func(i int) bool { return s.held[i].Seq > seq })
		list := slices.Clone(s.held[from:][:max(0, min(n, len(s.held)-from))])
		for i := range list {
			list[i].Prev = job.Hash{}
		}
		s.rows += int64(len(list))
		return list, nil
	})
}
