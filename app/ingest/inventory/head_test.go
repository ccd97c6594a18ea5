package inventory

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stagepost/stagepost/internal/headfile"
)

// filled gives an inventory in a file with some entries, closed, and what lies in its directory.
func filled(t *testing.T, installation string, entries int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "inventory.db")
	i, err := Open(t.Context(), path, installation)
	if err != nil {
		t.Fatal(err)
	}
	for n := range entries {
		e := entry("ark:/1/a", string(rune('a'+n)), n+1)
		if err := i.Record(t.Context(), e, files(1, nil)); err != nil {
			t.Fatal(err)
		}
	}
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Every way in which a file is not the one that was written last has its own error.
func TestLostInventory(t *testing.T) {
	older, foreign := read(t, filled(t, "one", 2)), read(t, filled(t, "two", 5))
	fresh := read(t, filled(t, "one", 0))
	for what, c := range map[string]struct {
		change func(path string)
		want   error
	}{
		"missing":   {func(path string) { _ = os.Remove(path) }, headfile.ErrMissing},
		"empty":     {func(path string) { write(t, path, nil) }, headfile.ErrEmpty},
		"older":     {func(path string) { write(t, path, older) }, headfile.ErrOlder},
		"a new one": {func(path string) { write(t, path, fresh) }, headfile.ErrOlder},
		"foreign":   {func(path string) { write(t, path, foreign) }, headfile.ErrForeign},
		"all of it is foreign": {func(path string) {
			write(t, path, foreign)
			write(t, headfile.Path(path), []byte("two 00000000000000000005\n"))
		}, headfile.ErrForeign},
		"no database": {func(path string) {
			write(t, path, []byte("not a database, but long enough to be taken for one by its size alone"))
		}, ErrDamaged},
		"torn":               {func(path string) { write(t, path, read(t, path)[:8192]) }, ErrDamaged},
		"control: as it was": {func(string) {}, nil},
		"control: head gone": {func(path string) { _ = os.Remove(headfile.Path(path)) }, nil},
		"control: head torn": {func(path string) { write(t, headfile.Path(path), []byte("one 0000")) }, nil},
		"control: head older": {func(path string) {
			write(t, headfile.Path(path), []byte("one 00000000000000000001\n"))
		}, nil},
	} {
		path := filled(t, "one", 3)
		c.change(path)
		before, _ := os.ReadFile(path)
		i, err := Open(t.Context(), path, "one")
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", what, err, c.want)
		}
		if err == nil {
			if err := i.Close(); err != nil {
				t.Error(err)
			}
		}
		if after, err := os.ReadFile(path); c.want != nil &&
			(string(after) != string(before) || errors.Is(err, fs.ErrNotExist) != (c.want == headfile.ErrMissing)) {
			t.Errorf("%s: the refused file was changed", what)
		}
	}
	path := filled(t, "one", 3)
	if got, want := string(read(t, headfile.Path(path))), "one 00000000000000000003\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The file is for this user only, and one of an earlier version does not stay readable for others than the store is.
func TestMode(t *testing.T) {
	path := filled(t, "one", 1)
	mode := func(name string) fs.FileMode {
		t.Helper()
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	for _, c := range []struct{ had, store, want fs.FileMode }{
		{0o600, 0, 0o600}, {0o644, 0, 0o600}, {0o644, 0o640, 0o640}, {0o600, 0o644, 0o600},
	} {
		if err := os.Chmod(path, c.had); err != nil {
			t.Fatal(err)
		}
		if c.store != 0 {
			store := filepath.Join(filepath.Dir(path), "stagepost.db")
			write(t, store, nil)
			if err := os.Chmod(store, c.store); err != nil {
				t.Fatal(err)
			}
		}
		i, err := Open(t.Context(), path, "one")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{path, path + "-wal", path + "-shm", headfile.Path(path)} {
			if got := mode(name); got != c.want && (name != headfile.Path(path) || got != 0o600) {
				t.Errorf("it had %o, the store has %o: %s has %o, want %o", c.had, c.store, filepath.Base(name), got,
					c.want)
			}
		}
		if err := i.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
