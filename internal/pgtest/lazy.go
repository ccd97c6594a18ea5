package pgtest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Lazy is a server that is started when the first test needs it. TestMain calls Stop at the end.
type Lazy struct {
	Prepare func(s *Server) error // makes the content of new databases, in the database [Template]
	Reset   string                // statements that bring a database back to that content after a test

	once   sync.Once
	server *Server
	err    error

	mu   sync.Mutex // guards free
	free []string   // databases that no test uses
}

// Emptied returns statements for Reset that remove the rows of all tables of a schema, and let the numbers that the
// database gives begin anew. No table refers to one behind it in the list. counters are columns with such numbers, by
// table.
func Emptied(schema string, tables []string, counters map[string]string) string {
	var b strings.Builder
	for _, table := range slices.Backward(tables) {
		fmt.Fprintf(&b, "DELETE FROM %s.%s;", schema, table)
		if column := counters[table]; column != "" {
			fmt.Fprintf(&b, "SELECT setval(pg_get_serial_sequence('%[1]s.%[2]s', '%[3]s'), 1, false);", schema, table,
				column)
		}
	}
	return b.String()
}

// Template is the database whose content new ones of a [Lazy] server have. It compares texts by the rules
// of the locale en_US, unless a column has another rule.
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

// Database gives a database for a test: its connection string. To make one costs much more than to reset it.
func (l *Lazy) Database(t testing.TB) string {
	t.Helper()
	s := l.Server(t)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.free) == 0 {
		name := fmt.Sprintf("test_%d", s.databases.Add(1))
		if err := s.Exec("postgres", "CREATE DATABASE "+name+" TEMPLATE "+Template); err != nil {
			t.Fatal(err)
		}
		l.free = append(l.free, name)
	}
	name := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	t.Cleanup(func() { l.reset(t, name) })
	return s.URL(name)
}

// reset makes a database free again. Connections that a test left end.
func (l *Lazy) reset(t testing.TB, name string) {
	err := l.server.Exec(name, `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid();`+l.Reset)
	if err != nil {
		t.Error(err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = append(l.free, name)
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
