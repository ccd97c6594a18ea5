package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite" // and the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/stagepost/stagepost/internal/pg"
)

// Unavailable is the error of a call during which the database server could not be reached for the patience of the
// database, or had no space. If the call wrote, it may have been carried out: the answer of its COMMIT can be lost.
type Unavailable struct{ Err error }

func (e *Unavailable) Error() string { return fmt.Sprintf("the database is not available: %v", e.Err) }

func (e *Unavailable) Unwrap() error { return e.Err }

// Temporary reports that the call may be repeated.
func (e *Unavailable) Temporary() bool { return true }

// unavailable makes an error of a lost connection one of type *Unavailable. Others stay.
func unavailable(err error) error {
	if errors.As(err, new(*Unavailable)) || !lost(err) {
		return err
	}
	return &Unavailable{err}
}

// fullDisk makes the error of a database server without free space one of type *Unavailable. Others stay.
func fullDisk(err error) error {
	if pg.State(err) == pg.DiskFull {
		return &Unavailable{err}
	}
	return err
}

// lost reports whether a statement failed for a reason that a later attempt may not meet.
func lost(err error) bool {
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || pg.Temporary(err)
}

// ErrForeign reports that a schema belongs to another installation.
var ErrForeign = errors.New("the database belongs to another installation")

// FailedStatement reports whether an error is that of a database, or ended a statement early: the transaction in which
// it occurred may have been rolled back.
func FailedStatement(err error) bool {
	return errors.As(err, new(*sqlite.Error)) || errors.As(err, new(*pgconn.PgError)) ||
		errors.As(err, new(*Unavailable)) || ended(err) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, sql.ErrTxDone) || errors.Is(err, sql.ErrConnDone)
}

// ended reports whether an error is the end of a context.
func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Fault is what an error of a SQLite file means for what is in it.
type Fault int

// The faults.
const (
	Other   Fault = iota
	Disk          // the disk refused
	Corrupt       // the file is damaged
)

// FaultOf classifies the error of a SQLite file.
func FaultOf(err error) Fault {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return Other
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
		return Disk
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return Corrupt
	}
	return Other
}
