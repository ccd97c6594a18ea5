package inventory

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
)

// Locations gives the names of the storage locations that were used.
func (i *Inventory) Locations(ctx context.Context) ([]string, error) {
	return rows(ctx, i.read, func(r *sql.Rows) (dir string, err error) {
		err = r.Scan(&dir)
		return dir, err
	}, "SELECT place FROM locations ORDER BY place")
}

// checks find what contradicts itself; each gives a sentence a row.
var checks = []string{
	"SELECT 'local id ' || local_id || ' of ' || owner || ' is ' || ark || ', which does not exist' FROM local_ids " +
		"WHERE ark NOT IN (SELECT ark FROM objects) AND ark NOT IN (SELECT ark FROM named)",
	"SELECT ark || ' belongs to ' || o.owner || ', and job ' || n.job || ' has it for ' || n.owner FROM named n JOIN " +
		"objects o USING (ark) WHERE n.owner <> o.owner",
	"SELECT ark || ' belongs to ' || o.owner || ', and its local id ' || l.local_id || ' to ' || l.owner FROM " +
		"local_ids l JOIN objects o USING (ark) WHERE l.owner <> o.owner",
	`SELECT 'version ' || version || ' of ' || ark || ' is in no storage location' FROM versions WHERE NOT EXISTS
		(SELECT 1 FROM places p WHERE p.ark = versions.ark AND p.version = versions.version)`,
	"SELECT 'version ' || version || ' of ' || ark || ' of job ' || job || ' is in no storage location since the " +
		"inventory was rebuilt' FROM lost",
	"SELECT 'version ' || version || ' of ' || ark || ' has ' || (SELECT count(*) FROM files f WHERE f.ark = v.ark " +
		"AND f.version = v.version) || ' files, not ' || files FROM versions v" +
		" WHERE files <> (SELECT count(*) FROM files f WHERE f.ark = v.ark AND f.version = v.version)",
}

// fileChecks find what is wrong with the file.
var fileChecks = []string{
	"SELECT \"table\" || ' refers to ' || parent || ', which has no such row' FROM pragma_foreign_key_check",
	"SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
}

// Contradictions finds what contradicts itself within the inventory.
func (i *Inventory) Contradictions(ctx context.Context, found func(text string)) error {
	queries := checks
	if i.shared == nil {
		queries = slices.Concat(checks, fileChecks)
	}
	for _, query := range queries {
		all, err := rows(ctx, i.read, func(r *sql.Rows) (text string, err error) {
			err = r.Scan(&text)
			return text, err
		}, query+" LIMIT 1000")
		if err != nil {
			return fmt.Errorf("check: %w", err)
		}
		for _, text := range all {
			found(text)
		}
	}
	return nil
}
