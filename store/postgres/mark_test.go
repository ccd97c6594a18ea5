package postgres

import (
	"strings"
	"testing"
	"time"

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

// TestMigrationAlone requires that a migration ends when the connection with its lock is lost.
func TestMigrationAlone(t *testing.T) {
	m := openStore(t, newDatabase(t), Options{Migrates: true})
	part := &transfer.Part{Holds: []job.Hold{{Who: "olga", Why: "test", Since: time.Now(), Version: 1}}}
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
