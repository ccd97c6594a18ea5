package ingestserve

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/stagepost/stagepost/app/ingest/share"
	"github.com/stagepost/stagepost/backup"
	"github.com/stagepost/stagepost/module"
)

// Data are the entries of ingest in the data directory.
func Data() []backup.Entry {
	return []backup.Entry{
		{Name: inventoryName, How: backup.Database, What: "what is stored where, identifiers"},
		{Name: inventoryName + "-*", How: backup.Left, What: "SQLite's log of `inventory.db`",
			Reason: "the copy of the database contains it"},
		{Name: "inventory.head*", How: backup.Left, What: "how far the inventory came",
			Reason: "a restored directory gets another one"},
		{Name: "inventory.db.before-*", How: backup.Left, What: "inventories before they were rebuilt",
			Reason: "the inventory is newer"},
		{Name: "inventory-rebuilt*", How: backup.Left, What: "an inventory while it is rebuilt",
			Reason: "removed by the next `stagepost ingest inventory rebuild`"},
		{Name: "work", How: backup.Linked, What: "payloads as handed in, working files, reports"},
		{Name: share.Name, How: backup.Left, What: "links by which batches are read, without their secrets",
			Reason: "a restored one would open links that were revoked meanwhile"},
		{Name: "access", How: backup.Linked,
			What: "plans of packages that can be fetched, and the key of their tokens"},
		{Name: "profiles", How: backup.Linked,
			What: "ingest profiles, unless `ingest.profiles` names another directory"},
		{Name: "storage", How: backup.Stored, Part: "storage",
			What: "stored objects (OCFL), unless a profile names other storage locations"},
		{Name: "trash", How: backup.Left, What: "what was thrown away, for a while", Reason: "nothing refers to it"},
	}
}

// Storage names the storage locations and the configuration of ingest.
func (s *Settings) Storage(ctx context.Context, dir string) (module.Storage, error) {
	locations, err := storagePlaces(ctx, s, dir)
	all := module.Storage{Locations: locations, Files: map[string]string{"profiles": s.Profiles}}
	if profiles, err := s.OpenProfiles(dir); err == nil {
		for _, file := range profiles.Set().SecretFiles() {
			if inner, err := filepath.Rel(s.ProfileDir(dir), file); err != nil || !filepath.IsLocal(inner) {
				all.Outside = append(all.Outside, backup.Location{Path: file, What: "secrets of a profile"})
			}
		}
	}
	return all, err
}

// inventoryName is the name of the inventory in the data directory.
const inventoryName = "inventory.db"

// storagePlaces names all storage locations: those of the profiles, and those that the inventory refers to.
func storagePlaces(ctx context.Context, s *Settings, data string) ([]string, error) {
	var places []string
	// else the inventory alone: health and the log name mistakes in profiles
	if profiles, err := s.OpenProfiles(data); err == nil {
		for _, id := range profiles.IDs() {
			if p, ok := profiles.Get(id); ok {
				places = append(places, p.Storage...)
			}
		}
	}
	file := filepath.Join(data, inventoryName)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return places, nil
	}
	db, err := openReading(file, "_pragma=query_only(1)&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, "SELECT DISTINCT place FROM places")
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	for rows.Next() {
		var place string
		if err := rows.Scan(&place); err != nil {
			return nil, errors.Join(err, rows.Close(), db.Close())
		}
		places = append(places, place)
	}
	for i := range places {
		places[i] = filepath.Clean(places[i])
	}
	slices.Sort(places)
	return slices.Compact(places), errors.Join(rows.Err(), db.Close())
}

// copies are the databases of a set. They do not change.
type copies struct{ store, inventory *sql.DB }

// OpenCopies opens the copied databases; the inventory may be missing.
func OpenCopies(dir string) (backup.Databases, error) {
	var c copies
	var err error
	if c.store, err = openReading(filepath.Join(dir, "stagepost.db"), "mode=ro&immutable=1"); err != nil {
		return nil, err
	}
	if _, none := os.Stat(filepath.Join(dir, inventoryName)); none == nil {
		if c.inventory, err = openReading(filepath.Join(dir, inventoryName), "mode=ro&immutable=1"); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// Has is part of backup.Databases: jobs make versions, and the inventory has those whose records were purged. A job
// whose record names no object yet did not make the version before the moment of the backup: it will choose an
// identifier anew.
func (c copies) Has(maker string) (bool, error) {
	known, err := has(c.store, "SELECT count(*) FROM jobs WHERE id = ? AND data -> '$.identity' IS NOT NULL", maker)
	if known || err != nil || c.inventory == nil {
		return known, err
	}
	return has(c.inventory, "SELECT count(*) FROM versions WHERE job = ?", maker)
}

func has(db *sql.DB, query, what string) (bool, error) {
	var n int
	err := db.QueryRow(query, what).Scan(&n)
	return n > 0, err
}

// Schemas is part of backup.Databases.
func (c copies) Schemas() map[string]int {
	var n int
	if c.inventory == nil || c.inventory.QueryRow("PRAGMA user_version").Scan(&n) != nil {
		return nil
	}
	return map[string]int{inventoryName: n}
}

// Close is part of backup.Databases.
func (c copies) Close() error {
	err := c.store.Close()
	if c.inventory != nil {
		err = errors.Join(err, c.inventory.Close())
	}
	return err
}

// openReading opens a database for reading.
func openReading(file, options string) (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?"+options)
}
