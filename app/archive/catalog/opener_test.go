package catalog

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stagepost/stagepost/internal/pgtest"
	"github.com/stagepost/stagepost/internal/sqldb"
)

// server is the PostgreSQL server of all tests of the package.
var server = pgtest.Lazy{Prepare: func(s *pgtest.Server) error {
	c, err := sqldb.Open(context.Background(), s.URL(pgtest.Template), shared, sqldb.Options{})
	if err != nil {
		return err
	}
	return c.Close()
}, Reset: pgtest.Emptied(shared.Name, tables.Names, tables.Counter)}

func TestMain(m *testing.M) {
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

// target opens one catalog, each time that it is called.
type target func(o Options) (*Catalog, error)

// opener makes catalogs in one kind of database.
type opener struct {
	name   string
	target func(t *testing.T) target
	stride int // of tests that repeat everything for each call
}

var (
	inFile = opener{"SQLite", func(t *testing.T) target {
		path := filepath.Join(t.TempDir(), Name)
		return func(o Options) (*Catalog, error) { return Open(t.Context(), path, o) }
	}, 1}

	inPostgres = opener{"PostgreSQL", func(t *testing.T) target {
		database := server.Database(t)
		return func(o Options) (*Catalog, error) { return OpenPostgres(t.Context(), database, o) }
	}, 9}
)

// inEach runs a test in each kind of database.
func inEach(t *testing.T, run func(t *testing.T, open opener)) {
	for _, open := range []opener{inFile, inPostgres} {
		t.Run(open.name, func(t *testing.T) { run(t, open) })
	}
}

// new makes a catalog, which is closed at the end of the test.
func (o opener) new(t *testing.T, options Options) *Catalog {
	t.Helper()
	return openPlace(t, o.target(t), options)
}

func openPlace(t *testing.T, at target, o Options) *Catalog {
	t.Helper()
	c, err := at(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
