package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/watchers"
)

// Store is a job.Store in a PostgreSQL database. Call Open.
type Store struct {
	options Options
	config  *pgxpool.Config
	pool    *pgxpool.Pool // of connections that read
	id      [16]byte      // of the writer
	slot    int16         // of its tallies

	operations chan *operation
	closing    chan struct{} // closed when the store is to be closed
	closed     chan struct{} // closed when the writer has ended
	once       sync.Once
	background sync.WaitGroup
	stop       context.CancelFunc

	installation     string
	alone            *pgx.Conn // has the lock of all servers; nil: the store is shared
	failures         atomic.Int64
	refuses          atomic.Bool // the last transaction failed because the database accepts no writes
	touched, visited atomic.Int64
	leads            atomic.Bool
	others           atomic.Bool // there may be other servers
	names            sync.Map    // counters that exist
	recent           recent
	memory           memory
	watchers         watchers.List

	mu       sync.Mutex // guards all below
	given    map[job.KindState]int
	outgoing []job.Hint // to be announced to other servers
	ready    chan struct{}

	// For tests.
	beforeFlush  func(*writer) // called before the writes of a transaction are sent
	writerDial   pgconn.DialFunc
	grouped      func(n int)   // called with the number of operations of a transaction
	counting     bool          // Touched counts what the database reads, not what it returns
	afterFailure func(*writer) // called after each attempt that failed
}

var (
	_ job.Store      = (*Store)(nil)
	_ job.ClockStore = (*Store)(nil)
)

// slots is the number of slots of tallies.
const slots = 16

// Open opens the store in a database: a connection string or URL, as libpq defines them. It creates or upgrades the
// schema. Several servers may open it at the same time.
func Open(ctx context.Context, database string, options Options) (*Store, error) {
	options.defaults()
	config, err := pgxpool.ParseConfig(database)
	if err != nil {
		return nil, job.Errorf(job.Invalid, "open", "", "the connection string: %w", err)
	}
	config.MaxConns = int32(options.Connections)
	config.ConnConfig.RuntimeParams["application_name"] = options.application("")
	config.ConnConfig.RuntimeParams["timezone"] = "UTC"
	config.ConnConfig.Tracer = options.tracer
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		pg.RegisterArrays(conn.TypeMap())
		return set(ctx, conn, planSettings)
	}
	s := &Store{options: options, config: config, operations: make(chan *operation, mostOperations),
		closing: make(chan struct{}), closed: make(chan struct{}), given: map[job.KindState]int{},
		ready: make(chan struct{}, 1)}
	if _, err := rand.Read(s.id[:]); err != nil {
		return nil, err
	}
	s.slot = int16(s.id[0]) % slots
	s.others.Store(true)
	if err := pg.Repeat(ctx, options.Patience, func() error { return s.begin(ctx) }); err != nil {
		return nil, wrapped("open", err)
	}
	if s.pool, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
		return nil, wrapped("open", err)
	}
	background, stop := context.WithCancel(context.Background())
	s.stop = stop
	if !options.Migrates {
		s.background.Go(func() { s.announcer(background) })
		s.background.Go(func() { s.listener(background) })
		s.background.Go(func() { s.tidier(background) })
	}
	go (&writer{s: s}).run()
	return s, nil
}

// begin checks the database, upgrades its schema and enters the writer. It may be repeated.
func (s *Store) begin(ctx context.Context) (err error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if s.alone == nil || err != nil {
			_ = conn.Close(ctx) // all is committed, or begin has failed
		}
	}()
	var fsync, encoding, reads string
	var standby bool
	const settings = `SELECT current_setting('fsync'), current_setting('server_encoding'),
 current_setting('transaction_read_only'), pg_is_in_recovery()`
	if err := conn.QueryRow(ctx, settings).Scan(&fsync, &encoding, &reads, &standby); err != nil {
		return err
	}
	if encoding != "UTF8" {
		return job.Errorf(job.Refused, "open", "", "the database has the encoding %s, in which texts would be "+
			"damaged: create it with the encoding UTF8 (createdb --template template0 --encoding UTF8)", encoding)
	}
	if fsync != "on" && !s.options.Unsynced {
		return job.Errorf(job.Refused, "open", "", "the database server has fsync = %s: it would lose acknowledged "+
			"changes in a power failure; set fsync = on in postgresql.conf", fsync)
	}
	if s.options.ReadOnly {
		if err := readable(ctx, conn); err != nil {
			return err
		}
		return s.admit(ctx, conn)
	}
	switch {
	case standby:
		return job.Errorf(job.Refused, "open", "", "the database server is a standby, which accepts no writes: name "+
			"the primary, or all servers and target_session_attrs=read-write")
	case reads == "on":
		return job.Errorf(job.Refused, "open", "", "the database has default_transaction_read_only = on and accepts "+
			"no writes: set it to off (ALTER DATABASE %s RESET default_transaction_read_only; also for the user, "+
			"and in postgresql.conf)", pgx.Identifier{s.config.ConnConfig.Database}.Sanitize())
	}
	if err := migrate(ctx, conn); err != nil {
		return err
	}
	if err := s.admit(ctx, conn); err != nil {
		return err
	}
	if s.installation, err = identify(ctx, conn); err != nil {
		return err
	}
	now := time.Now()
	if _, err = conn.Exec(ctx, "DELETE FROM writer WHERE seen < $1", now.Add(-oldWriter).UnixMicro()); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "INSERT INTO writer (id, seq, seen) VALUES ($1, 0, $2) ON CONFLICT DO NOTHING", s.id,
		now.UnixMicro())
	return err
}

// oldWriter is how long after its last transaction a writer is forgotten. A server that writes nothing for longer has
// no commit whose result is unknown; see begin in batch.go.
const oldWriter = 30 * 24 * time.Hour

// connect makes a connection that is not one of the pool.
func (s *Store) connect(ctx context.Context) (*pgx.Conn, error) {
	return pgx.ConnectConfig(ctx, s.config.ConnConfig.Copy())
}

// planSettings let statements find rows by indexes, whatever the statistics of the tables are: those of a table that
// grows are out of date, and a plan that reads a whole table stays in use. No statement reads so many rows that a
// parallel worker would be worth its start, which takes longer than a page of a list.
var planSettings = []string{"SET enable_seqscan = off", "SET enable_hashjoin = off", "SET enable_mergejoin = off",
	"SET enable_bitmapscan = off", "SET jit = off", "SET max_parallel_workers_per_gather = 0"}

// set makes settings of a connection.
func set(ctx context.Context, conn *pgx.Conn, settings []string) error {
	for _, one := range settings {
		if _, err := conn.Exec(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// Close waits for the present operations and closes the connections.
func (s *Store) Close() error {
	s.once.Do(func() {
		close(s.closing)
		<-s.closed
		s.stop()
		s.background.Wait()
		s.pool.Close()
		if s.alone != nil {
			_ = s.alone.Close(context.Background()) // which gives the lock back in any case
		}
	})
	return nil
}

// Properties is part of job.Store.
func (s *Store) Properties() job.Properties {
	return job.Properties{Name: "postgres", Durable: true, Words: true}
}

// unknown reports whether some counter may not exist: this server has not committed a transaction with it. Counters are
// never removed.
func (s *Store) unknown(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, known := s.names.Load(name)
		return !known
	})
}

// errReadOnly explains why a database refuses transactions that it accepted before.
var errReadOnly = errors.New("the database accepts no writes: it is a standby, as after a failover, or has " +
	"default_transaction_read_only = on; the server tries again on new connections")

// Fault returns why the database accepts no operations at present, as far as the last one shows it; nil: it does.
func (s *Store) Fault() error {
	if s.refuses.Load() {
		return job.Errorf(job.Unavailable, "store", "", "%w", errReadOnly)
	}
	return nil
}

func (s *Store) noteFailure(err error) {
	s.failures.Add(1)
	s.names.Clear() // a database that took over may not have them
	if s.options.OnFailure != nil {
		s.options.OnFailure(fmt.Errorf("postgres: %w", err))
	}
}
