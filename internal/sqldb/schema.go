package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Schema is that of an application in PostgreSQL. Its steps are never changed once they were released.
type Schema struct {
	Name  string // such as stagepost_inventory
	First int    // number of the schema that the first step makes, as in SQLite
	Steps []string
}

// Version is the newest schema that this program reads and writes.
func (s *Schema) Version() int { return s.First + len(s.Steps) - 1 }

// byBytes lets the columns of a step compare texts by their bytes, as SQLite does. Those with another collation stay.
var byBytes = strings.NewReplacer(" text NOT NULL", ` text COLLATE "C" NOT NULL`,
	" text PRIMARY KEY", ` text COLLATE "C" PRIMARY KEY`)

// common is what each schema has besides the tables of its application.
const common = `
CREATE TABLE schema_version (version integer PRIMARY KEY, applied text NOT NULL);
CREATE TABLE writers (id text PRIMARY KEY, seq bigint NOT NULL, seen bigint NOT NULL);
CREATE FUNCTION instr(text, text) RETURNS integer LANGUAGE sql IMMUTABLE STRICT AS 'SELECT pg_catalog.strpos($1, $2)';
CREATE FUNCTION json_of_array(text[]) RETURNS text LANGUAGE sql IMMUTABLE STRICT
	AS 'SELECT pg_catalog.array_to_json($1)::text';
CREATE AGGREGATE json_group_array(text) (SFUNC = array_append, STYPE = text[], INITCOND = '{}',
	FINALFUNC = json_of_array);
`

// upgradeShared checks the database, and creates or upgrades a schema, while other servers that open it wait.
func upgradeShared(ctx context.Context, config *pgx.ConnConfig, schema Schema, lock int32) (err error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if _, err := conn.Exec(ctx, "SET lock_timeout = 0"); err != nil { // another server's upgrade may take long
		return err
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1, $2)", int32(lockClass), lock); err != nil {
			return err
		}
		version, err := sharedVersion(ctx, tx, schema)
		if err != nil {
			return err
		}
		for ; version < schema.Version(); version++ {
			if _, err := tx.Exec(ctx, byBytes.Replace(schema.Steps[version+1-schema.First])); err != nil {
				return fmt.Errorf("step %d: %w", version+1, err)
			}
			if _, err := tx.Exec(ctx, "INSERT INTO schema_version VALUES ($1, $2)", version+1,
				time.Now().UTC().Format(time.RFC3339)); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, "DELETE FROM writers WHERE seen < $1", time.Now().Add(-oldWriter).UnixMicro())
		return err
	})
}

// sharedVersion gives the number of the schema that is there; before the first one the schema is made.
func sharedVersion(ctx context.Context, tx pgx.Tx, schema Schema) (version int, err error) {
	var fsync string
	var exists, made bool
	if err := tx.QueryRow(ctx, `SELECT current_setting('fsync'), EXISTS (SELECT FROM pg_namespace WHERE nspname = $1),
		to_regclass($1 || '.schema_version') IS NOT NULL`, schema.Name).Scan(&fsync, &exists, &made); err != nil {
		return 0, err
	}
	if fsync != "on" {
		return 0, fmt.Errorf("the database server has fsync = %s: it would lose acknowledged changes in a power "+
			"failure; set fsync = on in postgresql.conf", fsync)
	}
	if !exists { // one that exists may be there because this user may create none
		if _, err := tx.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{schema.Name}.Sanitize()); err != nil {
			return 0, err
		}
	}
	if !made {
		_, err := tx.Exec(ctx, common)
		return schema.First - 1, err
	}
	err = tx.QueryRow(ctx, "SELECT max(version) FROM schema_version").Scan(&version)
	if err == nil && version > schema.Version() {
		err = newer(version, schema.Version())
	}
	return version, err
}

func newer(version, supported int) error {
	return fmt.Errorf("it has schema %d, and this program supports %d: use a newer program", version, supported)
}

// UpgradeFile brings a SQLite file from its schema to the newest one. The first step makes a new file.
func UpgradeFile(ctx context.Context, tx *sql.Tx, steps []string) error {
	var version int
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version > len(steps) {
		return newer(version, len(steps))
	}
	if version == len(steps) {
		return nil
	}
	for _, next := range steps[version:] {
		if _, err := tx.ExecContext(ctx, next); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(steps)))
	return err
}
