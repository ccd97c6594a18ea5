package archiveserve

import (
	"context"
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
		{Name: DirName, How: backup.Linked, What: "working files of archive jobs"},
	}
}

// Storage names the storage locations and the configuration.
func (s *Settings) Storage(_ context.Context, dir string) (module.Storage, error) {
	all := module.Storage{Files: map[string]string{ConfigName: s.Config}}
	c, err := archiveconfig.Load(s.File(dir))
	if err != nil { // there is none, or the server names the mistakes in it
		return all, nil
	}
	all.Locations = c.Directories()
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
