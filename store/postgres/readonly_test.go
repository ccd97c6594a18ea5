package postgres

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// writes lets a database accept writes of new connections, or not.
func writes(t *testing.T, name string, accepts bool) {
	t.Helper()
	value := "RESET default_transaction_read_only"
	if !accepts {
		value = "SET default_transaction_read_only = on"
	}
	check(t, testServer.Exec("postgres", "ALTER DATABASE "+name+" "+value))
}

// TestOpenReadOnly: a database that accepts no writes is refused at once, with the setting and what to do. The control:
// a store that only reads is opened.
func TestOpenReadOnly(t *testing.T) {
	database := newDatabase(t)
	config, err := pgconn.ParseConfig(database)
	check(t, err)
	name := config.Database
	writes(t, name, false)
	began := time.Now()
	_, err = Open(t.Context(), database, Options{Unsynced: true, Patience: time.Hour})
	if job.KindOf(err) != job.Refused || !strings.Contains(err.Error(), "default_transaction_read_only = on") ||
		!strings.Contains(err.Error(), `ALTER DATABASE "`+name+`" RESET`) {
		t.Errorf("got %v after %s", err, time.Since(began))
	}
	s, err := Open(t.Context(), database, Options{Unsynced: true, ReadOnly: true})
	if check(t, err); s != nil {
		closeStore(t, s)
	}
	writes(t, name, true)
	s, err = Open(t.Context(), database, Options{Unsynced: true})
	if check(t, err); s != nil {
		closeStore(t, s)
	}
}

// TestBecomesReadOnly: when the connections lead to a server that accepts no writes, as after a failover to a standby,
// operations are tried again on new connections, and the reason is known meanwhile.
func TestBecomesReadOnly(t *testing.T) {
	database := newDatabase(t)
	config, err := pgconn.ParseConfig(database)
	check(t, err)
	name := config.Database
	refused := make(chan error, 1)
	var seen atomic.Int64
	s := openStore(t, database, Options{RetryAfter: time.Millisecond, OnFailure: func(err error) {
		if pg.State(err) == pg.ReadOnly && errors.Is(err, errReadOnly) && seen.Add(1) == 1 {
			refused <- err
		}
	}})
	note := func() error {
		return s.Note(t.Context(), job.Audit{By: lifecycle.Operator, Actor: "ann", Event: "set", At: start})
	}
	if check(t, note()); s.Fault() != nil {
		t.Errorf("control: %v", s.Fault())
	}
	writes(t, name, false)
	check(t, testServer.Exec("postgres", "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "+
		"WHERE datname = '"+name+"'"))
	done := make(chan error, 1)
	go func() { done <- note() }()
	<-refused
	if err := s.Fault(); job.KindOf(err) != job.Unavailable || !strings.Contains(err.Error(), "accepts no writes") {
		t.Errorf("got %v", err)
	}
	writes(t, name, true) // of new connections
	if check(t, <-done); s.Fault() != nil {
		t.Errorf("it works again: %v", s.Fault())
	}
}
