// Package conn is a connection to SQLite and its prepared statements, directly on the translated C interface
// (modernc.org/sqlite/lib). database/sql would cost the commit loop a third of its rate in boxing arguments and
// copying rows.
//
// A [Conn] and everything made from it belongs to one goroutine at a time.
package conn

import (
	"fmt"
	"sync"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// Conn is one connection. Call Open.
type Conn struct {
	tls    *libc.TLS
	db     uintptr
	word   uintptr // memory for one out-argument
	frames uintptr // *int32: frames in the write-ahead log after the last commit
	stmts  []*Stmt
}

// Flags of Open.
type Flags int32

// How a database is opened.
const (
	ReadWrite Flags = sqlite3.SQLITE_OPEN_READWRITE
	ReadOnly  Flags = sqlite3.SQLITE_OPEN_READONLY
	Create    Flags = sqlite3.SQLITE_OPEN_READWRITE | sqlite3.SQLITE_OPEN_CREATE
)

var patch = sync.OnceFunc(sqlite3.PatchIssue199) // page size on linux/arm64

// Open opens the file. vfs names a registered file layer; empty selects the system's.
func Open(file string, flags Flags, vfs string) (*Conn, error) {
	patch()
	c := &Conn{tls: libc.NewTLS()}
	name, err := libc.CString(file)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", file, err)
	}
	defer libc.Xfree(c.tls, name)
	var layer uintptr
	if vfs != "" {
		if layer, err = libc.CString(vfs); err != nil {
			return nil, fmt.Errorf("open %s: %w", file, err)
		}
		defer libc.Xfree(c.tls, layer)
	}
	c.word = libc.Xcalloc(c.tls, 1, 16)
	c.frames = c.word + 8
	rc := sqlite3.Xsqlite3_open_v2(c.tls, name, c.word,
		int32(flags)|sqlite3.SQLITE_OPEN_NOMUTEX|sqlite3.SQLITE_OPEN_EXRESCODE, layer)
	c.db = *(*uintptr)(at(c.word))
	if rc != sqlite3.SQLITE_OK {
		err := c.fault(rc, "open "+file)
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close finalizes the connection's statements and closes it. The last connection to close checkpoints the log.
func (c *Conn) Close() error {
	if c.tls == nil {
		return nil
	}
	for _, s := range c.stmts {
		s.finalize()
	}
	var err error
	if rc := sqlite3.Xsqlite3_close_v2(c.tls, c.db); rc != sqlite3.SQLITE_OK {
		err = c.fault(rc, "close")
	}
	libc.Xfree(c.tls, c.word)
	c.tls.Close()
	c.tls = nil
	return err
}

// Exec runs statements whose rows are ignored.
func (c *Conn) Exec(sql string) error {
	text, err := libc.CString(sql)
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, text)
	if rc := sqlite3.Xsqlite3_exec(c.tls, c.db, text, 0, 0, 0); rc != sqlite3.SQLITE_OK {
		return c.fault(rc, "")
	}
	return nil
}

// Interrupt makes the running statement fail with [Interrupted]. It may be called from any goroutine, but not after
// Close.
func (c *Conn) Interrupt() {
	tls := libc.NewTLS() // the connection's own is in use
	defer tls.Close()
	sqlite3.Xsqlite3_interrupt(tls, c.db)
}

// InTransaction reports whether a transaction is open.
func (c *Conn) InTransaction() bool { return sqlite3.Xsqlite3_get_autocommit(c.tls, c.db) == 0 }

// LastRow is the row number of the last insertion.
func (c *Conn) LastRow() int64 { return sqlite3.Xsqlite3_last_insert_rowid(c.tls, c.db) }

// Changes returns the number of rows that this connection has ever inserted, updated or deleted.
func (c *Conn) Changes() int64 { return sqlite3.Xsqlite3_total_changes64(c.tls, c.db) }

// Steps returns the number of steps that SQLite has taken for the prepared statements: a measure of the rows that they
// visited, in tables and indexes.
func (c *Conn) Steps() (n int64) {
	for _, s := range c.stmts {
		n += int64(sqlite3.Xsqlite3_stmt_status(c.tls, s.stmt, sqlite3.SQLITE_STMTSTATUS_VM_STEP, 0))
	}
	return n
}

// CountFrames enables Frames. It replaces the automatic checkpoint.
func (c *Conn) CountFrames() {
	sqlite3.Xsqlite3_wal_hook(c.tls, c.db, *(*uintptr)(unsafe.Pointer(&struct {
		f func(*libc.TLS, uintptr, uintptr, uintptr, int32) int32
	}{noteFrames})), c.frames)
}

func noteFrames(_ *libc.TLS, note, _, _ uintptr, frames int32) int32 {
	*(*int32)(at(note)) = frames
	return sqlite3.SQLITE_OK
}

// Frames returns the number of pages in the write-ahead log after the last commit of this connection.
func (c *Conn) Frames() int { return int(*(*int32)(at(c.frames))) }

// Checkpoint copies as much of the log into the database as is possible without waiting. done reports whether the
// whole log was copied, so that the next commit restarts it.
func (c *Conn) Checkpoint() (done bool, err error) {
	out := libc.Xcalloc(c.tls, 1, 8)
	defer libc.Xfree(c.tls, out)
	rc := sqlite3.Xsqlite3_wal_checkpoint_v2(c.tls, c.db, 0, sqlite3.SQLITE_CHECKPOINT_PASSIVE, out, out+4)
	if rc != sqlite3.SQLITE_OK {
		return false, c.fault(rc, "checkpoint")
	}
	return *(*int32)(at(out)) == *(*int32)(at(out + 4)), nil
}
