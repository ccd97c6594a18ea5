package postgres

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stagepost/stagepost/internal/pgtest"
)

// testServer is the server of all tests of the package, and errServer is why there is none.
var (
	testServer *pgtest.Server
	errServer  error
)

func TestMain(m *testing.M) { os.Exit(withServer(m)) }

func withServer(m *testing.M) int {
	testServer, errServer = pgtest.New("fsync=off")
	if errServer == nil {
		defer func() {
			if err := testServer.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}()
		errServer = prepare(testServer)
	}
	return m.Run()
}

// prepare makes the template of the databases of tests.
func prepare(s *pgtest.Server) error {
	if err := s.Exec("postgres", "CREATE DATABASE template_stagepost"); err != nil {
		return err
	}
	st, err := Open(context.Background(), s.URL("template_stagepost"), Options{Unsynced: true})
	if err != nil {
		return err
	}
	return st.Close()
}

// newDatabase makes a database for a test and returns its connection string.
func newDatabase(t testing.TB) string {
	t.Helper()
	if errServer != nil {
		t.Fatal(errServer)
	}
	return testServer.Database(t, "template_stagepost")
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
