package conn

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

func open(t *testing.T) *Conn {
	t.Helper()
	c, err := Open(filepath.Join(t.TempDir(), "db"), Create, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// What is bound is read back, however long, beside other texts of the same row.
func TestValues(t *testing.T) {
	c := open(t)
	if err := c.Exec("CREATE TABLE t (i INTEGER, a TEXT, b BLOB, n TEXT)"); err != nil {
		t.Fatal(err)
	}
	put, err := c.Prepare("INSERT INTO t VALUES (?, ?, ?, ?)")
	if err != nil {
		t.Fatal(err)
	}
	get, err := c.Prepare("SELECT i, a, b, n FROM t WHERE rowid = ?")
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{"", "short", "a\x00b", strings.Repeat("x", roomSize),
		strings.Repeat("long", roomSize)} {
		blob := []byte(text + "!")
		put.Int(1, int64(-i))
		put.Text(2, text)
		put.Blob(3, blob)
		put.TextOrNull(4, "")
		if err := put.Run(); err != nil {
			t.Fatal(err)
		}
		get.Int(1, c.LastRow())
		if row, err := get.Step(); !row || err != nil {
			t.Fatal(row, err)
		}
		if get.GetInt(0) != int64(-i) || get.GetText(1) != text || !bytes.Equal(get.GetBytes(2), blob) ||
			!get.IsNull(3) || !get.IsText(1) {
			t.Errorf("a text of %d bytes came back as %d, %q..., %d bytes", len(text), get.GetInt(0),
				get.GetText(1)[:min(9, len(text))], len(get.GetBytes(2)))
		}
		get.Reset()
	}
}

// Nothing stays bound from use to use, and gives way to whatever is bound next, of every kind.
func TestNothing(t *testing.T) {
	c := open(t)
	s, err := c.Prepare("SELECT ?")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]func(){
		"number": func() { s.Int(1, 7) },
		"text":   func() { s.Text(1, "x") }, "blob": func() { s.Blob(1, []byte("x")) },
		"JSON":       func() { s.JSON(1, []byte("x")) },
		"empty text": func() { s.Text(1, "") },
	}
	null := func(want bool, what string) {
		t.Helper()
		row, err := s.Step()
		if !row || err != nil || s.IsNull(0) != want {
			t.Errorf("%s: nothing %t, want %t (%v)", what, s.IsNull(0), want, err)
		}
		s.Reset()
	}
	for name, bind := range values {
		for range 2 {
			s.Null(1)
			s.TextOrNull(1, "")
			null(true, "before a "+name)
			null(true, "once more")
			bind()
			null(false, name)
		}
	}
}

func TestErrors(t *testing.T) {
	c := open(t)
	if err := c.Exec("CREATE TABLE t (i INTEGER PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Prepare("SELECT nonsense FROM t"); err == nil {
		t.Error("a statement about no column was prepared")
	}
	s, err := c.Prepare("INSERT INTO t VALUES (?)")
	if err != nil {
		t.Fatal(err)
	}
	s.Int(2, 1) // there is no second parameter
	if err := s.Run(); err == nil {
		t.Error("a value was bound to no parameter")
	}
	for i, want := range []bool{true, false} {
		s.Int(1, 1)
		if err := s.Run(); (err == nil) != want {
			t.Errorf("insertion %d: %v", i, err)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "no", "db"), ReadWrite, ""); FaultOf(err) != IO {
		t.Errorf("a file in no directory: %v", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "db"), Create, "no such layer"); err == nil {
		t.Error("a layer that does not exist was used")
	}
}

// Interrupt stops a statement that would run indefinitely.
func TestInterrupt(t *testing.T) {
	c := open(t)
	running := make(chan error)
	go func() {
		running <- c.Exec("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n")
	}()
	for {
		c.Interrupt() // one that comes before the statement has begun is forgotten
		select {
		case err := <-running:
			if FaultOf(err) != Interrupted {
				t.Errorf("got %v", err)
			}
			return
		default:
		}
	}
}
