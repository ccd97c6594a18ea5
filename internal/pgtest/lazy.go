package pgtest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
)

// Lazy is a server that is started when the first test needs it. TestMain calls Stop at the end.
type Lazy struct {
	Prepare func(s *Server) error // makes the content of new databases, in the database [Template]

	once   sync.Once
	server *Server
	err    error
}

// Template is the database whose content new ones of a [Lazy] server have. It compares texts as people in the United
// States do, unless a column says otherwise.
const Template = "template_test"

// Server gives the server, or ends the test if there is none.
func (l *Lazy) Server(t testing.TB) *Server {
	t.Helper()
	l.once.Do(l.start)
	if l.err != nil {
		t.Fatal(l.err)
	}
	return l.server
}

func (l *Lazy) start() {
	if l.server, l.err = New(); l.err != nil {
		return
	}
	l.err = l.server.Exec("postgres", "CREATE DATABASE "+Template+
		" TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' ENCODING 'UTF8'")
	if l.err == nil && l.Prepare != nil {
		l.err = l.Prepare(l.server)
	}
	if l.err != nil {
		l.err = errors.Join(l.err, l.server.Stop())
		l.server = nil
	}
}

// Database makes a database for a test and returns its connection string.
func (l *Lazy) Database(t testing.TB) string {
	t.Helper()
	return l.Server(t).Database(t, Template)
}

// Stop ends the server if it was started.
func (l *Lazy) Stop() {
	if l.server == nil {
		return
	}
	if err := l.server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
