package conn

import (
	"errors"
	"fmt"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// Error is an error of SQLite.
type Error struct {
	Code int // extended result code
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("%s (sqlite %d)", e.Text, e.Code) }

// Fault classifies errors by how the store handles them.
type Fault int

// The faults.
const (
	Other       Fault = iota // the statement or its values
	Full                     // the disk is full; a later attempt may succeed
	IO                       // the disk failed
	Corrupt                  // the file is damaged or not a database
	Busy                     // another process has locked the file
	Interrupted              // stopped by Interrupt
)

// FaultOf classifies an error; Other for errors that are not SQLite's.
func FaultOf(err error) Fault {
	var e *Error
	if !errors.As(err, &e) {
		return Other
	}
	switch e.Code & 0xff {
	case sqlite3.SQLITE_FULL:
		return Full
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return IO
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return Corrupt
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return Busy
	case sqlite3.SQLITE_INTERRUPT:
		return Interrupted
	}
	return Other
}

// fault returns the error for a result code.
func (c *Conn) fault(rc int32, op string) error {
	text := libc.GoString(sqlite3.Xsqlite3_errstr(c.tls, rc))
	if c.db != 0 && sqlite3.Xsqlite3_extended_errcode(c.tls, c.db) == rc {
		text = libc.GoString(sqlite3.Xsqlite3_errmsg(c.tls, c.db))
	}
	if op != "" {
		text = op + ": " + text
	}
	return &Error{Code: int(rc), Text: text}
}
