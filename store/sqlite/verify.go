package sqlite

import (
	"context"
	"fmt"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Verify checks the hash chain and the replay of a job's history, or of all jobs if id is empty, one after another while the store
// goes on working; after all jobs, the audit list too. It calls wrong for each job whose history does not hold, without an ID for the audit
// list, and tells how many jobs it checked. The error says only that the check itself could not go on.
func (s *Store) Verify(ctx context.Context, id job.ID, lives func(job.Kind) *lifecycle.Table, wrong func(job.ID, error)) (checked int64, err error) {
	if id != "" {
		err := s.read(ctx, "verify", id, func(r *reader) error {
			return r.inSnapshot(func() error {
				e, err := s.entry(r, id)
				if err == nil {
					s.verify(r, e, lives, wrong)
				}
				return err
			})
		})
		return 1, err
	}
	for n := int64(1); n <= s.lines.last(); n++ {
		if err := ctx.Err(); err != nil {
			return checked, &job.Error{Op: "verify", Kind: job.Unavailable, Err: err}
		}
		err := s.read(ctx, "verify", "", func(r *reader) error {
			return r.inSnapshot(func() error {
				r.byRow.Int(1, n)
				e, err := s.row(r.byRow)
				if err != nil {
					wrong("", fmt.Errorf("row %d: %w", n, err))
				}
				if e != nil {
					s.verify(r, e, lives, wrong)
					checked++
				}
				return nil
			})
		})
		if err != nil {
			return checked, err
		}
	}
	return checked, s.verifyAudit(ctx, wrong)
}

func (s *Store) verify(r *reader, e *entry, lives func(job.Kind) *lifecycle.Table, wrong func(job.ID, error)) {
	history, err := s.history(r, e)
	if err != nil {
		wrong(e.job.ID, err)
		return
	}
	life := lives(e.job.Kind)
	if life == nil {
		wrong(e.job.ID, fmt.Errorf("there is no lifecycle of kind %q", e.job.Kind))
		return
	}
	if err := job.Verify(e.job, history, life); err != nil {
		wrong(e.job.ID, err)
	}
}
