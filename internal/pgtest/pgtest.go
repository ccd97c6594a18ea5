// Package pgtest starts PostgreSQL servers of their own for tests.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// binaries is where Debian has the programs of PostgreSQL.
const binaries = "/usr/lib/postgresql/15/bin"

// Options of [Start]. The zero Options work.
type Options struct {
	Fsync       bool // commits are on disk when they are acknowledged
	TCP         bool // the server listens on a port of the loopback, too
	Connections int  // max_connections; defaults to 200
}

// Server is a private server, on a socket in a directory of its own.
type Server struct {
	dir     string
	options Options
	port    int // 0: it listens on the socket alone
	command *exec.Cmd
	as      *syscall.Credential // nil: the present user
	ended   chan error
}

// Start starts a server that ends with Stop.
func Start(o Options) (*Server, error) {
	if _, err := os.Stat(filepath.Join(binaries, "postgres")); err != nil {
		return nil, fmt.Errorf("PostgreSQL 15 is not installed: run scripts/tools, or apt-get install postgresql (%w)",
			err)
	}
	if o.Connections == 0 {
		o.Connections = 200
	}
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, options: o}
	if os.Getuid() == 0 { // PostgreSQL refuses to run as root
		if s.as, err = credential("postgres"); err != nil {
			return nil, err
		}
		if err := os.Chown(dir, int(s.as.Uid), int(s.as.Gid)); err != nil {
			return nil, err
		}
	}
	if o.TCP {
		if s.port, err = freePort(); err != nil {
			return nil, err
		}
	}
	initdb := s.program("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("initdb: %w\n%s", err, out), os.RemoveAll(dir))
	}
	return s, s.Start()
}

// freePort returns a port that was free a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
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

// Start starts the server again after End, and waits until it accepts connections.
func (s *Server) Start() error {
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	set := []string{"listen_addresses=", "fsync=off", "shared_buffers=64MB", "deadlock_timeout=100ms",
		"max_connections=" + strconv.Itoa(s.options.Connections)}
	if s.options.Fsync {
		set = append(set, "fsync=on")
	}
	if s.port != 0 {
		set = append(set, "listen_addresses=127.0.0.1", "port="+strconv.Itoa(s.port))
	}
	args := []string{"-D", s.data(), "-k", s.dir}
	for _, one := range set {
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

// Stop ends the server and removes its files.
func (s *Server) Stop() error {
	return errors.Join(s.End(syscall.SIGINT), os.RemoveAll(s.dir))
}

// URL returns the connection string of a database over the socket.
func (s *Server) URL(database string) string {
	text := fmt.Sprintf("host=%s user=postgres dbname=%s", s.dir, database)
	if s.port != 0 {
		text += " port=" + strconv.Itoa(s.port)
	}
	return text
}

// Address returns the address of the server on the loopback.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Exec executes one statement.
func (s *Server) Exec(database, statement string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.URL(database))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}
