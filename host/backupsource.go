package host

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/backup"
	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/internal/build"
	"github.com/stagepost/stagepost/store/sqlite"
)

// names of the databases.
const (
	StoreFile     = "stagepost.db"
	InventoryName = "inventory.db"
)

// source says how a data directory is backed up, whether a server works on it or not.
func (k *Keeper) source(ctx context.Context) (*backup.Source, error) {
	s := &backup.Source{
		Data: k.Dir, Entries: DurableData(), Installation: k.Store.Installation(), Version: build.Version(), Elsewhere: map[string]string{},
		Freeze: k.Store.Freeze, Open: openCopies,
		Pin: func(file string) (backup.Pinned, error) { return sqlite.Pin(file) },
	}
	places, err := storagePlaces(ctx, k.Settings, k.Dir)
	if err != nil {
		return nil, err
	}
	for _, place := range places {
		if filepath.IsAbs(place) {
			if _, inside := below(k.Dir, place); !inside {
				s.Locations = append(s.Locations, backup.Location{Path: place, What: "storage location"})
			}
			place, _ = below(k.Dir, place)
		}
		if first, _, _ := strings.Cut(place, string(filepath.Separator)); first != "" && backup.Find(s.Entries, first) == nil {
			s.Entries = append(s.Entries, backup.Entry{Name: first, How: backup.Stored, Part: "storage"})
		}
	}
	for name, file := range map[string]string{
		"tokens": k.Settings.Tokens, "services.yaml": k.Settings.ComputeServices, "profiles": k.Settings.Profiles, "stagepost.yaml": k.Settings.Read,
	} {
		if err := addConfiguration(s, name, file); err != nil {
			return nil, err
		}
	}
	if k.Settings.MailPassword != "" {
		s.Locations = append(s.Locations, backup.Location{Path: k.Settings.MailPassword, What: "password of the mail server"})
	}
	return s, nil
}

// addConfiguration adds a file or directory that the settings name: as an entry if it lies in the data directory.
func addConfiguration(s *backup.Source, name, file string) error {
	if file == "" {
		return nil
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	inner, inside := below(s.Data, file)
	if first, _, _ := strings.Cut(inner, string(filepath.Separator)); inside {
		if backup.Find(s.Entries, first) == nil {
			s.Entries = append(s.Entries, backup.Entry{Name: first, How: backup.Linked})
		}
		return nil
	}
	if _, err := os.Stat(file); err == nil { // a missing one is no reason to make no backup
		s.Elsewhere[name] = file
	}
	return nil
}

// below gives the name of a path in a directory.
func below(dir, path string) (string, bool) {
	inner, err := filepath.Rel(dir, path)
	if err != nil || !filepath.IsLocal(inner) || inner == "." {
		return "", false
	}
	return inner, true
}

// storagePlaces names all storage locations: those of the profiles, and those that the inventory refers to.
func storagePlaces(ctx context.Context, s *Settings, data string) ([]string, error) {
	var places []string
	if profiles, err := OpenProfiles(s, data); err == nil { // else the inventory alone: health and the log name mistakes in profiles
		for _, id := range profiles.IDs() {
			if p, ok := profiles.Get(id); ok {
				places = append(places, p.Storage...)
			}
		}
	}
	file := filepath.Join(data, InventoryName)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return places, nil
	}
	db, err := OpenReading(file, "_pragma=query_only(1)&_pragma=busy_timeout(10000)")
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

// OpenReading opens a database for reading.
func OpenReading(file, options string) (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?"+options)
}

// copies are the databases of a set. Nobody writes to them.
type copies struct{ store, inventory *sql.DB }

// openCopies opens the copied databases; the inventory may be missing.
func openCopies(dir string) (backup.Databases, error) {
	var c copies
	var err error
	if c.store, err = OpenReading(filepath.Join(dir, StoreFile), "mode=ro&immutable=1"); err != nil {
		return nil, err
	}
	if _, none := os.Stat(filepath.Join(dir, InventoryName)); none == nil {
		if c.inventory, err = OpenReading(filepath.Join(dir, InventoryName), "mode=ro&immutable=1"); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// Knows is part of backup.Databases: jobs make versions, and the inventory knows those whose records were purged. A job whose record
// names no object yet did not make the version before the moment of the backup: it will choose an identifier anew.
func (c copies) Knows(maker string) (bool, error) {
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
	all := map[string]int{}
	note := func(db *sql.DB, name, query string) {
		var n int
		if db != nil && db.QueryRow(query).Scan(&n) == nil {
			all[name] = n
		}
	}
	note(c.store, StoreFile, "SELECT max(version) FROM schema_version")
	note(c.inventory, InventoryName, "PRAGMA user_version")
	return all
}

// Close is part of backup.Databases.
func (c copies) Close() error {
	err := c.store.Close()
	if c.inventory != nil {
		err = errors.Join(err, c.inventory.Close())
	}
	return err
}

// SetReader says what this program knows of sets.
func SetReader() backup.Reader {
	return backup.Reader{
		Schemas: map[string]int{StoreFile: sqlite.Schema(), InventoryName: inventory.Schema()}, Describe: describeDatabase,
	}
}

// describeDatabase says what a database is that is not the one of its set.
func describeDatabase(file string, m *backup.Manifest) string {
	db, err := OpenReading(file, "mode=ro&immutable=1")
	if err != nil {
		return ""
	}
	defer db.Close()
	var id string
	if db.QueryRow("SELECT id FROM installation").Scan(&id) == nil && id != m.Installation {
		return "it is of the installation " + id + ", the backup is of " + m.Installation
	}
	var sound string
	if db.QueryRow("PRAGMA quick_check(1)").Scan(&sound) == nil && sound == "ok" {
		return cmp.Or(map[bool]string{true: "it is a database of another moment"}[id != "" || filepath.Base(file) == InventoryName], "it is another database")
	}
	return ""
}
