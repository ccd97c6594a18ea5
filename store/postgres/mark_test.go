package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/internal/transfer"
	"github.com/stagepost/stagepost/job"
)

// TestServerThatComesBack lets a migration have the database while a server has lost its connections: the server cannot
// write afterwards. The control is a migration that marks nothing.
func TestServerThatComesBack(t *testing.T) {
	for _, marks := range []bool{true, false} {
		database := newDatabase(t)
		server := openStore(t, database, Options{})
		hold := func() error {
			_, err := server.Hold(t.Context(), job.Hold{Who: "olga", Why: "test", Since: time.Now()})
			return err
		}
		if err := hold(); err != nil {
			t.Fatal(err)
		}
		server.stop() // the connection that listens, which has the lock of servers
		server.background.Wait()
		for held := true; held; { // the database server ends the connection on its own
			check(t, server.pool.QueryRow(t.Context(), selectOthers, int64(lockServers)).Scan(&held))
		}
		m := openStore(t, database, Options{Migrates: true})
		if marks {
			mark := transfer.Mark{State: transfer.Moved, Other: "elsewhere", At: time.Now()}
			if err := m.Content().SetMark(t.Context(), mark); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Open(t.Context(), database, Options{Unsynced: true}); job.KindOf(err) != job.Refused {
			t.Errorf("beside the migration: %v", err)
		}
		closeStore(t, m)
		err := hold()
		if marks && (job.KindOf(err) != job.Refused || !strings.Contains(err.Error(), "migrated to elsewhere")) {
			t.Errorf("the server that came back: %v", err)
		}
		if !marks && err != nil {
			t.Errorf("control: %v", err)
		}
	}
}

// selectWaiting reports whether a connection waits for the lock of servers.
const selectWaiting = `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = $1 AND NOT granted
 AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`

// TestOpenAfterClose opens a store while the connection of another one has the lock of servers, and then gives it back
// like a connection that was closed some milliseconds ago. The control is a connection that keeps it.
func TestOpenAfterClose(t *testing.T) {
	for _, c := range []struct {
		lock    string
		options Options
		refusal string
	}{
		{"pg_advisory_lock", Options{}, "a stagepost migrate is using the database"},
		{"pg_advisory_lock_shared", Options{Migrates: true}, "in use by a server without a name"},
	} {
		for _, keeps := range []bool{false, true} {
			database := newDatabase(t)
			closeStore(t, openStore(t, database, Options{})) // makes the tables
			former, err := pgx.Connect(t.Context(), database)
			check(t, err)
			defer former.Close(t.Context())
			_, err = former.Exec(t.Context(), "SET application_name = 'stagepost'")
			check(t, err)
			_, err = former.Exec(t.Context(), "SELECT "+c.lock+"($1, 0)", int32(lockServers))
			check(t, err)
			opened := make(chan error, 1)
			go func() {
				c.options.Unsynced = true
				s, err := Open(t.Context(), database, c.options)
				if err == nil {
					err = s.Close()
				}
				opened <- err
			}()
			for waits := false; !waits && len(opened) == 0; {
				check(t, former.QueryRow(t.Context(), selectWaiting, int64(lockServers)).Scan(&waits))
			}
			if !keeps {
				_, err = former.Exec(t.Context(), "SELECT pg_advisory_unlock_all()")
				check(t, err)
			}
			switch err := <-opened; {
			case !keeps && err != nil:
				t.Errorf("after %s was given back: %v", c.lock, err)
			case keeps && (job.KindOf(err) != job.Refused || !strings.Contains(err.Error(), c.refusal)):
				t.Errorf("control: beside %s: %v", c.lock, err)
			}
		}
	}
}

// TestMigrationAlone requires that a migration ends when the connection with its lock is lost.
func TestMigrationAlone(t *testing.T) {
	m := openStore(t, newDatabase(t), Options{Migrates: true})
	part := &transfer.Part{Holds: []job.Hold{{Who: "olga", Why: "test", Since: time.Now()}}}
	if err := m.Content().Put(t.Context(), part); err != nil {
		t.Fatal(err)
	}
	if err := m.alone.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.Content().Put(t.Context(), &transfer.Part{}); err == nil {
		t.Error("it wrote without the lock")
	}
	if err := m.Content().SetMark(t.Context(), transfer.Mark{}); err == nil {
		t.Error("it removed its mark without the lock")
	}
}
