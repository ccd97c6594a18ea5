package postgres

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Installation returns the id of the installation: 26 random characters, created when a database is opened for the
// first time and never changed. All servers of a database have the same.
func (s *Store) Installation() string { return s.installation }

// identify reads the id of the installation, and creates it if there is none.
func identify(ctx context.Context, conn *pgx.Conn) (id string, err error) {
	_, err = conn.Exec(ctx, "INSERT INTO installation VALUES (1, $1, $2) ON CONFLICT DO NOTHING",
		strings.ToLower(rand.Text()), time.Now().UTC().Format(time.RFC3339))
	if err == nil {
		err = conn.QueryRow(ctx, "SELECT id FROM installation").Scan(&id)
	}
	return id, err
}

// Files returns the id of the directory with the files that the records refer to, or "" if none was registered.
func (s *Store) Files(ctx context.Context) (id string, err error) {
	err = s.read(ctx, "files", "", func(r *reader) error {
		return r.q.QueryRow(r.ctx, "SELECT files FROM installation").Scan(&id)
	})
	return id, err
}

// RegisterFiles registers the id of a directory, unless another one was registered before. It returns the registered
// id.
func (s *Store) RegisterFiles(ctx context.Context, id string) (registered string, err error) {
	if _, err := s.pool.Exec(ctx, "UPDATE installation SET files = $1 WHERE files = ''", id); err != nil {
		return "", wrapped("register", err)
	}
	return s.Files(ctx)
}

// SetFiles replaces the id of the directory. No server may use the store.
func (s *Store) SetFiles(ctx context.Context, id string) error {
	return s.exclusively(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE installation SET files = $1", id)
		return err
	})
}

// Failures returns after how many errors operations were tried again.
func (s *Store) Failures() int64 { return s.failures.Load() }

// Connections returns how many connections to the database read now, and how many may. Three more write and listen.
func (s *Store) Connections() (used, most int) {
	stat := s.pool.Stat()
	return int(stat.AcquiredConns()), int(stat.MaxConns())
}
