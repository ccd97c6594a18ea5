package sqlite

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/internal/newest"
)

// Entries returns the number of the newest history entry of all jobs, and the series of commits that it belongs to.
// Numbers increase by one with each entry, in the order of commits. In another series (after a restore, or after lost
// commits were accepted) a number can occur again.
func (s *Store) Entries(ctx context.Context) (last int64, series string, err error) {
	if err := s.applier.flush(ctx); err != nil {
		return 0, "", err
	}
	err = s.readDatabase(ctx, "history", "", func(r *reader) error {
		return r.inSnapshot(func() error {
			err := each(r.c, "SELECT coalesce(max(e), 0) FROM event", func(row *conn.Stmt) error {
				last = row.GetInt(0)
				return nil
			})
			if err != nil {
				return err
			}
			return each(r.c, "SELECT series FROM head", func(row *conn.Stmt) error {
				series = row.GetText(0)
				return nil
			})
		})
	})
	return last, series, err
}

const selectNewest = `SELECT DISTINCT m.id, j.seq, j.head, j.last
 FROM event e JOIN job_made m ON m.n = e.job JOIN job_now j ON j.n = e.job WHERE e.e > ? AND e.e <= ? ORDER BY m.n`

// Newest calls yield with number and hash of the newest history entry of each job that has an entry after number after
// and up to number through, once for each job. The newest one may be later than through. It reads only these entries,
// page by page, so that no writer waits.
func (s *Store) Newest(
	ctx context.Context, after, through int64, yield func(id job.ID, seq int64, hash job.Hash) error,
) error {
	return s.newestBy(ctx, newest.Page, after, through, yield)
}

func (s *Store) newestBy(
	ctx context.Context, page, after, through int64, yield func(id job.ID, seq int64, hash job.Hash) error,
) error {
	read := func(after, end int64) (list []newest.Entry, err error) {
		err = s.readDatabase(ctx, "history", "", func(r *reader) (err error) {
			list, err = r.newest(after, end)
			return err
		})
		return list, err
	}
	return newest.Each(ctx, page, after, through, read, yield)
}

// newest reads the newest entries of the jobs that have entries after number after and up to number end.
func (r *reader) newest(after, end int64) (list []newest.Entry, err error) {
	stmt, err := r.c.Prepare(selectNewest)
	if err != nil {
		return nil, err
	}
	defer stmt.Close()
	stmt.Int(1, after)
	stmt.Int(2, end)
	err = rows(stmt, func(row *conn.Stmt) error {
		e := newest.Entry{Job: job.ID(row.GetText(0)), Seq: row.GetInt(1), Number: row.GetInt(3)}
		copy(e.Hash[:], row.GetBytes(2))
		list = append(list, e)
		return nil
	})
	return list, err
}

const selectMoved = `SELECT k.text, v.from_state, v.to_state, v.outcome, (m.created + e.at) / 3600000000, count(*)
 FROM event e JOIN move v ON v.m = e.move JOIN job_made m ON m.n = e.job JOIN word k ON k.w = m.kind
 WHERE e.e > ? AND e.e <= ? GROUP BY 1, 2, 3, 4, 5`

// Moved counts the history entries after number after and up to number through. It reads them, so the caller bounds
// their number.
func (s *Store) Moved(ctx context.Context, after, through int64) (all []job.Moved, err error) {
	err = s.readDatabase(ctx, "history", "", func(r *reader) error {
		stmt, err := r.c.Prepare(selectMoved)
		if err != nil {
			return err
		}
		defer stmt.Close()
		stmt.Int(1, after)
		stmt.Int(2, through)
		return rows(stmt, func(row *conn.Stmt) error {
			all = append(all, job.Moved{Kind: job.Kind(row.GetText(0)), From: lifecycle.State(row.GetText(1)),
				To: lifecycle.State(row.GetText(2)), Outcome: lifecycle.Outcome(row.GetText(3)),
				Hour: time.Unix(row.GetInt(4)*3600, 0).UTC(), Entries: row.GetInt(5)})
			return nil
		})
	})
	return all, err
}

// past is the history of a job.
type past struct {
	job     job.Job
	entries []job.Event
	numbers []int64 // of the entries
	damage  error   // why the entries cannot be read
}

// Histories calls yield with every job, its history and the numbers of the entries (see [Store.Entries]), in order of
// creation, while the store continues. damage is why entries could not be read.
func (s *Store) Histories(
	ctx context.Context, yield func(j *job.Job, entries []job.Event, numbers []int64, damage error) error,
) error {
	if err := s.applier.flush(ctx); err != nil {
		return err
	}
	for n := s.lines.next(1); n != 0; n = s.lines.next(n + 1) {
		if err := ctx.Err(); err != nil {
			return &job.Error{Op: "history", Kind: job.Unavailable, Err: err}
		}
		p, err := s.past(ctx, n)
		if err != nil {
			return err
		}
		if p == nil {
			continue
		}
		if err := yield(&p.job, p.entries, p.numbers, p.damage); err != nil {
			return err
		}
	}
	return nil
}

// past reads the history of the job in row n; nil: the row was purged.
func (s *Store) past(ctx context.Context, n int64) (p *past, err error) {
	err = s.readDatabase(ctx, "history", "", func(r *reader) error {
		return r.inSnapshot(func() error {
			r.byRow.Int(1, n)
			e, err := s.row(r.byRow)
			if isDamage(err) {
				id, cause := damagedJob(err)
				p = &past{job: job.Job{ID: id}, damage: cause}
				return nil
			}
			if e == nil || err != nil {
				return err
			}
			p = &past{job: e.job}
			if p.entries, p.numbers, err = s.numbered(r, e); conn.FaultOf(err) == conn.Other {
				p.damage, err = err, nil
			}
			return err
		})
	})
	return p, err
}
