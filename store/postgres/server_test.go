package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// binaries is where Debian has the programs of PostgreSQL.
const binaries = "/usr/lib/postgresql/15/bin"

// server is a private PostgreSQL server for tests, on a socket in a directory of its own.
type server struct {
	dir     string
	command *exec.Cmd
	as      *syscall.Credential // nil: the present user
	ended   chan error
}

// shared is the server of all tests of the package, and why there is none.
var (
	testServer  *server
	errServer   error
	databaseSeq atomic.Int64
)

func TestMain(m *testing.M) { os.Exit(withServer(m)) }

func withServer(m *testing.M) int {
	testServer, errServer = startServer()
	if errServer == nil {
		defer func() {
			if err := testServer.stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}()
		errServer = testServer.prepare()
	}
	return m.Run()
}

// startServer starts a server that ends with stop.
func startServer() (*server, error) {
	if _, err := os.Stat(filepath.Join(binaries, "postgres")); err != nil {
		return nil, fmt.Errorf("PostgreSQL 15 is not installed: run scripts/tools, or apt-get install postgresql (%w)",
			err)
	}
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	if os.Getuid() == 0 { // PostgreSQL refuses to run as root
		if s.as, err = credential("postgres"); err != nil {
			return nil, err
		}
		if err := os.Chown(dir, int(s.as.Uid), int(s.as.Gid)); err != nil {
			return nil, err
		}
	}
	initdb := s.program("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("initdb: %w\n%s", err, out), os.RemoveAll(dir))
	}
	return s, s.start()
}

// credential returns that of a user.
func credential(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
}

func (s *server) data() string { return filepath.Join(s.dir, "data") }

func (s *server) program(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(binaries, name), args...)
	c.Dir = s.dir
	c.Env = append(os.Environ(), "LC_ALL=C")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Pdeathsig: syscall.SIGQUIT}
	return c
}

// start starts the server and waits until it accepts connections.
func (s *server) start() error {
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	s.command = s.program("postgres", "-D", s.data(), "-k", s.dir, "-c", "listen_addresses=", "-c", "fsync=off",
		"-c", "max_connections=200", "-c", "shared_buffers=64MB", "-c", "deadlock_timeout=100ms")
	s.command.Stdout, s.command.Stderr = log, log
	if err := s.command.Start(); err != nil {
		return err
	}
	s.ended = make(chan error, 1)
	go func() { s.ended <- s.command.Wait() }()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	for {
		conn, err := pgx.Connect(ctx, s.url("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case err := <-s.ended:
			text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("the server ended: %w\n%s", err, text)
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond): // between two attempts to connect
		}
	}
}

// end ends the server: by SIGINT in order, by SIGQUIT as by a crash.
func (s *server) end(signal syscall.Signal) error {
	if err := s.command.Process.Signal(signal); err != nil {
		return err
	}
	<-s.ended
	return nil
}

func (s *server) stop() error {
	return errors.Join(s.end(syscall.SIGINT), os.RemoveAll(s.dir))
}

func (s *server) url(database string) string {
	return fmt.Sprintf("host=%s user=postgres dbname=%s", s.dir, database)
}

// prepare makes the template of the databases of tests.
func (s *server) prepare() error {
	if err := s.exec("postgres", "CREATE DATABASE template_stagepost"); err != nil {
		return err
	}
	st, err := Open(context.Background(), s.url("template_stagepost"), Options{Unsynced: true})
	if err != nil {
		return err
	}
	return st.Close()
}

func (s *server) exec(database, statement string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.url(database))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

// newDatabase makes a database for a test and returns its connection string.
func newDatabase(t testing.TB) string {
	t.Helper()
	if errServer != nil {
		t.Fatal(errServer)
	}
	name := fmt.Sprintf("test_%d", databaseSeq.Add(1))
	if err := testServer.exec("postgres", "CREATE DATABASE "+name+" TEMPLATE template_stagepost"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := testServer.exec("postgres", "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return testServer.url(name)
}

// openStore opens a store that is closed at the end of the test at the latest.
func openStore(t testing.TB, database string, options Options) *Store {
	t.Helper()
	options.Unsynced = true
	if options.OnFailure == nil {
		options.OnFailure = func(err error) { t.Log(err) }
	}
	s, err := Open(t.Context(), database, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
