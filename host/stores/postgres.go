package stores

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/internal/dirowner"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/postgres"
	"github.com/stagepost/stagepost/store/sqlite"
)

// instead is how a store in PostgreSQL is backed up.
const instead = "the jobs are in PostgreSQL: back up its database first (pg_dump, or replication), then copy the " +
	"directory of the setting shared (docs/operating.md, Several servers)"

func openPostgres(ctx context.Context, o *Options) (_ *Store, err error) {
	where, err := Address(o)
	if err != nil {
		return nil, err
	}
	var open closers
	defer func() {
		if err != nil {
			err = errors.Join(err, open.Close())
		}
	}()
	if !o.Existing && !o.Migrates {
		if err := unmixed(o.Dir); err != nil {
			return nil, err
		}
		own, err := dirowner.Take(o.Dir, o.OnLock)
		if err != nil {
			return nil, runs(err)
		}
		open = append(open, own)
	}
	s, err := postgres.Open(ctx, where, postgres.Options{Name: o.Name, OnFailure: o.OnFailure,
		Patience: o.Patience, Connections: o.Connections, Migrates: o.Migrates, ReadOnly: o.ReadOnly})
	switch {
	case job.KindOf(err) == job.Unavailable:
		return nil, fmt.Errorf("the database %s of the setting store cannot be reached: start its server, or correct "+
			"the setting: %w", Location(where), err)
	case err != nil:
		return nil, fmt.Errorf("the setting store (%s): %w", Location(where), err)
	}
	open = append(open, s)
	if o.Migrates {
		return &Store{Jobs: s, Closer: open, Content: s.Content(), Files: s.Files, SetFiles: s.SetFiles,
			Postgres: where, Location: Location(where)}, nil
	}
	if err := sameFiles(ctx, o, s); err != nil {
		return nil, err
	}
	return &Store{
		Jobs: s, Closer: open, Installation: s.Installation(), Postgres: where, Location: Location(where),
		Leads: s.Leads, Leader: s.Leader, Presence: s,
		Histories: s, Named: named{s}, Verify: s.Verify, Retries: s.Failures, Fault: s.Fault,
		Connections: s.Connections, Instead: instead,
	}, nil
}

// Address is the URL of the database of a store in PostgreSQL, with the password.
func Address(o *Options) (string, error) {
	u, err := url.Parse(o.Where)
	if err != nil {
		return "", cli.Usagef("store: the URL of the database cannot be read: write postgres://USER@HOST/DATABASE")
	}
	if u.Query().Has("password") {
		return "", cli.Usagef("store: the password is not a parameter of the URL: name its file with " +
			"store.password_file")
	}
	if o.Password == "" {
		return o.Where, nil
	}
	if _, given := u.User.Password(); given {
		return "", cli.Usagef("store: the URL has a password, and so has store.password_file: remove one of them")
	}
	u.User = url.UserPassword(u.User.Username(), o.Password)
	return u.String(), nil
}

// Location names the database of a URL to people.
func Location(where string) string {
	u, err := url.Parse(where)
	if err != nil {
		return ""
	}
	host := u.Host
	if host == "" {
		host = u.Query().Get("host")
	}
	return strings.TrimPrefix(u.Path, "/") + " on " + cmp.Or(host, "this machine")
}

// unmixed refuses a data directory that has jobs in a database of its own, unless another store has them: they were
// migrated, or a migration to the directory has not finished.
func unmixed(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, SQLiteFile)); err != nil {
		return nil
	}
	moved, err := sqlite.Moved(dir)
	if err == nil && !moved {
		err = job.Errorf(job.Refused, "open", "", "%s has a store of its own (%s): start without --store, name an "+
			"empty data directory with --data, or copy its jobs with stagepost migrate", dir, SQLiteFile)
	}
	return err
}

// closers are what an open store closes, the last first.
type closers []io.Closer

// Close closes all.
func (all closers) Close() (err error) {
	for i := len(all) - 1; i >= 0; i-- {
		err = errors.Join(err, all[i].Close())
	}
	return err
}

// leaderPatience is how long the query for the leader may take.
const leaderPatience = time.Second

// Lead returns the name of the server that leads, as people read it.
func (s *Store) Lead(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, leaderPatience)
	defer cancel()
	name, leads, err := s.Leader(ctx)
	switch {
	case err != nil:
		return "not known: the database does not answer"
	case !leads:
		return "none at this moment"
	}
	return name
}

// named finds jobs by what people write of an id.
type named struct{ *postgres.Store }

// mostIDs is how many jobs one part of an id finds.
const mostIDs = 100

// IDs is part of cli.JobStore.
func (n named) IDs(ctx context.Context, part string) (ids []job.ID, err error) {
	jobs, err := n.Named(ctx, part, "", mostIDs)
	for i := range jobs {
		ids = append(ids, jobs[i].ID)
	}
	return ids, err
}
