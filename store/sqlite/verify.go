package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Verify checks the hash chain and the replay of a job's history, or of all jobs if id is empty, one after another
// while the store continues. After all jobs it also checks the audit log. It calls wrong for each job with an invalid
// history, without an ID for the audit log, and returns the number of checked jobs and of the entries of their
// histories. The error only reports that the check itself could not continue.
func (s *Store) Verify(ctx context.Context, id job.ID, lives func(job.Kind) *lifecycle.Table,
	wrong func(job.ID, error)) (jobs, entries int64, err error) {
	if err := s.applier.flush(ctx); err != nil {
		return 0, 0, err
	}
	if id != "" {
		err := s.readDatabase(ctx, "verify", id, func(r *reader) error {
			return r.inSnapshot(func() error {
				e, err := s.entry(r, id)
				if isDamage(err) {
					wrong(damagedJob(err))
					return nil
				}
				if err == nil {
					entries = s.verify(r, e, lives, wrong)
				}
				return err
			})
		})
		return 1, entries, err
	}
	for n := s.lines.next(1); n != 0; n = s.lines.next(n + 1) {
		if err := ctx.Err(); err != nil {
			return jobs, entries, &job.Error{Op: "verify", Kind: job.Unavailable, Err: err}
		}
		err := s.readDatabase(ctx, "verify", "", func(r *reader) error {
			return r.inSnapshot(func() error {
				r.byRow.Int(1, n)
				e, err := s.row(r.byRow)
				switch {
				case isDamage(err):
					jobs++
					wrong(damagedJob(err))
				case err != nil:
					wrong("", fmt.Errorf("row %d: %w", n, err))
				}
				if e != nil {
					entries += s.verify(r, e, lives, wrong)
					jobs++
				}
				return nil
			})
		})
		if err != nil {
			return jobs, entries, err
		}
	}
	if err := s.verifyRest(ctx, wrong); err != nil {
		return jobs, entries, err
	}
	return jobs, entries, s.verifyAudit(ctx, wrong)
}

// damagedJob separates the job from the damage that a read reported.
func damagedJob(err error) (job.ID, error) {
	var e *job.Error
	if errors.As(err, &e) {
		return e.ID, e.Err
	}
	return "", err
}

// verifyRest checks the checksums of messages and holds.
func (s *Store) verifyRest(ctx context.Context, wrong func(job.ID, error)) error {
	return s.readDatabase(ctx, "verify", "", func(r *reader) error {
		all, err := r.c.Prepare(selectMessage)
		if err != nil {
			return err
		}
		defer all.Close()
		err = rows(all, func(row *conn.Stmt) error {
			m := getMessage(row)
			if err := wholeMessage(row, &m); err != nil {
				wrong(damagedJob(err))
			}
			return nil
		})
		if err != nil {
			return err
		}
		return each(r.c, selectHolds, func(row *conn.Stmt) error {
			if h := getHold(row); !sumIs(row, 10, sumHold(&h)) {
				wrong(damagedJob(mismatch(h.Job, "the hold on "+h.Scope.String())))
			}
			return nil
		})
	})
}

// verify checks one job and returns how many entries its history has.
func (s *Store) verify(r *reader, e *entry, lives func(job.Kind) *lifecycle.Table, wrong func(job.ID, error)) int64 {
	if _, err := s.tasksOf(r, e); err != nil {
		wrong(damagedJob(err))
	}
	history, err := s.history(r, e)
	if err != nil {
		wrong(e.job.ID, err)
		return 0
	}
	life := lives(e.job.Kind)
	if life == nil {
		wrong(e.job.ID, fmt.Errorf("unknown kind %q", e.job.Kind))
		return 0
	}
	if err := job.Verify(e.job, history, life); err != nil {
		wrong(e.job.ID, err)
	}
	return int64(len(history))
}
