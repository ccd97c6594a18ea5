// Package pgtest has PostgreSQL servers for tests, and connections to them that are lost at a chosen call.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// binaries is where Debian has the programs of PostgreSQL.
const binaries = "/usr/lib/postgresql/15/bin"

// Server is a private PostgreSQL server for tests, on a socket in a directory of its own.
type Server struct {
	dir      string
	settings []string
	command  *exec.Cmd
	as       *syscall.Credential // nil: the present user
	ended    chan error

	databases atomic.Int64 // that were made
}

// New starts a server with settings such as "fsync=off". It ends with [Server.Stop].
func New(settings ...string) (*Server, error) {
	if _, err := os.Stat(filepath.Join(binaries, "postgres")); err != nil {
		return nil, fmt.Errorf("PostgreSQL 15 is not installed: run scripts/tools, or apt-get install postgresql (%w)",
			err)
	}
	dir, err := os.MkdirTemp(memory(), "pg")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, settings: settings}
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
	return s, s.Start()
}

// memory is a directory in memory, where syncs cost nothing; "" if there is none.
func memory() string {
	if _, err := os.Stat("/dev/shm"); err == nil {
		return "/dev/shm"
	}
	return ""
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

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) program(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(binaries, name), args...)
	c.Dir = s.dir
	c.Env = append(os.Environ(), "LC_ALL=C")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Pdeathsig: syscall.SIGQUIT}
	return c
}

// Start starts the server and waits until it accepts connections.
func (s *Server) Start() error {
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	args := []string{"-D", s.data(), "-k", s.dir}
	for _, one := range slices.Concat([]string{"listen_addresses=", "max_connections=200", "shared_buffers=64MB",
		"deadlock_timeout=100ms"}, s.settings) {
		args = append(args, "-c", one)
	}
	s.command = s.program("postgres", args...)
	s.command.Stdout, s.command.Stderr = log, log
	if err := s.command.Start(); err != nil {
		return err
	}
	s.ended = make(chan error, 1)
	go func() { s.ended <- s.command.Wait() }()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
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

// End ends the server: by SIGINT in order, by SIGQUIT as by a crash.
func (s *Server) End(signal syscall.Signal) error {
	if err := s.command.Process.Signal(signal); err != nil {
		return err
	}
	<-s.ended
	return nil
}

// Stop ends the server and removes its directory.
func (s *Server) Stop() error {
	return errors.Join(s.End(syscall.SIGINT), os.RemoveAll(s.dir))
}

// URL gives the connection string of a database.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("host=%s user=postgres dbname=%s", s.dir, database)
}

// Exec executes a statement in a database.
func (s *Server) Exec(database, statement string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.URL(database))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

// Database makes a database for a test, with the content of another one, and returns its connection string.
func (s *Server) Database(t testing.TB, template string) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", s.databases.Add(1))
	if err := s.Exec("postgres", "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Exec("postgres", "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return s.URL(name)
}
