package archiveserve

import (
	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/backup"
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
