package conn

import (
	"context"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// copyPages is the number of pages that are copied between two checks of the context.
const copyPages = 1024

// CopyTo copies the whole database into that of another connection by SQLite's backup interface. Inside a read
// transaction of c it copies the state that the transaction sees, regardless of concurrent writes.
func (c *Conn) CopyTo(ctx context.Context, to *Conn) (err error) {
	name, err := libc.CString("main")
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, name)
	b := sqlite3.Xsqlite3_backup_init(to.tls, to.db, name, c.db, name)
	if b == 0 {
		return to.fault(sqlite3.Xsqlite3_errcode(to.tls, to.db), "copy")
	}
	defer func() {
		if rc := sqlite3.Xsqlite3_backup_finish(to.tls, b); rc != sqlite3.SQLITE_OK && err == nil {
			err = to.fault(rc, "copy")
		}
	}()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		switch rc := sqlite3.Xsqlite3_backup_step(to.tls, b, copyPages); rc {
		case sqlite3.SQLITE_OK:
		case sqlite3.SQLITE_DONE:
			return nil
		default:
			return to.fault(rc, "copy")
		}
	}
}
