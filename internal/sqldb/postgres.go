package sqldb

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/stagepost/stagepost/internal/pg"
)

// Options of [Open]. The zero value works.
type Options struct {
	Connections int           // that read; zero: 4. One more writes.
	Patience    time.Duration // how long calls are tried again while the database cannot be reached; zero: 30 s
	Timeout     time.Duration // how long a connection that writes may be silent; zero: 30 s
}

func (o *Options) defaults() {
	if o.Connections <= 0 {
		o.Connections = 4
	}
	if o.Patience <= 0 {
		o.Patience = 30 * time.Second
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
}

const (
	firstPause     = 5 * time.Millisecond
	connectTimeout = 10 * time.Second
	readTimeout    = 10 * time.Minute    // of an answer; a check of all rows can take long
	oldWriter      = 30 * 24 * time.Hour // after its last transaction a server is forgotten
)

// lockClass is the class of the advisory locks of schemas. Those of store/postgres differ.
const lockClass = 0x53510001

// Shared is a schema of a PostgreSQL database that servers share. It is safe for concurrent use.
type Shared struct {
	Read *sql.DB // for reading; a read whose connection is lost is repeated

	write   *sql.DB // one connection
	options Options
	lock    int32  // number of the advisory lock
	writer  string // id of this server's row in the table writers

	turn chan struct{} // full while a call writes
	seq  int64         // number of the newest transaction; used by the call that has the turn

	afterFailure func() // for tests: called after each attempt that failed
}

// Open opens a schema in a database, given by a connection string or URL as libpq defines them, and creates or upgrades
// it. Several servers may open it at the same time.
func Open(ctx context.Context, database string, schema Schema, o Options) (*Shared, error) {
	o.defaults()
	s := &Shared{options: o, lock: lockOf(schema.Name), writer: rand.Text(), turn: make(chan struct{}, 1)}
	if err := s.open(ctx, database, schema); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Shared) open(ctx context.Context, database string, schema Schema) error {
	upgrading, err := configure(database, schema.Name, readTimeout)
	if err != nil {
		return err
	}
	upgrade := func() error { return upgradeShared(ctx, upgrading, schema, s.lock) }
	if err := pg.Repeat(ctx, s.options.Patience, upgrade); err != nil {
		return fmt.Errorf("schema %s: %w", schema.Name, unavailable(err))
	}
	var known statements
	writing, err := configure(database, schema.Name, s.options.Timeout)
	if err != nil {
		return err
	}
	reading, err := configure(database, schema.Name, readTimeout)
	if err != nil {
		return err
	}
	s.write = sql.OpenDB(&connector{known: &known,
		inner: stdlib.GetConnector(*writing, stdlib.OptionAfterConnect(synced))})
	s.write.SetMaxOpenConns(1)
	s.Read = sql.OpenDB(&connector{known: &known, inner: stdlib.GetConnector(*reading), reads: true,
		patient: s.options.Patience})
	s.Read.SetMaxOpenConns(s.options.Connections)
	s.Read.SetMaxIdleConns(s.options.Connections)
	return nil
}

// Exists reports whether a database has a schema that [Open] made.
func Exists(ctx context.Context, database, schema string) (exists bool, err error) {
	config, err := configure(database, schema, readTimeout)
	if err != nil {
		return false, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, unavailable(err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	err = conn.QueryRow(ctx, "SELECT to_regclass($1 || '.schema_version') IS NOT NULL", schema).Scan(&exists)
	return exists, err
}

// lockOf gives the number of the advisory lock of a schema.
func lockOf(schema string) int32 {
	h := fnv.New32a()
	_, _ = io.WriteString(h, schema)
	return int32(h.Sum32())
}

// configure gives the settings of connections that work in a schema.
func configure(database, schema string, silent time.Duration) (*pgx.ConnConfig, error) {
	c, err := pgx.ParseConfig(database)
	if err != nil {
		return nil, fmt.Errorf("the connection string: %w", err)
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	c.RuntimeParams["application_name"], c.RuntimeParams["timezone"] = schema, "UTC"
	// not parameters of the start of a connection: poolers refuse or ignore others than a few
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		return conn.Exec(ctx, "SET search_path = "+schema+"; SET lock_timeout = '20s'; "+
			"SET idle_in_transaction_session_timeout = '15s'; "+
			// statements read few rows: compilation and the start of a worker take longer than most of them
			"SET jit = off; SET max_parallel_workers_per_gather = 0").Close()
	}
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		inner, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &bounded{Conn: inner, silent: silent}, nil
	}
	return c, nil
}

// synced lets the commits of a connection wait until they are on disk, where the server's default is that they do not.
func synced(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false)
		WHERE current_setting('synchronous_commit') = 'off'`)
	return err
}

// bounded is a connection that is closed when it is silent for too long: a network that lost it reports nothing.
type bounded struct {
	net.Conn
	silent time.Duration
}

func (b *bounded) Read(p []byte) (int, error) {
	defer time.AfterFunc(b.silent, b.cut).Stop()
	return b.Conn.Read(p)
}

func (b *bounded) Write(p []byte) (int, error) {
	defer time.AfterFunc(b.silent, b.cut).Stop()
	return b.Conn.Write(p)
}

func (b *bounded) cut() { _ = b.Conn.Close() }

// Close closes the connections.
func (s *Shared) Close() error {
	var errs []error
	for _, db := range []*sql.DB{s.Read, s.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}
