package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/internal/transfer"
	"github.com/stagepost/stagepost/job"
)

// admit lets a server use the database, or a migration if no server does.
func (s *Store) admit(ctx context.Context, conn *pgx.Conn) error {
	if !s.options.Migrates {
		if err := s.refuseMarked(ctx, conn); err != nil {
			return err
		}
		return s.share(ctx, conn)
	}
	alone, err := lockWithin(ctx, conn, "pg_advisory_lock", aloneWithin)
	if err != nil {
		return err
	}
	if !alone {
		return s.used(ctx, conn)
	}
	s.alone = conn
	return nil
}

// A connection that was closed keeps its locks for some milliseconds, until the database server notices. Servers wait
// longer than a migration, whose wait refuses them.
const (
	aloneWithin = time.Second
	shareWithin = 2 * time.Second
)

// share takes the lock of servers as long as the connection lasts. A migration has it alone.
func (s *Store) share(ctx context.Context, conn *pgx.Conn) error {
	shared, err := lockWithin(ctx, conn, "pg_advisory_lock_shared", shareWithin)
	if err == nil && !shared {
		err = job.Errorf(job.Refused, "open", "", "a stagepost migrate is using the database: start when it has "+
			"finished")
	}
	return err
}

// lockWithin takes the lock of servers by a function of PostgreSQL. It returns false if others have the lock for
// longer.
func lockWithin(ctx context.Context, conn *pgx.Conn, function string, within time.Duration) (locked bool, err error) {
	if err := set(ctx, conn, []string{fmt.Sprintf("SET lock_timeout = %d", within.Milliseconds())}); err != nil {
		return false, err
	}
	_, err = conn.Exec(ctx, "SELECT "+function+"($1, 0)", int32(lockServers))
	if locked = err == nil; !locked && pg.State(err) != pg.LockNotAvailable {
		return false, err
	}
	return locked, set(ctx, conn, []string{"RESET lock_timeout"})
}

// selectServers are the application names of the connections that have the lock of servers.
const selectServers = `SELECT DISTINCT application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid)
 WHERE l.locktype = 'advisory' AND l.classid = $1 AND l.objid = 0 AND l.granted
 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY 1`

// used is the refusal that names the servers that use the database.
func (s *Store) used(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, selectServers, int64(lockServers))
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for i := range names {
		names[i] = serverOf(names[i])
	}
	if len(names) == 0 {
		names = []string{"a server that has just stopped"}
	}
	return job.Errorf(job.Refused, "open", "", "the database is in use by %s: stop all servers on it, then repeat",
		strings.Join(names, ", "))
}

// serverOf is the name of the server in an application name.
func serverOf(application string) string {
	inner := strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(application, "stagepost"), listenerName))
	if inner == "" {
		return "a server without a name"
	}
	return inner
}

// refuseMarked refuses a store of a migration.
func (s *Store) refuseMarked(ctx context.Context, conn *pgx.Conn) error {
	if s.options.Migrates {
		return nil
	}
	m, err := markOf(ctx, conn)
	if err == nil {
		err = m.Refuse("database " + conn.Config().Database)
	}
	return err
}

func markOf(ctx context.Context, conn querier) (m transfer.Mark, err error) {
	var at int64
	err = conn.QueryRow(ctx, "SELECT state, other, at FROM migration").Scan((*string)(&m.State), &m.Other, &at)
	if errors.Is(err, pgx.ErrNoRows) {
		return transfer.Mark{}, nil
	}
	m.At = moment(at)
	return m, err
}

// setMark also ends the writers of servers that had the database open before: they find no row of theirs, and then the
// mark; see resolve.
func (s *Store) setMark(ctx context.Context, m transfer.Mark) error {
	return s.exclusively(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "DELETE FROM writer WHERE id <> $1", s.id); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM migration")
		if err == nil && m.State != transfer.Free {
			_, err = tx.Exec(ctx, "INSERT INTO migration VALUES (1, $1, $2, $3)", string(m.State), m.Other, micro(m.At))
		}
		return err
	})
}

// exclusively runs a transaction that is tried once, if this migration still has the database alone.
func (s *Store) exclusively(ctx context.Context, do func(tx pgx.Tx) error) error {
	err := s.stillAlone(ctx)
	if err == nil {
		err = pgx.BeginFunc(ctx, s.pool, do)
	}
	return wrapped("migrate", err)
}

// stillAlone fails if the connection with the lock was lost, and with it the lock.
func (s *Store) stillAlone(ctx context.Context) error {
	if s.alone == nil {
		return job.Errorf(job.Internal, "migrate", "", "the store was not opened for a migration")
	}
	return s.alone.Ping(ctx)
}
