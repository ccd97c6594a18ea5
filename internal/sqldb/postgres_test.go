package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/internal/pgtest"
)

var counting = Schema{Name: "stagepost_test", First: 3, Steps: []string{
	"CREATE TABLE counter (n bigint NOT NULL); INSERT INTO counter VALUES (0);",
	"CREATE TABLE texts (id text PRIMARY KEY, bytes bytea NOT NULL, flag boolean NOT NULL);",
}}

var server = pgtest.Lazy{Reset: "DROP SCHEMA IF EXISTS stagepost_test CASCADE"}

func TestMain(m *testing.M) {
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, database string, o Options) *Shared {
	t.Helper()
	s, err := Open(t.Context(), database, counting, o)
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	return s
}

// count adds one. It is no write that may be repeated.
func count(ctx context.Context, s *Shared) error {
	return s.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE counter SET n = n + ?", 1)
		return err
	})
}

func counted(t *testing.T, s *Shared) (n int) {
	t.Helper()
	check(t, s.Read.QueryRowContext(t.Context(), "SELECT n FROM counter").Scan(&n))
	return n
}

// TestLoss loses the connection that writes at each of its calls in turn: before and after each statement is sent, and
// instead of each answer. Each write is carried out once. The control gives each attempt a number of its own: where the
// answer of COMMIT is lost, it writes twice.
func TestLoss(t *testing.T) {
	for _, control := range []bool{false, true} {
		database := server.Database(t)
		proxy := server.Server(t).Proxy(t)
		s := open(t, proxy.Through(database), Options{})
		if control {
			s.afterFailure = func() { s.seq++ }
		}
		cuts, twice := map[string]int{}, 0
		for at := 1; ; at++ {
			proxy.Arm(0)
			before := counted(t, s)
			check(t, count(t.Context(), s)) // the connection is there again
			proxy.Arm(at)
			check(t, count(t.Context(), s))
			_, cut := proxy.Calls()
			if proxy.Arm(0); cut == "" {
				break // it has fewer calls
			}
			cuts[cut]++
			switch n := counted(t, s) - before; {
			case n == 3 && control:
				twice++
			case n != 2:
				t.Errorf("call %d, %s: two writes counted %d", at, cut, n)
			}
		}
		t.Logf("control %v: lost %v, %d written twice", control, cuts, twice)
		if len(cuts) != 3 || cuts["an answer"] < 4 || control != (twice > 0) {
			t.Errorf("control %v: lost %v, %d were written twice", control, cuts, twice)
		}
	}
}

// TestSmallStatements: neither reads nor writes pay for a compilation or for parallel workers. The control is a
// connection with the settings of the server.
func TestSmallStatements(t *testing.T) {
	database := server.Database(t)
	s := open(t, database, Options{})
	control, err := sql.Open("pgx", database)
	check(t, err)
	defer func() { check(t, control.Close()) }()
	const settings = "SELECT current_setting('jit') || ' ' || current_setting('max_parallel_workers_per_gather')"
	ask := func(row *sql.Row) (got string) {
		check(t, row.Scan(&got))
		return got
	}
	if got := ask(s.Read.QueryRowContext(t.Context(), settings)); got != "off 0" {
		t.Errorf("reads: %s", got)
	}
	check(t, s.Write(t.Context(), func(tx *sql.Tx) error {
		if got := ask(tx.QueryRowContext(t.Context(), settings)); got != "off 0" {
			t.Errorf("writes: %s", got)
		}
		return nil
	}))
	if got := ask(control.QueryRowContext(t.Context(), settings)); got == "off 0" {
		t.Errorf("control: %s", got)
	}
}

// TestTerminated lets the database server end the connection that writes before each of its statements.
func TestTerminated(t *testing.T) {
	database := server.Database(t)
	proxy := server.Server(t).Proxy(t)
	s := open(t, proxy.Through(database), Options{})
	check(t, count(t.Context(), s))
	direct := open(t, database, Options{})
	for at := 1; ; at++ {
		before := counted(t, direct)
		struck := make(chan int, 1) // the connections that were ended
		proxy.ArmDo(at, func() {
			var ended int
			check(t, direct.Read.QueryRowContext(context.WithoutCancel(t.Context()),
				`SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&ended))
			struck <- ended
		})
		check(t, count(t.Context(), s))
		calls, _ := proxy.Calls()
		if calls < at { // it has fewer
			if proxy.Arm(0); at < 10 {
				t.Errorf("only %d calls", at)
			}
			return
		}
		ended := <-struck
		if n := counted(t, direct) - before; n != 1 || ended == 0 {
			t.Errorf("call %d: %d connections were ended, and a write counted %d", at, ended, n)
		}
	}
}

// TestOneWriterAtATime: what a transaction read is still so when it writes, also with another server. The control is
// two servers that take different locks: one overwrites what the other one counted.
func TestOneWriterAtATime(t *testing.T) {
	for _, control := range []bool{false, true} {
		database := server.Database(t)
		a, b := open(t, database, Options{}), open(t, database, Options{})
		if control {
			b.lock++
		}
		add := func(s *Shared, between func()) error {
			return s.Write(t.Context(), func(tx *sql.Tx) error {
				var n int
				if err := tx.QueryRowContext(t.Context(), "SELECT n FROM counter").Scan(&n); err != nil {
					return err
				}
				between()
				_, err := tx.ExecContext(t.Context(), "UPDATE counter SET n = ?", n+1)
				return err
			})
		}
		other := make(chan error, 1)
		check(t, add(a, func() {
			go func() { other <- add(b, func() {}) }()
			for {
				var waits bool
				check(t, a.Read.QueryRowContext(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
					WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits))
				if waits || len(other) > 0 {
					return
				}
			}
		}))
		check(t, <-other)
		if n := counted(t, a); (n == 2) == control {
			t.Errorf("control %v: two counted %d", control, n)
		}
	}
}

// TestValues: texts that PostgreSQL refuses, bytes and flags come back, and texts are ordered by their bytes in a
// database that orders them as people do.
func TestValues(t *testing.T) {
	s := open(t, server.Database(t), Options{})
	texts := []string{"", "B", "\x00\xff", "_", "a", "Ä", "ä"}
	check(t, s.Write(t.Context(), func(tx *sql.Tx) error {
		for n, text := range texts {
			var bytes []byte
			if n > 0 {
				bytes = []byte(text)
			}
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO texts VALUES (?1, ?2, ?3)", text, bytes,
				n%2 == 0); err != nil {
				return err
			}
		}
		return nil
	}))
	r, err := s.Read.QueryContext(t.Context(), "SELECT id, bytes, flag FROM texts WHERE id >= ? ORDER BY id", "")
	check(t, err)
	defer r.Close()
	var got []string
	for r.Next() {
		var id string
		var bytes []byte
		var flag bool
		check(t, r.Scan(&id, &bytes, &flag))
		if string(bytes) != id {
			t.Errorf("%q has the bytes %q", id, bytes)
		}
		got = append(got, id)
	}
	check(t, r.Err())
	if want := `["" "B" "_" "a" "Ä" "ä" "\x00\xff"]`; fmt.Sprintf("%q", got) != want {
		t.Errorf("got %q, want %s", got, want)
	}
}

// TestUnavailable: without the database, a call ends with an error of its own when the patience ends, and an error of
// the caller is not one of the database.
func TestUnavailable(t *testing.T) {
	database := server.Database(t)
	s := open(t, database, Options{Patience: time.Millisecond})
	mine := &net.OpError{Op: "mine", Err: errors.New("not of the database")}
	runs := 0
	err := s.Write(t.Context(), func(*sql.Tx) error { runs++; return mine })
	if !errors.Is(err, mine) || runs != 1 {
		t.Errorf("got %v after %d runs", err, runs)
	}
	name := database[strings.LastIndex(database, "=")+1:]
	admin := server.Server(t)
	check(t, admin.Exec("postgres", "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false"))
	check(t, admin.Exec("postgres", "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '"+
		name+"'"))
	var u *Unavailable
	if err := count(t.Context(), s); !errors.As(err, &u) || !u.Temporary() {
		t.Errorf("a write: %v", err)
	}
	var n int
	if err := s.Read.QueryRowContext(t.Context(), "SELECT n FROM counter").Scan(&n); !errors.As(err, &u) {
		t.Errorf("a read: %v", err)
	}
	check(t, admin.Exec("postgres", "ALTER DATABASE "+name+" ALLOW_CONNECTIONS true"))
	check(t, count(t.Context(), s))
	if n := counted(t, s); n != 1 {
		t.Errorf("the control: %d", n)
	}
}

// TestOpenWithLoss cuts a connection at each call while a schema is opened: it opens all the same. Control: with a
// patience that is over at once, openings fail.
func TestOpenWithLoss(t *testing.T) {
	p := server.Server(t).Proxy(t)
	database := p.Through(server.Database(t))
	failed := 0
	for at, calls := 1, 1; calls >= at; at++ {
		for _, patience := range []time.Duration{1, 0} {
			p.Arm(at)
			s, err := Open(t.Context(), database, counting, Options{Patience: patience})
			var cut string
			calls, cut = p.Calls()
			p.Arm(0)
			switch {
			case err == nil:
				check(t, s.Close())
			case patience > 0:
				failed++
			default:
				t.Errorf("call %d, %s: %v", at, cut, err)
			}
		}
	}
	if failed < 10 {
		t.Errorf("control: %d openings without patience failed", failed)
	}
}

// TestCallerLeaves: the end of the caller's context ends a write at once, and the next one is carried out.
func TestCallerLeaves(t *testing.T) {
	s := open(t, server.Database(t), Options{})
	ctx, leave := context.WithCancel(t.Context())
	err := s.Write(ctx, func(tx *sql.Tx) error {
		leave()
		_, err := tx.ExecContext(ctx, "UPDATE counter SET n = 7")
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	check(t, count(t.Context(), s))
	if n := counted(t, s); n != 1 {
		t.Errorf("got %d", n)
	}
}

// TestOpen refuses a schema of a later program, and a database server that does not sync. A step is applied once, also
// if several servers open the schema at once.
func TestOpen(t *testing.T) {
	database := server.Database(t)
	first := counting
	first.Steps = first.Steps[:1]
	opened := make(chan error)
	for range 3 {
		go func() {
			s, err := Open(t.Context(), database, first, Options{})
			if err == nil {
				err = errors.Join(count(t.Context(), s), s.Close())
			}
			opened <- err
		}()
	}
	for range 3 {
		check(t, <-opened)
	}
	s := open(t, database, Options{}) // the next step
	if n := counted(t, s); n != 3 {
		t.Errorf("got %d", n)
	}
	if _, err := Open(t.Context(), database, first, Options{}); err == nil ||
		!strings.Contains(err.Error(), "schema 4") {
		t.Errorf("got %v", err)
	}
	admin := server.Server(t)
	for _, setting := range []string{"off", "on"} {
		check(t, admin.Exec("postgres", "ALTER SYSTEM SET fsync = "+setting))
		check(t, admin.Exec("postgres", "SELECT pg_reload_conf()"))
		for now := ""; now != setting; {
			check(t, s.Read.QueryRowContext(t.Context(), "SHOW fsync").Scan(&now))
		}
		o, err := Open(t.Context(), database, counting, Options{})
		if err == nil {
			check(t, o.Close())
		}
		if (err == nil) != (setting == "on") {
			t.Errorf("fsync = %s: %v", setting, err)
		}
	}
}

// TestSynced: commits wait for the disk where the default of the database is that they do not; a connection that only
// reads has the default, which is the control.
func TestSynced(t *testing.T) {
	database := server.Database(t)
	name := database[strings.LastIndex(database, "=")+1:]
	admin := server.Server(t)
	check(t, admin.Exec("postgres", "ALTER DATABASE "+name+" SET synchronous_commit = off"))
	t.Cleanup(func() { check(t, admin.Exec("postgres", "ALTER DATABASE "+name+" RESET synchronous_commit")) })
	s := open(t, database, Options{})
	var writes, reads string
	check(t, s.Write(t.Context(), func(tx *sql.Tx) error {
		return tx.QueryRowContext(t.Context(), "SHOW synchronous_commit").Scan(&writes)
	}))
	check(t, s.Read.QueryRowContext(t.Context(), "SHOW synchronous_commit").Scan(&reads))
	if writes != "on" || reads != "off" {
		t.Errorf("synchronous_commit is %s for writes and %s for reads", writes, reads)
	}
}

// TestSilentConnection closes a connection on which nothing arrives.
func TestSilentConnection(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	b := &bounded{Conn: near, silent: time.Millisecond}
	if _, err := b.Read(make([]byte, 1)); err == nil {
		t.Error("got no error")
	}
	near, far = net.Pipe()
	defer far.Close()
	b = &bounded{Conn: near, silent: time.Minute}
	go func() { _, _ = far.Write([]byte("x")) }()
	if n, err := b.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("control: %d, %v", n, err)
	}
}

// TestStartOfConnections: connections begin with no parameter that a connection pooler refuses, and have all settings.
func TestStartOfConnections(t *testing.T) {
	config, err := configure(server.Database(t), "public", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for name := range config.RuntimeParams {
		if name != "application_name" && name != "timezone" { // those that pgbouncer accepts
			t.Errorf("parameter %s", name)
		}
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for name, want := range map[string]string{"search_path": "public", "timezone": "UTC", "lock_timeout": "20s",
		"idle_in_transaction_session_timeout": "15s", "jit": "off", "max_parallel_workers_per_gather": "0"} {
		var got string
		if err := conn.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, want %q (%v)", name, got, want, err)
		}
	}
}
