package conn

import (
	"slices"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// Stmt is a prepared statement. Parameters count from 1, columns from 0, as in SQLite.
//
// Use: bind every parameter, Step until it returns no row, and Reset if the rows are not read to the end.
type Stmt struct {
	c    *Conn
	stmt uintptr
	sql  string
	room uintptr // memory for texts and blobs until the next Reset
	used int
	null uint64 // bits of the parameters that are bound to NULL: bindings persist between uses
	err  error  // first failure to bind; Step returns it
}

// roomSize is enough for the texts of an ordinary row; SQLite copies longer ones.
const roomSize = 4096

// Prepare compiles one statement for repeated use. It is valid as long as the connection.
func (c *Conn) Prepare(sql string) (*Stmt, error) {
	text, err := libc.CString(sql)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, text)
	rc := sqlite3.Xsqlite3_prepare_v3(c.tls, c.db, text, -1, sqlite3.SQLITE_PREPARE_PERSISTENT, c.word, 0)
	if rc != sqlite3.SQLITE_OK {
		return nil, c.fault(rc, sql)
	}
	s := &Stmt{c: c, stmt: *(*uintptr)(at(c.word)), sql: sql}
	s.room = libc.Xmalloc(c.tls, roomSize)
	c.stmts = append(c.stmts, s)
	return s, nil
}

// Close frees a statement before its connection is closed.
func (s *Stmt) Close() {
	if at := slices.Index(s.c.stmts, s); at >= 0 {
		s.c.stmts = slices.Delete(s.c.stmts, at, at+1)
		s.finalize()
	}
}

func (s *Stmt) finalize() {
	sqlite3.Xsqlite3_finalize(s.c.tls, s.stmt)
	libc.Xfree(s.c.tls, s.room)
}

// Int binds a number.
func (s *Stmt) Int(i int, v int64) {
	s.null &^= 1 << i
	s.note(sqlite3.Xsqlite3_bind_int64(s.c.tls, s.stmt, int32(i), v))
}

// Null binds NULL.
func (s *Stmt) Null(i int) {
	if s.null&(1<<i) != 0 {
		return
	}
	rc := sqlite3.Xsqlite3_bind_null(s.c.tls, s.stmt, int32(i))
	if s.note(rc); rc == sqlite3.SQLITE_OK {
		s.null |= 1 << i
	}
}

// Text binds a text.
func (s *Stmt) Text(i int, v string) {
	s.null &^= 1 << i
	p, del := s.copyIn(unsafe.Slice(unsafe.StringData(v), len(v)))
	s.note(sqlite3.Xsqlite3_bind_text(s.c.tls, s.stmt, int32(i), p, int32(len(v)), del))
	s.free(p, del)
}

// TextOrNull binds a text, or NULL if it is empty.
func (s *Stmt) TextOrNull(i int, v string) {
	if v == "" {
		s.Null(i)
		return
	}
	s.Text(i, v)
}

// JSON binds bytes as text, or NULL if there are none.
func (s *Stmt) JSON(i int, v []byte) { s.TextOrNull(i, unsafe.String(unsafe.SliceData(v), len(v))) }

// Blob binds bytes.
func (s *Stmt) Blob(i int, v []byte) {
	s.null &^= 1 << i
	p, del := s.copyIn(v)
	s.note(sqlite3.Xsqlite3_bind_blob(s.c.tls, s.stmt, int32(i), p, int32(len(v)), del))
	s.free(p, del)
}

// copyIn copies bytes to memory that SQLite may read. Go's own may be moved or freed.
func (s *Stmt) copyIn(v []byte) (p uintptr, del uintptr) {
	const static, transient = 0, ^uintptr(0)
	if s.used+len(v) <= roomSize {
		p = s.room + uintptr(s.used)
		s.used += len(v)
		copyTo(p, v)
		return p, static
	}
	p = libc.Xmalloc(s.c.tls, libc.Tsize_t(len(v)))
	if p == 0 {
		s.note(sqlite3.SQLITE_NOMEM)
		return s.room, static
	}
	copyTo(p, v)
	return p, transient
}

func (s *Stmt) free(p, del uintptr) {
	if del != 0 {
		libc.Xfree(s.c.tls, p)
	}
}

func copyTo(p uintptr, v []byte) {
	if len(v) > 0 {
		copy(unsafe.Slice((*byte)(at(p)), len(v)), v)
	}
}

func (s *Stmt) note(rc int32) {
	if rc != sqlite3.SQLITE_OK && s.err == nil {
		s.err = s.c.fault(rc, "bind")
	}
}

// Step runs the statement to its next row. After the last row, and after an error, the statement is reset.
func (s *Stmt) Step() (row bool, err error) {
	if s.err != nil {
		err, s.err = s.err, nil
		s.Reset()
		return false, err
	}
	rc := sqlite3.Xsqlite3_step(s.c.tls, s.stmt)
	if rc == sqlite3.SQLITE_ROW {
		return true, nil
	}
	if rc != sqlite3.SQLITE_DONE {
		err = s.c.fault(rc, s.sql)
	}
	s.Reset()
	return false, err
}

// Run steps a statement that returns no rows.
func (s *Stmt) Run() error {
	row, err := s.Step()
	if row {
		s.Reset()
	}
	return err
}

// Reset makes the statement ready for the next use.
func (s *Stmt) Reset() {
	sqlite3.Xsqlite3_reset(s.c.tls, s.stmt)
	s.used = 0
}

// GetInt reads a number; 0 for NULL.
func (s *Stmt) GetInt(i int) int64 {
	return sqlite3.Xsqlite3_column_int64(s.c.tls, s.stmt, int32(i))
}

// IsNull reports whether the column is NULL.
func (s *Stmt) IsNull(i int) bool {
	return sqlite3.Xsqlite3_column_type(s.c.tls, s.stmt, int32(i)) == sqlite3.SQLITE_NULL
}

// IsText reports whether the column is a text.
func (s *Stmt) IsText(i int) bool {
	return sqlite3.Xsqlite3_column_type(s.c.tls, s.stmt, int32(i)) == sqlite3.SQLITE_TEXT
}

// GetText reads a text; empty for NULL.
func (s *Stmt) GetText(i int) string { return string(s.view(i)) }

// GetBytes reads bytes; nil for NULL.
func (s *Stmt) GetBytes(i int) []byte {
	v := s.view(i)
	if v == nil {
		return nil
	}
	return append(make([]byte, 0, len(v)), v...)
}

// view returns the column's memory, valid until the next Step.
func (s *Stmt) view(i int) []byte {
	p := sqlite3.Xsqlite3_column_blob(s.c.tls, s.stmt, int32(i))
	n := sqlite3.Xsqlite3_column_bytes(s.c.tls, s.stmt, int32(i))
	if p == 0 || n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(at(p)), int(n))
}
