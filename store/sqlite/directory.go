package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

const (
	database = "stagepost.db"
	marker   = "has-data"
	restore  = "restoring" // a restore into the directory has not ended
)

// prepareDir creates the directory and an empty database file, both for this user only. It refuses a directory whose
// database is missing: an empty start would silently drop every job.
func prepareDir(dir string) error {
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return &job.Error{Op: "open", Kind: job.Unavailable, Err: err}
	}
	if _, err := os.Stat(filepath.Join(dir, restore)); err == nil {
		return job.Errorf(job.Internal,
			"open", "", "%s is incomplete: a restore into it has not ended; if no restore is running, remove the "+
				"directory and"+
				" restore again (stagepost admin restore BACKUP --data DIR)", dir)
	}
	file := filepath.Join(dir, database)
	info, err := os.Stat(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &job.Error{Op: "open", Kind: job.Unavailable, Err: err}
	}
	there := err == nil && info.Size() > 0
	if there {
		return nil
	}
	for _, name := range []string{marker, headName, logName} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return job.Errorf(job.Internal, "open", "",
				"%s is missing or empty, but %s shows that it existed: restore it from a backup,"+
					" or remove %s, %s and %s to begin without any jobs", file, filepath.Join(dir, name), marker,
				headName, logName)
		}
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return &job.Error{Op: "open", Kind: job.Unavailable, Err: err}
	}
	return f.Close()
}

// mark records that the directory has a database. It is called once the database has its tables, and may be called
// again.
func mark(dir string) error {
	name := filepath.Join(dir, marker)
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	err := os.WriteFile(name,
		[]byte("This directory holds a database of Stagepost. If it is lost, Stagepost does not start without it.\n"),
		0o600)
	if err != nil {
		return err
	}
	return errors.Join(durable.Sync(name), durable.Sync(dir))
}
