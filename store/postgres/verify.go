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
// returns the number of checked jobs and of the entries of their histories. The error only reports that the check
// itself could not continue.
func (s *Store) Verify(ctx context.Context, id job.ID, lives func(job.Kind) *lifecycle.Table,
	wrong func(job.ID, error)) (jobs, entries int64, err error) {
	if id != "" {
		err := s.read(ctx, "verify", id, func(r *reader) error {
			found, err := r.record(id, "WHERE m.id = $1", pg.Stored(string(id)))
			if err != nil {
				return err
			}
			entries, err = r.verify(found, lives, wrong)
			return err
		})
		return 1, entries, err
	}
	for last := int64(0); ; {
		n, checked := 0, int64(0)
		err := s.read(ctx, "verify", "", func(r *reader) error {
			list, err := all(r, scanRecord, selectRecord+"WHERE m.n > $1 ORDER BY m.n LIMIT $2", last, verified)
			if err != nil {
				return err
			}
			n, checked = len(list), 0
			for _, one := range list {
				several, err := r.verify(one, lives, wrong)
				if err != nil {
					return err
				}
				last = one.n
				checked += several
			}
			return nil
		})
		if err != nil {
			return jobs, entries, err
		}
		entries += checked
		if jobs += int64(n); n < verified {
			return jobs, entries, s.verifyAudit(ctx, wrong)
		}
	}
}

// verify checks one job and returns how many entries its history has.
func (r *reader) verify(of *record, lives func(job.Kind) *lifecycle.Table, wrong func(job.ID, error)) (int64, error) {
	history, err := r.history(of, 0, 0)
	if err != nil {
		return 0, err
	}
	life := lives(of.job.Kind)
	if life == nil {
		wrong(of.job.ID, fmt.Errorf("no lifecycle of kind %s is known", of.job.Kind))
		return 0, nil
	}
	upgraded, err := r.upgraded()
	if err != nil {
		return 0, err
	}
	for i := range history {
		history[i].Newer = history[i].Newer && upgraded
	}
	if err := job.Verify(of.job, history, life); err != nil {
		wrong(of.job.ID, err)
	}
	return int64(len(history)), nil
}

// upgraded reports whether a newer program has upgraded the tables since this one opened the store. If none has, no
// entry is of a newer version, whatever its form.
func (r *reader) upgraded() (is bool, err error) {
	err = r.q.QueryRow(r.ctx, "SELECT max(version) > $1 FROM schema_version", schemaVersion).Scan(&is)
	return is, err
}

// verifyAudit checks the audit log, which must end with the entry that was counted last.
func (s *Store) verifyAudit(ctx context.Context, wrong func(job.ID, error)) error {
	var last *job.Audit
	for {
		var entries []job.Audit
		var counted int64
		err := s.read(ctx, "verify", "", func(r *reader) (err error) {
			upgraded, err := r.upgraded()
			if err != nil {
				return err
			}
			from := int64(0)
			if last != nil {
				from = last.Seq
			}
			if entries, err = r.audit(from, verified); err != nil {
				return err
			}
			for i := range entries {
				entries[i].Newer = entries[i].Newer && upgraded
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
