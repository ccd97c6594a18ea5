package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// template is the folder beside those of the measurements that has a new database cluster, which each of them copies.
const template = "postgres-template"

// postgresPrograms returns the folder of initdb and postgres: of the highest version that Debian's packages installed,
// or on the path.
func postgresPrograms() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	slices.Sort(found)
	slices.Reverse(found)
	if path, err := exec.LookPath("postgres"); err == nil {
		found = append(found, filepath.Dir(path))
	}
	for _, dir := range found {
		_, err1 := os.Stat(filepath.Join(dir, "initdb"))
		_, err2 := os.Stat(filepath.Join(dir, "postgres"))
		if err1 == nil && err2 == nil {
			return dir, nil
		}
	}
	return "", errors.New("PostgreSQL is not installed (apt-get install postgresql)")
}

// initPostgres makes the template in dir.
func initPostgres(ctx context.Context, dir string) error {
	bin, err := postgresPrograms()
	if err != nil {
		return err
	}
	as, err := unprivileged()
	if err != nil {
		return err
	}
	data := filepath.Join(dir, template)
	if err := mkdirAs(data, as); err != nil {
		return err
	}
	c := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "market", "-A", "trust", "-E", "UTF8",
		"--locale=C", "--no-instructions")
	c.Dir = data
	c.SysProcAttr = &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGKILL}
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

func mkdirAs(dir string, as *syscall.Credential) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if as == nil {
		return nil
	}
	return os.Chown(dir, int(as.Uid), int(as.Gid))
}

// database is a running PostgreSQL with a pool of connections to it.
type database struct {
	server *daemon
	pool   *pgxpool.Pool
}

// poolSize is the number of connections for that many callers. More than this made every system slower on two cores.
func poolSize(callers int) int { return min(callers+4, 40) }

// durable are settings of PostgreSQL that make a commit durable before it is acknowledged: all are its defaults. The
// rest of its settings are its defaults too, but for its memory.
var durable = map[string]string{"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}

// openPostgres starts PostgreSQL on a copy of the template, which lies beside dir.
func openPostgres(ctx context.Context, dir string, connections int) (*database, error) {
	bin, err := postgresPrograms()
	if err != nil {
		return nil, err
	}
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	if as != nil {
		if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
			return nil, err
		}
	}
	data := filepath.Join(dir, "data")
	from := filepath.Join(filepath.Dir(dir), template)
	if out, err := exec.CommandContext(ctx, "cp", "-a", from, data).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cp: %w: %s", err, out)
	}
	args := []string{"-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "max_connections=100",
		"-c", "shared_buffers=512MB"}
	for name, value := range durable {
		args = append(args, "-c", name+"="+value)
	}
	d := &database{}
	// SIGINT: sessions are ended, the data is written, the server ends
	if d.server, err = startServer(dir, syscall.SIGINT, as, filepath.Join(bin, "postgres"), args...); err != nil {
		return nil, err
	}
	if err := d.connect(ctx, dir, connections); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *database) connect(ctx context.Context, dir string, connections int) error {
	config, err := pgxpool.ParseConfig(databaseOf(dir))
	if err != nil {
		return err
	}
	config.MaxConns = int32(connections)
	if d.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	if err := d.server.ready(ctx, d.pool.Ping); err != nil {
		return err
	}
	for name, want := range durable {
		var got string
		if err := d.pool.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&got); err != nil || got != want {
			return fmt.Errorf("PostgreSQL has %s=%s, want %s: %w", name, got, want, err)
		}
	}
	return nil
}

func (d *database) close() error {
	if d.pool != nil {
		d.pool.Close()
	}
	return d.server.stop()
}

// barePostgres writes for each commit what a transition writes, in one transaction of one round trip.
type barePostgres struct {
	*database
	begin func()
}

func openBarePostgres(ctx context.Context, s setting) (peer, error) {
	d, err := openPostgres(ctx, s.dir, poolSize(s.callers))
	if err != nil {
		return nil, err
	}
	_, err = d.pool.Exec(ctx, `
CREATE TABLE job (id bigint PRIMARY KEY, state int NOT NULL, version int NOT NULL, head bytea NOT NULL,
  spec text NOT NULL, changed timestamptz NOT NULL) WITH (fillfactor = 50);
CREATE TABLE event (job bigint NOT NULL, seq int NOT NULL, state int NOT NULL, at timestamptz NOT NULL,
  PRIMARY KEY (job, seq))`)
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return barePostgres{d, s.begin}, nil
}

const (
	bareInsert = `WITH made AS (INSERT INTO job VALUES ($1, 0, 1, $2, $3, now()))
INSERT INTO event VALUES ($1, 0, 0, now())`
	bareUpdate = `WITH moved AS (UPDATE job SET state = $2, version = version + 1, head = $3, changed = now()
  WHERE id = $1) INSERT INTO event VALUES ($1, $2, $2, now())`
)

func (b barePostgres) do(ctx context.Context, i int64) error {
	b.begin()
	return b.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error { return bareCommits(ctx, c.Conn(), i) })
}

func bareCommits(ctx context.Context, c *pgx.Conn, i int64) error {
	head := make([]byte, 32)
	if _, err := c.Exec(ctx, bareInsert, i, head, payload); err != nil {
		return err
	}
	for state := 1; state <= steps+1; state++ {
		if _, err := c.Exec(ctx, bareUpdate, i, state, head); err != nil {
			return err
		}
	}
	return nil
}
