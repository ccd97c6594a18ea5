package sqlite

import (
	"embed"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
)

// Numbered files extend the schema, each applied once and in one transaction with its row in schema_version. A
// migration library would add database/sql and its driver to the binary for these few lines.
//
//go:embed schema/*.sql
var migrations embed.FS

// schemaVersion is the newest version that this binary supports.
const schemaVersion = 11

// Schema is the newest schema that this program reads and writes.
func Schema() int { return schemaVersion }

// migrate upgrades the schema to schemaVersion. A newer database is refused with kind Internal.
func migrate(c *conn.Conn) error {
	if err := c.Exec("CREATE TABLE IF NOT EXISTS schema_version " +
		"(version INTEGER PRIMARY KEY, applied TEXT NOT NULL) STRICT"); err != nil {
		return err
	}
	version, err := versionOf(c)
	if err != nil {
		return err
	}
	if version > schemaVersion {
		return job.Errorf(job.Internal,
			"open", "", "the database has schema %d, this program supports %d: use a newer program", version,
			schemaVersion)
	}
	for v := version + 1; v <= schemaVersion; v++ {
		text, err := migrations.ReadFile(fmt.Sprintf("schema/%03d.sql", v))
		if err != nil {
			return err
		}
		err = c.Exec(fmt.Sprintf("BEGIN IMMEDIATE;\n%s\nINSERT INTO schema_version VALUES (%d, '%s');\nCOMMIT",
			text, v, time.Now().UTC().Format(time.RFC3339)))
		if err != nil {
			return fmt.Errorf("schema %d: %w", v, err)
		}
	}
	return nil
}

func versionOf(c *conn.Conn) (version int64, err error) {
	err = each(c, "SELECT coalesce(max(version), 0) FROM schema_version", func(s *conn.Stmt) error {
		version = s.GetInt(0)
		return nil
	})
	return version, err
}
