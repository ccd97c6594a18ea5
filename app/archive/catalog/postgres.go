package catalog

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/stagepost/stagepost/internal/sqldb"
)

//go:embed schema/postgres4.sql
var postgres4 string

//go:embed schema/postgres5.sql
var postgres5 string

// shared is the catalog in PostgreSQL. Its steps bring it to the same schemas as those of the file.
var shared = sqldb.Schema{Name: "stagepost_archive", First: 4, Steps: []string{postgres4, postgres5}}

// OpenPostgres opens the catalog in a PostgreSQL database that servers share, given by a connection string or URL as
// libpq defines them, and creates it if there is none. [sqldb.ErrForeign]: it belongs to another installation.
// [Catalog.Dead] gives no error then: a database server that cannot be reached is waited for.
func OpenPostgres(ctx context.Context, database string, o Options) (*Catalog, error) {
	c := &Catalog{o: o, deaths: make(chan error, 1)}
	var err error
	if c.shared, err = sqldb.Open(ctx, database, shared, sqldb.Options{}); err == nil {
		c.read = c.shared.Read
		_, err = c.identify(ctx)
	}
	if err != nil {
		if c.shared != nil {
			err = errors.Join(err, c.Close())
		}
		return nil, fmt.Errorf("catalog in PostgreSQL: %w", err)
	}
	return c, nil
}

// Exists reports whether there is a catalog in a PostgreSQL database.
func Exists(ctx context.Context, database string) (bool, error) {
	return sqldb.Exists(ctx, database, shared.Name)
}

// tables are all tables of the catalog.
var tables = sqldb.Tables{
	Names: []string{"meta", "archives", "activities", "failures", "artifacts", "copies", "checks", "locations",
		"tokens", "current_tokens", "people", "contents", "holds", "deletions", "tombstones", "erasures", "events",
		"held", "versions", "version_faults", "version_jobs"},
	Counter: map[string]string{"artifacts": "id", "events": "id"},
	Made:    []string{"meta"},
}

// Migrate copies all of a catalog into an empty one, in a file or in PostgreSQL, and compares them. No server may work
// on either of them, and both belong to one installation. A copy that was interrupted may be repeated.
// With replace it replaces what the other one has, of any installation.
func Migrate(ctx context.Context, from, to *Catalog, replace bool) (sqldb.Copied, error) {
	return sqldb.Migrate(ctx, "catalog", from.side(), to.side(), tables, replace)
}

// Count counts all rows that [Migrate] copies, but those of a new catalog.
func (c *Catalog) Count(ctx context.Context) (int64, error) {
	return sqldb.Count(ctx, c.side(), tables)
}

func (c *Catalog) side() sqldb.Side {
	return sqldb.Side{Read: c.read, Write: c.tx, Postgres: c.shared != nil, Installation: c.installation, Head: c.head}
}
