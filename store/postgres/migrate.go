package postgres

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/job"
)

// Numbered files extend the schema, each applied once and in one transaction with its row in schema_version.
//
//go:embed schema/*.sql
var migrations embed.FS

// schemaVersion is the newest version that this program supports.
const schemaVersion = 12

// migrate upgrades the schema to schemaVersion, while other servers that open the store wait. A newer database is
// refused with kind Internal.
func migrate(ctx context.Context, conn *pgx.Conn) error {
	for v := 0; v <= schemaVersion; {
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
			v, err = upgrade(ctx, tx)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

const createVersions = `CREATE TABLE IF NOT EXISTS schema_version
 (version integer PRIMARY KEY, applied text NOT NULL)`

// upgrade applies the next version. It returns the one to be applied after it.
func upgrade(ctx context.Context, tx pgx.Tx) (next int, err error) {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1, 0)", int32(lockSchema)); err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, createVersions); err != nil {
		return 0, err
	}
	var version int
	if err := tx.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM schema_version").Scan(&version); err != nil {
		return 0, err
	}
	if err := tooNew(version); err != nil {
		return 0, err
	}
	if version == schemaVersion {
		return version + 1, nil
	}
	text, err := migrations.ReadFile(fmt.Sprintf("schema/%03d.sql", version+1))
	if err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, string(text)); err != nil {
		return 0, fmt.Errorf("schema %d: %w", version+1, err)
	}
	_, err = tx.Exec(ctx, "INSERT INTO schema_version VALUES ($1, $2)", version+1,
		time.Now().UTC().Format(time.RFC3339))
	return version + 1, err
}

func tooNew(version int) error {
	if version <= schemaVersion {
		return nil
	}
	return job.Errorf(job.Internal, "open", "", "the database has schema %d, this program supports %d: use a newer "+
		"program", version, schemaVersion)
}

// oldestRead is the oldest schema whose content is counted without an upgrade: it has marks of migrations.
const oldestRead = 3

// readable refuses a database that cannot be read as it is.
func readable(ctx context.Context, conn *pgx.Conn) error {
	var made bool
	err := conn.QueryRow(ctx, "SELECT to_regclass('schema_version') IS NOT NULL").Scan(&made)
	if err == nil && !made {
		err = job.Errorf(job.NotFound, "open", "", "the database %s has no tables of a store", conn.Config().Database)
	}
	version := 0
	if err == nil {
		err = conn.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM schema_version").Scan(&version)
	}
	switch {
	case err != nil:
		return err
	case version < oldestRead:
		return job.Errorf(job.Refused, "open", "", "the database has schema %d, and is upgraded first: start a server "+
			"of this program on it, or repeat without --dry-run", version)
	}
	return tooNew(version)
}
