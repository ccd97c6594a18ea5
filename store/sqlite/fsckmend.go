package sqlite

import (
	"context"
	"fmt"
	"slices"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
)

// fix is a statement that repairs derived data, with its numbers and texts.
type fix struct {
	sql    string
	values []any         // int64 or string
	row    int64         // of the job that must not have changed since the check; 0: none
	more   *job.Children // are added to the counts of the job in the row, as value 2
	fault  int           // index in the report, -1: it is not listed
}

// rowFix is a repair that is valid while the job in a row does not change.
func rowFix(row int64, sql string, values ...any) fix { return fix{sql: sql, values: values, row: row} }

// countsFix corrects the counts of a batch by their difference. It is valid although the batch changes.
func countsFix(n int64, says, real *job.Children) fix {
	return fix{
		sql: "UPDATE job_now SET children = ?2 WHERE n = ?1", values: []any{n, ""},
		more: &job.Children{
			Open: real.Open - says.Open, OK: real.OK - says.OK, Failed: real.Failed - says.Failed,
			TimedOut: real.TimedOut - says.TimedOut, Cancelled: real.Cancelled - says.Cancelled,
			Deleted: real.Deleted - says.Deleted,
		},
	}
}

// count sets the corrected counts.
func (x *fix) count(c *conn.Conn) error {
	return eachRow(c, x.values[0].(int64), func(s *conn.Stmt) error {
		var now job.Children
		if err := getChildren(s.GetText(31), &now); err != nil {
			return err
		}
		now.Open, now.OK, now.Failed = now.Open+x.more.Open, now.OK+x.more.OK, now.Failed+x.more.Failed
		now.TimedOut, now.Cancelled = now.TimedOut+x.more.TimedOut, now.Cancelled+x.more.Cancelled
		now.Deleted += x.more.Deleted
		x.values[1] = children(&now)
		return nil
	})
}

// run runs the statement.
func (x *fix) run(c *conn.Conn) error {
	s, err := c.Prepare(x.sql)
	if err != nil {
		return err
	}
	defer s.Close()
	for i, v := range x.values {
		switch v := v.(type) {
		case int64:
			s.Int(i+1, v)
		case string:
			s.TextOrNull(i+1, v)
		}
	}
	return s.Run()
}

// make makes a repair in the open transaction.
func (f *fsck) make(c *conn.Conn, x *fix) error {
	if x.more != nil {
		if err := x.count(c); err != nil {
			return err
		}
	}
	before := c.Changes()
	if err := x.run(c); err != nil || c.Changes() == before {
		return err
	}
	return f.sumAgain(c, x)
}

// mend makes the repairs in one transaction.
func (f *fsck) mend() error {
	if len(f.fixes) == 0 {
		return nil
	}
	if err := f.c.Exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for i := range f.fixes {
		if err := f.make(f.c, &f.fixes[i]); err != nil {
			return fmt.Errorf("repair: %w (%v)", err, f.c.Exec("ROLLBACK"))
		}
	}
	return f.c.Exec("COMMIT")
}

// sliceRows bounds the rows for which a check stops the commit loop at once.
const sliceRows = 256

// mend makes the repairs of a running store, some in each transaction. A job that changed since the check is left out.
func (s *Store) mend(ctx context.Context, f *fsck, p *pinned) error {
	for part := range slices.Chunk(f.fixes, sliceRows) {
		err := s.do(ctx, false, func(*ledger.Ledger) error {
			s.sliced(len(part))
			s.records.cache.clear()
			for i := range part {
				x := &part[i]
				if x.row != 0 && s.changed(p.changed, x.row) {
					f.skip(x)
				} else if err := f.make(s.records.c, x); err != nil {
					return s.records.try(fmt.Errorf("repair: %w", err))
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// changed reports whether a row changed since the check, also in the open transaction.
func (s *Store) changed(w *tracked, row int64) bool {
	return s.lines.has(w, row) ||
		slices.ContainsFunc(s.records.lines, func(c lineChange) bool { return c.n == row })
}

// skip notes that a repair was not made.
func (f *fsck) skip(x *fix) {
	if x.fault >= 0 && f.report.Faults[x.fault].Repaired {
		fault := &f.report.Faults[x.fault]
		fault.Repaired = false
		fault.Text += "; not repaired, because the job changed during the check: repeat it"
	}
}

// rebuild replaces the memory of the store by that of its records. They are read while the store continues; then
// what changed meanwhile is added, some rows at a time.
func (s *Store) rebuild(ctx context.Context) (err error) {
	b, err := s.rebuilt(ctx)
	if err != nil {
		return err
	}
	defer b.p.close(&err)
	return b.finish(ctx)
}

// rebuilt is new memory of a store: the records as of p, and then those that changed.
type rebuilt struct {
	s      *Store
	p      *pinned
	loader *loader
	jobs   map[int64]*job.Job // that were changed, by row; nil: purged
}

// rebuilt loads new memory. The caller closes p.
func (s *Store) rebuilt(ctx context.Context) (*rebuilt, error) {
	p, err := s.pin(ctx)
	if err != nil {
		return nil, err
	}
	b := &rebuilt{s: s, p: p, loader: newLoader(partRows, s.names, &lines{}, nil, recent{}), jobs: map[int64]*job.Job{}}
	if err := b.loader.records([]*conn.Conn{p.c}); err != nil {
		p.close(&err)
		return nil, err
	}
	return b, nil
}

// finish adds what changed and then installs the new memory.
func (b *rebuilt) finish(ctx context.Context) error {
	for done := false; !done; {
		err := b.s.between(ctx, func(*ledger.Ledger) error {
			rows := b.s.lines.take(b.p.changed, sliceRows)
			b.s.sliced(len(rows))
			for _, n := range rows {
				if err := b.follow(n); err != nil {
					return err
				}
			}
			if done = len(rows) < sliceRows; !done {
				return nil
			}
			return b.install()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// follow makes the new memory follow the changes of the job in a row. Between two transactions.
func (b *rebuilt) follow(n int64) error {
	before, met := b.jobs[n]
	var err error
	if !met {
		if before, err = b.s.names.jobIn(b.p.c, n); err != nil {
			return err
		}
	}
	after, err := b.s.names.jobIn(b.s.records.c, n)
	if err != nil {
		return err
	}
	b.loader.ledger.Follow(before, after)
	b.jobs[n] = after
	b.loader.lines.follow(n, b.s.lines)
	return nil
}

// jobIn reads the job in a row, whatever its checksum; nil: there is none.
func (n *names) jobIn(c *conn.Conn, row int64) (j *job.Job, err error) {
	err = eachRow(c, row, func(s *conn.Stmt) error {
		e, err := n.readRow(s)
		if err == nil {
			j = &e.job
		}
		return err
	})
	return j, err
}

// install makes the new memory that of the store.
func (b *rebuilt) install() error {
	s := b.s
	if err := b.loader.rest(s.records.c); err != nil {
		return err
	}
	s.ledger = b.loader.ledger
	s.lines.replace(b.loader.lines)
	s.records.cache.clear()
	clear(s.records.damaged)
	return s.records.findNext(s.records.c)
}
