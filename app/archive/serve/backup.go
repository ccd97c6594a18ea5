package archiveserve

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/stagepost/stagepost/app/archive/catalog"
	archiveconfig "github.com/stagepost/stagepost/app/archive/config"
	"github.com/stagepost/stagepost/backup"
	"github.com/stagepost/stagepost/module"
)

// DirName is the directory of the application in the data directory.
const DirName = "archive"

// Data are the entries of the application in the data directory.
func Data() []backup.Entry {
	return []backup.Entry{
		{Name: catalog.Name, How: backup.Database, What: "which archives are where, their time stamps and events"},
		{Name: catalog.Name + "-*", How: backup.Left, What: "SQLite's log of `archive.db`",
			Reason: "the copy of the database contains it"},
		{Name: "archive.head*", How: backup.Left, What: "what the newest write of `archive.db` is",
			Reason: "a restored directory gets another one"},
		{Name: ConfigName, How: backup.Linked,
			What: "sources, storage locations and presets of archives, unless `archive.config` names another file"},
		{Name: DirName, How: backup.Linked,
			What: "working files of archive jobs, PDF files, and orders of Moodles with their tokens"},
	}
}

// Storage names the storage locations and the configuration.
func (s *Settings) Storage(_ context.Context, dir string) (module.Storage, error) {
	all := module.Storage{Files: map[string]string{ConfigName: s.Config}}
	c, err := archiveconfig.Load(s.File(dir))
	if err != nil { // there is none, or the server names the mistakes in it
		return all, nil
	}
	all.Locations, all.Stores = c.Roots(), c.Directories()
	for _, file := range c.SecretFiles() {
		if inner, err := filepath.Rel(dir, file); err != nil || !filepath.IsLocal(inner) {
			all.Outside = append(all.Outside, backup.Location{Path: file, What: "secret of the archive configuration"})
		}
	}
	for name, l := range c.Locations {
		switch {
		case l.S3 != nil:
			all.Outside = append(all.Outside, backup.Location{
				Path: "s3://" + l.S3.Endpoint + "/" + l.S3.Bucket, What: "archive location " + name})
		case l.SFTP != nil:
			all.Outside = append(all.Outside, backup.Location{
				Path: "sftp://" + l.SFTP.Address + l.SFTP.Dir, What: "archive location " + name})
		}
	}
	return all, nil
}

// databases is the copied catalog of a set. It does not change.
type databases struct{ catalog *sql.DB }

// OpenCopies opens the copied catalog; nil: the set has none.
func OpenCopies(dir string) (backup.Databases, error) {
	file := filepath.Join(dir, catalog.Name)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?mode=ro&immutable=1")
	if err != nil {
		return nil, err
	}
	return databases{db}, nil
}

// Has is part of [backup.Databases]: archive jobs make versions of objects.
func (d databases) Has(maker string) (bool, error) {
	var n int
	err := d.catalog.QueryRow("SELECT count(*) FROM archives WHERE job = ?", maker).Scan(&n)
	return n > 0, err
}

// Schemas is part of [backup.Databases].
func (d databases) Schemas() map[string]int {
	var n int
	if d.catalog.QueryRow("PRAGMA user_version").Scan(&n) != nil {
		return nil
	}
	return map[string]int{catalog.Name: n}
}

// Close is part of [backup.Databases].
func (d databases) Close() error { return d.catalog.Close() }
