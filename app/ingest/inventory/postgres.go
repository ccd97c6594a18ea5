package inventory

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"

	"github.com/stagepost/stagepost/internal/sqldb"
)

//go:embed schema/postgres6.sql
var postgres6 string

// shared is the inventory in PostgreSQL. Its steps bring it to the same schemas as those of the file.
var shared = sqldb.Schema{Name: "stagepost_inventory", First: 6, Steps: []string{postgres6}}

// OpenPostgres opens the inventory in a PostgreSQL database that servers share, given by a connection string or URL as
// libpq defines them, and makes it when there is none. It belongs to the given installation from then on, as that of
// [Open]; the error is [sqldb.ErrForeign] if it belongs to another one.
//
// Two things differ from a file. Locks are synced like all else: their holders may outlast the database server. And
// [Inventory.Dead] gives no error: a database server that cannot be reached is waited for.
func OpenPostgres(ctx context.Context, database, installation string) (*Inventory, error) {
	i := newInventory()
	var err error
	if i.shared, err = sqldb.Open(ctx, database, shared, sqldb.Options{}); err == nil {
		i.read = &reader{DB: i.shared.Read, plain: true}
		_, err = i.identify(ctx, installation)
	}
	if err != nil {
		if i.shared != nil {
			err = errors.Join(err, i.Close())
		}
		return nil, fmt.Errorf("inventory in PostgreSQL: %w", err)
	}
	return i, nil
}

// Exists reports whether there is an inventory in a PostgreSQL database.
func Exists(ctx context.Context, database string) (bool, error) {
	return sqldb.Exists(ctx, database, shared.Name)
}

// tables are all tables of the inventory.
var tables = sqldb.Tables{
	Names: []string{"meta", "objects", "versions", "files", "places", "local_ids", "named", "minters", "locks",
		"locations", "lost", "depositors", "faults", "checks", "healed"},
	Counter: map[string]string{"locks": "token"},
	Made:    []string{"meta"},
}

// Migrate copies all of an inventory into an empty one, in a file or in PostgreSQL, and compares them. No server may
// work on either of them, and both belong to one installation. A copy that was interrupted may be repeated.
// With replace it replaces what the other one has, of any installation.
func Migrate(ctx context.Context, from, to *Inventory, replace bool) (sqldb.Copied, error) {
	return sqldb.Migrate(ctx, "inventory", from.side(), to.side(), tables, replace)
}

// Count counts all rows that [Migrate] copies, but those of a new inventory.
func (i *Inventory) Count(ctx context.Context) (int64, error) {
	return sqldb.Count(ctx, i.side(), tables)
}

func (i *Inventory) side() sqldb.Side {
	s := sqldb.Side{Postgres: i.shared != nil, Installation: i.installation, Head: i.head,
		Write: func(ctx context.Context, do func(tx *sql.Tx) error) error {
			return i.tx(ctx, func(tx *change) error { return do(tx.Tx) })
		}}
	if i.read != nil {
		s.Read = i.read.DB
	}
	return s
}
