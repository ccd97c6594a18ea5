package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/internal/transfer"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
)

// content is the store as a migration reads and writes it.
type content struct{ s *Store }

// Content returns the content of the store for a migration to another kind of store, or from one. The store is opened
// with [Options].NoLog.
func (s *Store) Content() transfer.Target { return content{s} }

// write runs do in a transaction of the database.
func (c content) write(ctx context.Context, do func(l *ledger.Ledger, r *records) error) error {
	return c.s.do(ctx, false, func(l *ledger.Ledger) error { return do(l, c.s.records) })
}

// Rows is part of transfer.Source.
func (c content) Rows(ctx context.Context) (n transfer.Rows, err error) {
	err = c.s.read(ctx, "count", "", func(r *reader) error {
		return each(r.c, `SELECT (SELECT count(*) FROM job_made), (SELECT count(*) FROM event),
 (SELECT count(*) FROM task), (SELECT count(*) FROM message), (SELECT count(*) FROM audit), (SELECT count(*) FROM hold)`,
			func(row *conn.Stmt) error {
				n = transfer.Rows{Jobs: row.GetInt(0), Entries: row.GetInt(1), Tasks: row.GetInt(2),
					Messages: row.GetInt(3), Audits: row.GetInt(4), Holds: row.GetInt(5)}
				return nil
			})
	})
	return n, err
}

// pageJobs and pageRows bound a page of jobs. A job with a longer history is a page of its own.
const (
	pageJobs = 200
	pageRows = 20_000
)

// Jobs is part of transfer.Source.
func (c content) Jobs(ctx context.Context, after int64) (page []transfer.Job, err error) {
	err = c.s.read(ctx, "copy", "", func(r *reader) error {
		return r.inSnapshot(func() error {
			var numbers []int64
			err := each(r.c, fmt.Sprintf("SELECT n FROM job_made WHERE n > %d ORDER BY n LIMIT %d", after, pageJobs),
				func(row *conn.Stmt) error {
					numbers = append(numbers, row.GetInt(0))
					return nil
				})
			for rows := int64(0); err == nil && len(numbers) > 0 && rows < pageRows; numbers = numbers[1:] {
				var j transfer.Job
				j, err = c.job(r, numbers[0])
				rows += 1 + int64(len(j.History)+len(j.Tasks))
				page = append(page, j)
			}
			return err
		})
	})
	return orNone(page, err)
}

// job reads the job in a row.
func (c content) job(r *reader, row int64) (j transfer.Job, err error) {
	e, err := c.s.byRow(r, row)
	if err == nil && e == nil {
		err = fmt.Errorf("row %d of job_made has no record", row)
	}
	if err != nil {
		return j, err
	}
	j.Row, j.Record = row, e.job
	if j.History, err = c.s.history(r, e); err == nil {
		j.Tasks, err = c.s.tasksOf(r, e)
	}
	return j, err
}

// Messages is part of transfer.Source.
func (c content) Messages(ctx context.Context, after int64, n int) (list []job.Message, err error) {
	err = c.s.read(ctx, "copy", "", func(r *reader) error {
		s, err := r.c.Prepare(selectMessage + "WHERE m > ? ORDER BY m LIMIT ?")
		if err != nil {
			return err
		}
		defer s.Close()
		s.Int(1, after)
		s.Int(2, int64(n))
		list, err = messages(s, refuse)
		return err
	})
	return orNone(list, err)
}

// Audit is part of transfer.Source.
func (c content) Audit(ctx context.Context, after int64, n int) ([]job.Audit, error) {
	return c.s.Audit(ctx, after, n)
}

// Holds is part of transfer.Source.
func (c content) Holds(ctx context.Context) ([]job.Hold, error) { return c.s.Holds(ctx) }

// Once is part of transfer.Source.
func (c content) Once(ctx context.Context) (o transfer.Once, err error) {
	if o.Clock, err = c.s.KeptClock(ctx); err != nil {
		return o, err
	}
	o.Installation = c.s.installation
	err = c.s.do(ctx, true, func(l *ledger.Ledger) error {
		counters, numbers := l.Ends()
		o.Posted, o.Audits, o.Sealed = counters.Posted, counters.Audits, counters.Sealed
		o.Numbers = maps.Clone(numbers)
		return nil
	})
	return o, err
}

// Clear is part of transfer.Target. The words stay: rows that are written next have the same. Entries get the numbers
// of others again, so that another series of commits begins.
func (c content) Clear(ctx context.Context) error {
	return c.write(ctx, func(l *ledger.Ledger, r *records) error {
		r.nextRow, r.nextEvent = 1, 1
		r.cache.clear()
		l.LoadAudit(0, job.Hash{})
		r.head.series = newSeries()
		if err := r.run("UPDATE head SET series = ?", r.head.series); err != nil {
			return r.try(err)
		}
		return r.try(r.c.Exec(`DELETE FROM job_now; DELETE FROM job_made; DELETE FROM job_data; DELETE FROM job_key;
DELETE FROM event; DELETE FROM task; DELETE FROM hold; DELETE FROM message; DELETE FROM audit; DELETE FROM given`))
	})
}

// Put is part of transfer.Target.
func (c content) Put(ctx context.Context, p *transfer.Part) error {
	return c.write(ctx, func(l *ledger.Ledger, r *records) error {
		for i := range p.Jobs {
			if err := r.putWhole(&p.Jobs[i]); err != nil {
				return err
			}
		}
		for i := range p.Messages {
			if err := r.putMessage(&p.Messages[i]); err != nil {
				return err
			}
		}
		for i := range p.Audit {
			a := &p.Audit[i]
			if err := r.enter(a); err != nil {
				return err
			}
			l.LoadAudit(a.Seq, a.Hash) // for the head
		}
		for i := range p.Holds {
			if err := r.putHold(&p.Holds[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// putWhole adds a job with its history and tasks.
func (r *records) putWhole(j *transfer.Job) error {
	if err := r.insertJob(&j.Record); err != nil {
		return err
	}
	for i := range j.History {
		if err := r.appendEvent(&j.History[i]); err != nil {
			return err
		}
	}
	for i := range j.Tasks {
		if err := r.putTask(j.Record.ID, &j.Tasks[i]); err != nil {
			return err
		}
	}
	return r.update(&j.Record, &j.Record) // its row names the last entry
}

// PutOnce is part of transfer.Target.
func (c content) PutOnce(ctx context.Context, o *transfer.Once) error {
	return c.write(ctx, func(_ *ledger.Ledger, r *records) error {
		given := map[string]int64{givenMessage: o.Posted}
		for kind, n := range o.Numbers {
			given[givenNumber+string(kind)] = n
		}
		err := r.keepClock(o.Clock)
		for what, n := range given {
			if err == nil {
				err = r.run("INSERT OR REPLACE INTO given (what, n) VALUES (?, ?)", what, n)
			}
		}
		if err == nil {
			err = r.run("UPDATE installation SET id = ?", o.Installation)
		}
		return r.try(err)
	})
}

// Mark is part of transfer.Marked.
func (c content) Mark(ctx context.Context) (m transfer.Mark, err error) {
	err = c.s.read(ctx, "mark", "", func(r *reader) (err error) {
		m, err = markOf(r.c)
		return err
	})
	return m, err
}

// SetMark is part of transfer.Marked. No other process has the directory.
func (c content) SetMark(ctx context.Context, m transfer.Mark) error {
	return c.write(ctx, func(_ *ledger.Ledger, r *records) error {
		err := r.run("DELETE FROM migration")
		if err == nil && m.State != transfer.Free {
			err = r.run("INSERT INTO migration VALUES (1, ?, ?, ?)", string(m.State), m.Other, m.At.UnixMicro())
		}
		return r.try(err)
	})
}

// run runs a statement with arguments that are texts or numbers.
func (r *records) run(statement string, args ...any) error {
	s, err := r.c.Prepare(statement)
	if err != nil {
		return err
	}
	defer s.Close()
	for i, a := range args {
		switch v := a.(type) {
		case string:
			s.Text(i+1, v)
		case int64:
			s.Int(i+1, v)
		}
	}
	return s.Run()
}

func markOf(c *conn.Conn) (m transfer.Mark, err error) {
	err = each(c, "SELECT state, other, at FROM migration", func(s *conn.Stmt) error {
		m = transfer.Mark{State: transfer.State(s.GetText(0)), Other: s.GetText(1), At: unixMicro(s.GetInt(2))}
		return nil
	})
	return m, err
}

// Moved reports whether the jobs of the store in dir are in another store: they were migrated there, or a migration
// from there has not finished.
func Moved(dir string) (bool, error) {
	m, err := readMark(dir)
	return m.State != transfer.Free, err
}

// Unfinished returns the refusal of the store in dir while a migration to it has not finished, else nil.
func Unfinished(dir string) error {
	m, err := readMark(dir)
	if err != nil || m.State != transfer.Unfinished {
		return err
	}
	return m.Refuse(dir)
}

// readMark reads the mark of the store in dir, which need not be open.
func readMark(dir string) (m transfer.Mark, err error) {
	c, err := conn.Open(filepath.Join(dir, database), conn.ReadWrite, "")
	if err != nil {
		return m, openError(dir, err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.Exec("PRAGMA query_only = ON; PRAGMA busy_timeout = 10000"); err != nil {
		return m, openError(dir, err)
	}
	version, err := versionOf(c)
	if err != nil || version < markVersion {
		return m, nil // no migration has had it
	}
	return markOf(c)
}

// markVersion is the schema that has marks.
const markVersion = 6

// refuseMarked refuses a store of a migration, unless a migration opens it. What an unfinished one misses is written
// again.
func (s *Store) refuseMarked(c *conn.Conn) error {
	m, err := markOf(c)
	switch {
	case err != nil:
		return err
	case !s.options.Migrates:
		return m.Refuse(s.dir)
	case m.State == transfer.Unfinished:
		s.options.accept = func(string) {}
	}
	return nil
}
