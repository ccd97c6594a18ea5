package inventory

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stagepost/stagepost/internal/headfile"
	"github.com/stagepost/stagepost/internal/pgtest"
	"github.com/stagepost/stagepost/internal/sqldb"
)

// server is the PostgreSQL server of all tests of the package.
var server = pgtest.Lazy{Prepare: func(s *pgtest.Server) error {
	i, err := sqldb.Open(context.Background(), s.URL(pgtest.Template), shared, sqldb.Options{})
	if err != nil {
		return err
	}
	return i.Close()
}, Reset: pgtest.Emptied(shared.Name, tables.Names, tables.Counter)}

// target opens one inventory, each time that it is called.
type target func(installation string) (*Inventory, error)

// opener makes inventories in one kind of database.
type opener struct {
	name    string
	target  func(t *testing.T) target
	foreign error // of an inventory that belongs to another installation
}

var (
	inFile = opener{"SQLite", func(t *testing.T) target {
		path := filepath.Join(t.TempDir(), "inventory 100%.db")
		return func(installation string) (*Inventory, error) { return Open(t.Context(), path, installation) }
	}, headfile.ErrForeign}

	inPostgres = opener{"PostgreSQL", func(t *testing.T) target {
		database := server.Database(t)
		return func(installation string) (*Inventory, error) {
			return OpenPostgres(t.Context(), database, installation)
		}
	}, sqldb.ErrForeign}
)

// inEach runs a test in each kind of database.
func inEach(t *testing.T, run func(t *testing.T, open opener)) {
	for _, open := range []opener{inFile, inPostgres} {
		t.Run(open.name, func(t *testing.T) { run(t, open) })
	}
}

// new makes an inventory, which is closed at the end of the test.
func (o opener) new(t *testing.T) *Inventory {
	t.Helper()
	i, err := o.target(t)("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	})
	return i
}
