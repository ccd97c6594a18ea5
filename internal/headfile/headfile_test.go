package headfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestHeadFile(t *testing.T) {
	db := filepath.Join(t.TempDir(), "some.db")
	if err := Present(db); err != nil {
		t.Fatalf("a database that never existed: %v", err)
	}
	if err := os.WriteFile(db, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(db, "one", 3)
	if err != nil {
		t.Fatal(err)
	}
	f.Note(7)
	f.Note(5) // notes of two commits may change their order
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for sequence, want := range map[int64]error{6: ErrOlder, 7: nil, 8: nil, 7 << 40: nil} {
		again, err := Open(db, "one", sequence)
		if !errors.Is(err, want) {
			t.Errorf("%d entries: %v, want %v", sequence, err, want)
		}
		if err == nil {
			if err := again.Close(); err != nil {
				t.Error(err)
			}
			if err := Write(db, "one", 7); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := Open(db, "two", 9); !errors.Is(err, ErrForeign) {
		t.Errorf("another installation: %v", err)
	}
	if err := Present(db); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(db, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Present(db); !errors.Is(err, ErrEmpty) {
		t.Errorf("an empty file: %v", err)
	}
	if err := os.Remove(db); err != nil {
		t.Fatal(err)
	}
	if err := Present(db); !errors.Is(err, ErrMissing) {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.WriteFile(Path(db), []byte("one 0000"), 0o600); err != nil { // cut by a loss of power
		t.Fatal(err)
	}
	if _, err := Open(db, "one", 0); err != nil {
		t.Errorf("an incomplete line: %v", err)
	}
}
