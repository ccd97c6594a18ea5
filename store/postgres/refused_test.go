package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// TestAfterFailure: a transaction that fails permanently is not reported as one that the database has lost. The
// control: a number that the database had and has no more is.
func TestAfterFailure(t *testing.T) {
	var noted []error
	s := openStore(t, newDatabase(t), Options{OnFailure: func(err error) { noted = append(noted, err) }})
	lost := func() (n int) {
		for _, err := range noted {
			if errors.Is(err, errRenumbered) {
				n++
			}
		}
		return n
	}
	note := func(object string) {
		t.Helper()
		entry := job.Audit{By: lifecycle.Operator, Actor: "ann", Event: "set", Object: object, At: start}
		check(t, s.Note(t.Context(), entry))
	}
	note("first")
	for range 3 {
		err := s.do(t.Context(), "fail", &operation{apply: func(b *batch) error {
			var n int
			return persistent{b.q.QueryRow(b.ctx, "SELECT 1 / 0").Scan(&n)}
		}})
		if err == nil {
			t.Fatalf("control: the transaction did not fail")
		}
		note("after a failure")
	}
	if lost() > 0 {
		t.Errorf("the database has lost nothing: %v", noted)
	}
	_, err := s.pool.Exec(t.Context(), "UPDATE writer SET seq = seq - 2")
	check(t, err)
	note("last")
	if lost() != 1 {
		t.Errorf("control: a lost transaction was reported %d times: %v", lost(), noted)
	}
	entries, err := s.Audit(t.Context(), 0, 10)
	if check(t, err); len(entries) != 5 {
		t.Errorf("%d entries, want 5", len(entries))
	}
}

// TestEncoding: a database whose encoding is not UTF-8 is refused before anything is written. The control: one in UTF-8
// is accepted.
func TestEncoding(t *testing.T) {
	for _, encoding := range []string{"LATIN1", "SQL_ASCII", "EUC_JP", "UTF8"} {
		name := "encoded_" + strings.ToLower(encoding)
		check(t, testServer.Exec("postgres", "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING '"+encoding+
			"' LC_COLLATE 'C' LC_CTYPE 'C'"))
		s, err := Open(t.Context(), testServer.URL(name), Options{Unsynced: true})
		if encoding == "UTF8" {
			if check(t, err); s != nil {
				closeStore(t, s)
			}
		} else if job.KindOf(err) != job.Refused || !strings.Contains(err.Error(), "encoding "+encoding) {
			t.Errorf("%s: %v", encoding, err)
		}
		check(t, testServer.Exec("postgres", "DROP DATABASE "+name+" WITH (FORCE)"))
	}
}
