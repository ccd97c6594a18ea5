package postgres

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestLeads has one leader of two servers, whatever becomes of its connection and of itself.
func TestLeads(t *testing.T) {
	database := newDatabase(t)
	options := Options{LeadEvery: 10 * time.Millisecond, OnFailure: func(error) {}}
	servers := []*Store{openStore(t, database, options), openStore(t, database, options)}
	leader := func() int {
		for t.Context().Err() == nil {
			a, b := servers[0].Leads(), servers[1].Leads()
			if a != b {
				return number(b)
			}
			runtime.Gosched()
		}
		return 0
	}
	first := leader()
	for range 20 { // past several rounds of LeadEvery
		check(t, servers[first].pool.Ping(t.Context()))
		if got := leader(); got != first {
			t.Fatalf("server %d leads, server %d before", got, first)
		}
		<-time.After(2 * time.Millisecond)
	}
	_, err := servers[first].pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid, 5000) FROM pg_locks
 WHERE locktype = 'advisory' AND classid = $1 AND granted AND
  database = (SELECT oid FROM pg_database WHERE datname = current_database())`, int64(lockLeader))
	check(t, err)
	next := leader()
	closeStore(t, servers[next])
	for !servers[1-next].Leads() {
		runtime.Gosched()
	}
	if servers[next].Leads() {
		t.Error("a server that was closed leads")
	}
}

// TestSilentLeader: the connection of a leader that does not use it is ended by another server, which leads then. The
// control: not before the time that a leader may be silent.
func TestSilentLeader(t *testing.T) {
	database, noted := newDatabase(t), []string{}
	rare := Options{LeadEvery: time.Hour, LeadFor: time.Hour}
	silent := openStore(t, database, rare)
	for !silent.Leads() {
		runtime.Gosched()
	}
	rare.Name, rare.OnFailure = "other", func(err error) { noted = append(noted, err.Error()) }
	other := openStore(t, database, rare)
	conn, err := other.connect(t.Context())
	check(t, err)
	t.Cleanup(func() { check(t, conn.Close(t.Context())) })
	for range 3 {
		check(t, other.lead(t.Context(), conn))
	}
	if !silent.Leads() || other.Leads() || len(noted) > 0 {
		t.Errorf("control: a leader that may be silent lost its lock: %q", noted)
	}
	other.options.LeadFor = time.Microsecond
	for !other.Leads() {
		check(t, other.lead(t.Context(), conn))
	}
	for silent.Leads() {
		runtime.Gosched()
	}
	if len(noted) == 0 || !strings.Contains(noted[0], "the leader was silent for 1µs") {
		t.Errorf("it was noted: %q", noted)
	}
}
