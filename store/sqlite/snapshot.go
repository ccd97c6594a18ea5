package sqlite

import (
	"context"
	"errors"
	"os"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
)

// Freeze runs do between two commits: other commits wait until it returns, reads continue. A backup takes its
// snapshots of several databases and files in it: the database has all that was acknowledged. do must be quick: claims
// are not renewed during it. The result is the error of do.
func (s *Store) Freeze(ctx context.Context, do func() error) error {
	return s.do(ctx, true, func(*ledger.Ledger) error {
		if err := s.applier.flush(ctx); err != nil {
			return err
		}
		return do()
	})
}

// Snapshot is a database as of the call of [Pin]. Writers continue, but their log is not cleared before Close.
type Snapshot struct{ c *conn.Conn }

// Pin pins the present state of a database file, of this package or another one, until Close.
func Pin(file string) (*Snapshot, error) {
	c, err := conn.Open(file, conn.ReadWrite, "")
	if err == nil {
		err = c.Exec("PRAGMA busy_timeout = 10000; BEGIN; SELECT count(*) FROM sqlite_schema")
	}
	if err != nil {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
		return nil, &job.Error{Op: "snapshot", Kind: job.Unavailable, Err: err}
	}
	return &Snapshot{c}, nil
}

// CopyTo writes the snapshot to a new file that only its owner can read, and syncs it. The copy is complete without
// other files.
func (p *Snapshot) CopyTo(ctx context.Context, file string) (err error) {
	fail := func(err error) error { return &job.Error{Op: "snapshot", Kind: job.Unavailable, Err: err} }
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fail(err)
	}
	if err := f.Close(); err != nil {
		return fail(err)
	}
	to, err := conn.Open(file, conn.ReadWrite, "")
	if err != nil {
		return fail(err)
	}
	err = p.c.CopyTo(ctx, to)
	if err == nil {
		err = to.Exec("PRAGMA journal_mode = DELETE") // a log would be a second file
	}
	if err == nil {
		err = headless(to)
	}
	if err = errors.Join(err, to.Close()); err == nil {
		err = durable.Sync(file)
	}
	if err != nil {
		return fail(errors.Join(err, os.Remove(file)))
	}
	return nil
}

// headless marks a copied store as having no head file: the next Open creates it. Other databases have no such table.
func headless(c *conn.Conn) error {
	store := false
	err := each(c, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('head', 'job_made')",
		func(s *conn.Stmt) error {
			store = s.GetInt(0) == 2
			return nil
		})
	if err != nil || !store {
		return err
	}
	return c.Exec(noHead)
}

// Close ends the snapshot.
func (p *Snapshot) Close() error { return p.c.Close() }
