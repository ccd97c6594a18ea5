package module

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// kept is a database of a test.
type kept struct {
	asked string // the installation with which it was opened
	open  *int
	err   error // of Close
}

func (k *kept) Installation() string                 { return "one" }
func (k *kept) Count(context.Context) (int64, error) { return 7, nil }
func (k *kept) Close() error                         { *k.open--; return k.err }

// TestOpener: a migration copies nothing where there is nothing, opens the copy for the installation of the source
// unless it replaces the rows of a shared database, closes both, and reports their errors.
func TestOpener(t *testing.T) {
	var open int
	var copies []string
	fails := errors.New("close")
	opens := func(_ context.Context, _, installation string) (*kept, error) {
		open++
		return &kept{asked: installation, open: &open}, nil
	}
	o := &Opener[*kept]{
		File: "app.db", OpenFile: opens, OpenPostgres: opens,
		IsShared: func(_ context.Context, url string) (bool, error) { return url == "postgres://full", nil },
		Copy: func(_ context.Context, _, to *kept, replace bool) (Copied, error) {
			copies = append(copies, to.asked)
			if replace {
				to.err = fails
			}
			return Copied{Rows: 7, Digest: "d"}, nil
		},
	}
	empty, full := Databases{Dir: t.TempDir()}, Databases{Dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(full.Dir, "app.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	bare, shared := Databases{Postgres: "postgres://bare"}, Databases{Postgres: "postgres://full"}
	for _, c := range []struct {
		from, to Databases
		replace  bool
		asked    string // "-": nothing is copied
	}{
		{from: empty, to: bare, asked: "-"},
		{from: bare, to: empty, asked: "-"},
		{from: full, to: bare, asked: "one"},
		{from: shared, to: empty, asked: "one"},
		{from: full, to: shared, replace: true, asked: ""},
		{from: shared, to: full, replace: true, asked: "one"},
	} {
		copies = nil
		got, err := o.Migrate(t.Context(), c.from, c.to, c.replace)
		if c.asked == "-" {
			if err != nil || got != (Copied{}) || len(copies) > 0 {
				t.Errorf("%+v: got %+v, %v, %q", c, got, err, copies)
			}
		} else if got.Rows != 7 || len(copies) != 1 || copies[0] != c.asked || errors.Is(err, fails) != c.replace {
			t.Errorf("%+v: got %+v, %v, %q", c, got, err, copies)
		}
		if open != 0 {
			t.Errorf("%+v: %d databases are open", c, open)
		}
	}
	for d, want := range map[Databases]int64{empty: 0, full: 7, bare: 0, shared: 7} {
		if n, err := o.Count(t.Context(), d); n != want || err != nil || open != 0 {
			t.Errorf("%+v: counted %d, %v, %d are open", d, n, err, open)
		}
	}
}
