package host

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/stagepost/stagepost/backup"
	"github.com/stagepost/stagepost/host/stores"
	"github.com/stagepost/stagepost/internal/build"
	"github.com/stagepost/stagepost/store/sqlite"
)

// source returns what a backup of the data directory contains, with or without a server on it.
func (d *Maintenance) source(ctx context.Context) (*backup.Source, error) {
	s := &backup.Source{
		Data: d.Dir, Entries: d.Settings.DurableData(), Installation: d.Store.Installation, Version: build.Version(),
		Elsewhere: map[string]string{},
		Freeze:    d.Store.Freeze, Open: d.Settings.openCopies,
		Pin: func(file string) (backup.Pinned, error) { return sqlite.Pin(file) },
	}
	files := map[string]string{"tokens": d.Settings.Tokens, "stagepost.yaml": d.Settings.Read}
	for _, m := range d.Settings.Modules {
		if m.Storage == nil {
			continue
		}
		has, err := m.Storage(ctx, d.Dir)
		if err != nil {
			return nil, err
		}
		for _, location := range has.Locations {
			addLocation(s, location, backup.Stored)
		}
		for _, location := range has.Stores {
			addLocation(s, location, backup.Linked)
		}
		maps.Copy(files, has.Files)
		s.Locations = append(s.Locations, has.Outside...)
	}
	if d.Settings.MailPassword != "" {
		s.Locations = append(s.Locations,
			backup.Location{Path: d.Settings.MailPassword, What: "password of the mail server"})
	}
	for name, file := range files {
		if err := addConfiguration(s, name, file); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// addLocation adds a storage location: as an entry if it is in the data directory.
func addLocation(s *backup.Source, location string, how backup.How) {
	if filepath.IsAbs(location) {
		inner, inside := below(s.Data, location)
		if !inside {
			s.Locations = append(s.Locations, backup.Location{Path: location, What: "storage location"})
		}
		location = inner
	}
	if first, _, _ := strings.Cut(location, string(filepath.Separator)); first != "" &&
		backup.Find(s.Entries, first) == nil {
		s.Entries = append(s.Entries, backup.Entry{Name: first, How: how, Part: "storage"})
	}
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

// OpenReading opens a database for reading.
func OpenReading(file, options string) (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?"+options)
}

// copies are the databases of a set: the store, and those of the modules.
type copies struct {
	store *sql.DB
	of    []backup.Databases
}

// openCopies opens the copied databases.
func (s *Settings) openCopies(dir string) (backup.Databases, error) {
	var c copies
	var err error
	if c.store, err = OpenReading(filepath.Join(dir, stores.SQLiteFile), "mode=ro&immutable=1"); err != nil {
		return nil, err
	}
	for _, m := range s.Modules {
		if m.Copies == nil {
			continue
		}
		of, err := m.Copies(dir)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		if of != nil {
			c.of = append(c.of, of)
		}
	}
	return c, nil
}

// Has is part of backup.Databases.
func (c copies) Has(maker string) (bool, error) {
	for _, of := range c.of {
		if known, err := of.Has(maker); known || err != nil {
			return known, err
		}
	}
	return false, nil
}

// Schemas is part of backup.Databases.
func (c copies) Schemas() map[string]int {
	all := map[string]int{}
	var n int
	if c.store.QueryRow("SELECT max(version) FROM schema_version").Scan(&n) == nil {
		all[stores.SQLiteFile] = n
	}
	for _, of := range c.of {
		maps.Copy(all, of.Schemas())
	}
	return all
}

// Close is part of backup.Databases.
func (c copies) Close() error {
	err := c.store.Close()
	for _, of := range c.of {
		err = errors.Join(err, of.Close())
	}
	return err
}

// SetReader returns how this program reads backups.
func (s *Settings) SetReader() backup.Reader {
	r := backup.Reader{Schemas: map[string]int{stores.SQLiteFile: sqlite.Schema()}}
	for _, m := range s.Modules {
		maps.Copy(r.Schemas, m.Schemas)
	}
	r.Describe = func(file string, of *backup.Manifest) string { return describeDatabase(file, of, r.Schemas) }
	return r
}

// describeDatabase describes a database that is not the one that its backup was made with.
func describeDatabase(file string, m *backup.Manifest, schemas map[string]int) string {
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
		return cmp.Or(map[bool]string{true: "it is a database of another moment"}[id != "" ||
			schemas[filepath.Base(file)] > 0], "it is another database")
	}
	return ""
}
