package stores

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/edge/disk"
	"github.com/stagepost/stagepost/internal/dirowner"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/sqlite"
)

// SQLiteFile is the database of a store of kind sqlite in the data directory.
const SQLiteFile = "stagepost.db"

func openSQLite(_ context.Context, o *Options) (*Store, error) {
	_, missing := os.Stat(filepath.Join(o.Dir, SQLiteFile))
	if missing != nil && o.Existing {
		return nil, job.Errorf(job.NotFound, cli.NoStore, "", "there is no store in %s", o.Dir)
	}
	if id, err := readID(filepath.Join(o.Dir, FilesName)); err != nil || id != "" && !o.Migrates {
		if err == nil && missing == nil {
			err = sqlite.Unfinished(o.Dir)
		}
		if err == nil {
			err = job.Errorf(job.Refused, "open", "", "the jobs whose files are in %s are in another store (%s): "+
				"name it with the setting store", o.Dir, FilesName)
		}
		return nil, err
	}
	s, err := sqlite.Open(o.Dir, sqlite.Options{OnLock: o.OnLock, OnCommit: o.OnCommit, OnDamage: o.OnDamage,
		Space: disk.Space, NoLog: o.NoLog || o.Migrates, Migrates: o.Migrates})
	if err != nil {
		return nil, runs(err)
	}
	store := OfSQLite(s)
	if o.Migrates {
		store.Content = s.Content()
	}
	return store, nil
}

// runs adds to the error of a directory that a process has that this is a server.
func runs(err error) error {
	var used *dirowner.InUse
	if errors.As(err, &used) && used.Process["address"] != "" {
		return fmt.Errorf("another server runs on this data directory: %w", err)
	}
	return err
}

// OfSQLite returns an open store of package sqlite.
func OfSQLite(s *sqlite.Store) *Store {
	return &Store{Jobs: s, Closer: s, Installation: s.Installation(), Waiting: s.Waiting, Full: s.Full,
		Writable: s.Writable, Dead: s.Dead(), Verify: s.Verify, Histories: s, Named: s, Freeze: s.Freeze,
		Fsck: func(ctx context.Context, lives Lives, repair bool) (client.Checkup, error) {
			r, err := s.Fsck(ctx, lives, repair)
			return checkup(&r), err
		}}
}

// checkup is a report for the API.
func checkup(r *sqlite.Report) client.Checkup {
	c := client.Checkup{Jobs: int(r.Jobs), Entries: int(r.Events), Faults: []string{}, Sound: r.Clean()}
	for _, f := range r.Faults {
		c.Faults = append(c.Faults, f.String())
		if f.Repaired {
			c.Repaired++
		}
	}
	if r.More > 0 {
		c.Faults = append(c.Faults, fmt.Sprintf("and %d more", r.More))
	}
	return c
}

func openMem(_ context.Context, o *Options) (*Store, error) {
	if o.Existing {
		return nil, job.Errorf(job.NotFound, cli.NoStore, "", "a store in memory ends with its server")
	}
	return &Store{Jobs: mem.New()}, o.locked()
}
