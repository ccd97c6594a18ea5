package postgres

import (
	"context"
	"fmt"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// verified is the number of jobs or entries that are read at once.
const verified = 500

// Verify checks the hash chain and the replay of a job's history, or of all jobs if id is empty, one after another
// while the store continues. After all jobs it also checks the audit log. It calls wrong for each job with an invalid
// history, with an error that names the entry that was changed or is missing, and without an ID for the audit log. It
// returns the number of checked jobs. The error only reports that the check itself could not continue.
func (s *Store) Verify(ctx context.Context, id job.ID, lives func(job.Kind) *lifecycle.Table,
	wrong func(job.ID, error)) (checked int64, err error) {
	if id != "" {
		err := s.read(ctx, "verify", id, func(r *reader) error {
			found, err := r.record(id, "WHERE m.id = $1", pg.Stored(string(id)))
			if err != nil {
				return err
			}
			return r.verify(found, lives, wrong)
		})
		return 1, err
	}
	for last := int64(0); ; {
		n := 0
		err := s.read(ctx, "verify", "", func(r *reader) error {
			list, err := all(r, scanRecord, selectRecord+"WHERE m.n > $1 ORDER BY m.n LIMIT $2", last, verified)
			if err != nil {
				return err
			}
			n = len(list)
			for _, one := range list {
				if err := r.verify(one, lives, wrong); err != nil {
					return err
				}
				last = one.n
			}
			return nil
		})
		if err != nil {
			return checked, err
		}
		if checked += int64(n); n < verified {
			return checked, s.verifyAudit(ctx, wrong)
		}
	}
}

// verify checks one job.
func (r *reader) verify(of *record, lives func(job.Kind) *lifecycle.Table, wrong func(job.ID, error)) error {
	history, err := r.history(of, 0, 0)
	if err != nil {
		return err
	}
	life := lives(of.job.Kind)
	if life == nil {
		wrong(of.job.ID, fmt.Errorf("no lifecycle of kind %s is known", of.job.Kind))
		return nil
	}
	if err := job.Verify(of.job, history, life); err != nil {
		wrong(of.job.ID, err)
	}
	return nil
}

// verifyAudit checks the audit log, which must end with the entry that was counted last.
func (s *Store) verifyAudit(ctx context.Context, wrong func(job.ID, error)) error {
	var last *job.Audit
	for {
		var entries []job.Audit
		var counted int64
		err := s.read(ctx, "verify", "", func(r *reader) (err error) {
			from := int64(0)
			if last != nil {
				from = last.Seq
			}
			if entries, err = r.audit(from, verified); err != nil {
				return err
			}
			last := r.q.QueryRow(r.ctx, "SELECT coalesce((SELECT n FROM given WHERE what = $1), 0)", countAudit)
			return last.Scan(&counted)
		})
		if err != nil {
			return err
		}
		if err := job.VerifyAudit(last, entries); err != nil {
			wrong("", err)
			return nil
		}
		if len(entries) == 0 {
			if last == nil && counted > 0 || last != nil && last.Seq != counted {
				wrong("", fmt.Errorf("the last entries of the audit log are missing: %d were made", counted))
			}
			return nil
		}
		last = &entries[len(entries)-1]
	}
}
