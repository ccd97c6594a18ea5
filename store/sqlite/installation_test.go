package sqlite

import (
	"os"
	"path/filepath"
	"testing"
)

// A data directory has one id from its first opening on; a copy of the database has the same, another directory
// another.
func TestInstallation(t *testing.T) {
	dir, copied := t.TempDir(), t.TempDir()
	s := openStore(t, dir, Options{})
	id := s.Installation()
	if len(id) != 26 {
		t.Errorf("id %q", id)
	}
	if err := s.Backup(t.Context(), filepath.Join(copied, database)); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	for what, c := range map[string]struct {
		dir  string
		same bool
	}{"opened again": {dir, true}, "a copy": {copied, true}, "another directory": {t.TempDir(), false}} {
		s := openStore(t, c.dir, Options{})
		if got := s.Installation(); (got == id) != c.same {
			t.Errorf("%s: id %s, the first one was %s", what, got, id)
		}
	}
}

// A directory of an earlier version gets an id when it is opened, and keeps it.
func TestInstallationOfEarlierVersion(t *testing.T) {
	from, dir := t.TempDir(), t.TempDir()
	s := openStore(t, from, Options{})
	create(t, s, "tst_1")
	closeStore(t, s)
	schemaOne(t, from, dir)
	s = openStore(t, dir, Options{})
	id := s.Installation()
	closeStore(t, s)
	if s = openStore(t, dir, Options{}); id == "" || s.Installation() != id {
		t.Errorf("ids %q and %q", id, s.Installation())
	}
	if _, err := os.Stat(filepath.Join(dir, marker)); err != nil {
		t.Error(err)
	}
}
