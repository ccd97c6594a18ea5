// Package catalog is the index of archives: what was archived of which activity, its files, the copies of each file in
// storage locations, their time stamps, and whose data they contain. It is one SQLite file, archive.db, or a schema of
// a PostgreSQL database, which servers share.
//
//	archives   one row per archive job: source, course, settings, how it ended
//	activities what each archive has of an activity, with its fingerprint
//	failures   archives of an activity that failed, per fingerprint: the base of the backoff
//	artifacts  the files of an archive with size and digests
//	copies     where each artifact is stored, and the state of its fixity checks
//	versions   versions of OCFL objects in storage roots, the same; version_faults: their damaged files
//	version_jobs  objects in which a job stores a version, and their removal
//	locations  storage locations that were used, each with its id
//	tokens     time stamps (RFC 3161), one per subject and generation
//	people     persons; contents: what of an archive contains their data
//	holds      legal holds
//	deletions  requests to delete early, with the two persons; tombstones: what was deleted
//	events     preservation events (PREMIS), append only
//	meta       the installation that the file belongs to, and the number of writes
//
// Each write has a key and may be repeated: the repetition changes nothing. A write that contradicts an earlier one is
// [ErrConflict]. Times are UTC.
package catalog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/internal/headfile"
	"github.com/stagepost/stagepost/internal/sqldb"
)

// Name is the name of the file in the data directory. Beside it are its log (Name-wal, Name-shm) and archive.head.
const Name = "archive.db"

// What errors of this package wrap.
var (
	ErrNotFound = errors.New("not found")
	ErrConflict = errors.New("the catalog has something else under the same key")
	ErrHeld     = errors.New("a legal hold forbids it")
	ErrRetained = errors.New("the retention time has not ended")
	ErrSame     = errors.New("another person has to approve it")
	ErrStopped  = errors.New("nothing is written after a failure of the disk")
)

// Options of [Open]. The zero value works.
type Options struct {
	Installation string // the file belongs to it from then on; empty: it keeps its own, or gets a random one
	// Before and After are called around each transaction with its name; an error ends the write. A test uses them as
	// the points at which a process crashes.
	Before, After func(write string) error
}

// Catalog is an open catalog. It is safe for concurrent use.
type Catalog struct {
	o            Options
	shared       *sqldb.Shared // nil: it is a SQLite file
	write        *sql.DB       // of the file; one connection: writers queue here rather than in SQLite
	read         *sql.DB
	installation string
	head         *headfile.File // of the file

	dead   atomic.Pointer[error]
	deaths chan error
}

// Schema is the newest schema that this program reads and writes.
func Schema() int { return len(schemas) }

// Open opens the catalog in a file, and creates it if there never was one. A file that is missing, older than the last
// one or of another installation is refused with the errors of package headfile.
func Open(ctx context.Context, path string, o Options) (*Catalog, error) {
	c := &Catalog{o: o, deaths: make(chan error, 1)}
	if err := c.open(ctx, path); err != nil {
		return nil, fmt.Errorf("catalog %s: %w", path, errors.Join(err, c.Close()))
	}
	return c, nil
}

func (c *Catalog) open(ctx context.Context, path string) (err error) {
	if err := headfile.Present(path); err != nil {
		return err
	}
	if err := sqldb.PrivateFile(path); err != nil {
		return err
	}
	dsn := sqldb.FileDSN(path, "synchronous(FULL)")
	if c.write, err = sql.Open("sqlite", dsn); err != nil {
		return err
	}
	c.write.SetMaxOpenConns(1)
	if err := c.upgrade(ctx); err != nil {
		return err
	}
	sequence, err := c.identify(ctx)
	if err != nil {
		return err
	}
	if c.head, err = headfile.Open(path, c.installation, sequence); err != nil {
		return err
	}
	if c.read, err = sql.Open("sqlite", dsn+"&_pragma=query_only(1)"); err != nil {
		return err
	}
	c.read.SetMaxOpenConns(4)
	return nil
}

func (c *Catalog) upgrade(ctx context.Context) error {
	return c.tx(ctx, func(tx *sql.Tx) error { return sqldb.UpgradeFile(ctx, tx, schemas) })
}

// identify reads the installation that the catalog belongs to, or enters it.
func (c *Catalog) identify(ctx context.Context) (sequence int64, err error) {
	s := c.side()
	c.installation, sequence, err = s.Identify(ctx, c.o.Installation)
	return sequence, err
}

// Installation gives the id of the installation that the catalog belongs to.
func (c *Catalog) Installation() string { return c.installation }

// Close closes the file, or the connections.
func (c *Catalog) Close() error {
	if c.shared != nil {
		return c.shared.Close()
	}
	var errs []error
	for _, db := range []*sql.DB{c.read, c.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if c.head != nil {
		errs = append(errs, c.head.Close())
	}
	return errors.Join(errs...)
}

// Dead delivers the error of the disk that ended the catalog, once. The process should end: the next start reads what
// is on the disk.
func (c *Catalog) Dead() <-chan error { return c.deaths }

// enter runs one named write in a transaction, which is on disk when it returns nil.
func (c *Catalog) enter(ctx context.Context, name string, do func(tx *sql.Tx) error) error {
	if c.o.Before != nil {
		if err := c.o.Before(name); err != nil {
			return err
		}
	}
	var sequence int64
	err := c.tx(ctx, func(tx *sql.Tx) error {
		if err := do(tx); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, "UPDATE meta SET sequence = sequence + 1 RETURNING sequence").Scan(&sequence)
	})
	if err != nil {
		return fmt.Errorf("catalog: %s: %w", name, err)
	}
	if c.head != nil {
		c.head.Note(sequence)
	}
	if c.o.After != nil {
		return c.o.After(name)
	}
	return nil
}

// tx runs a transaction. After a commit that failed the content of the disk is unknown: nothing is written from then
// on. A full disk ends the transaction only. In PostgreSQL, do may be called again: see [sqldb.Shared.Write].
func (c *Catalog) tx(ctx context.Context, do func(tx *sql.Tx) error) error {
	if why := c.dead.Load(); why != nil {
		return fmt.Errorf("%w: %w", ErrStopped, *why)
	}
	if c.shared != nil {
		return c.shared.Write(ctx, do)
	}
	tx, err := c.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		if sqldb.FaultOf(err) == sqldb.Corrupt {
			c.die(err)
		}
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		if sqldb.FaultOf(err) != sqldb.Other {
			c.die(fmt.Errorf("commit: %w", err))
		}
		return err
	}
	return nil
}

func (c *Catalog) die(err error) {
	if c.dead.CompareAndSwap(nil, &err) {
		c.deaths <- err
	}
}

// sorted writes a time so that times sort as text; empty for zero.
func sorted(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000000Z")
}

// moment reads a time that sorted wrote.
func moment(text string) time.Time {
	t, _ := time.Parse(time.RFC3339, text)
	return t
}

// instant scans a time.
type instant struct{ to *time.Time }

func (i instant) Scan(v any) error {
	text, ok := v.(string)
	if !ok {
		return fmt.Errorf("a time is a %T", v)
	}
	*i.to = moment(text)
	return nil
}

// each reads the rows of a query.
func each[T any](
	ctx context.Context, db *sql.DB, scan func(row) (T, error), query string, args ...any,
) ([]T, error) {
	return sqldb.All(ctx, db, func(r *sql.Rows) (T, error) { return scan(r) }, query, args...)
}

// row is a row of a result.
type row interface{ Scan(...any) error }

// one reads a row that must exist.
func one[T any](what string, r row, scan func(row) (T, error)) (T, error) {
	v, err := scan(r)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return v, fmt.Errorf("catalog: %s: %w", what, err)
	}
	return v, nil
}

const (
	defaultPage = 100
	mostPage    = 10_000
)

// page bounds the number of rows of an answer.
func page(limit int) int {
	if limit <= 0 {
		return defaultPage
	}
	return min(limit, mostPage)
}
