package postgres

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
)

// counting counts what is sent to the database: as many times as there are round trips, if each fits into a buffer.
type counting struct {
	net.Conn
	sent *atomic.Int64
}

func (c counting) Write(b []byte) (int, error) {
	c.sent.Add(1)
	return c.Conn.Write(b)
}

// TestRoundTrips: a transaction takes one round trip if the server wrote last what it changes, and otherwise two, as
// one that claims does. With a limit that concerns the claim, and if the store has forgotten the job, it takes more,
// which is the control.
func TestRoundTrips(t *testing.T) {
	var sent atomic.Int64
	s := openStore(t, newDatabase(t), Options{CallerTime: true})
	s.writerDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return counting{conn, &sent}, err
	}
	for s.others.Load() { // counters are assumed by a server that is alone
		check(t, s.pool.Ping(t.Context()))
	}
	limit := []job.Limit{{Kind: stepKind, Max: 100}}
	for n := range 4 { // the first times, statements are prepared
		of := func(what string) job.ID { return job.ID(fmt.Sprint("tst_", what, n)) }
		trips := func(f func() error) int64 {
			t.Helper()
			before := sent.Load()
			check(t, f())
			return sent.Load() - before
		}
		create := func(id job.ID, chain *job.Chain) func() error {
			return func() error {
				c := chained(id)
				c.Chain = chain
				_, err := s.Create(t.Context(), c)
				return err
			}
		}
		claim := func(limits []job.Limit) func() error {
			return func() error {
				got, err := s.Claim(t.Context(), job.Claim{Worker: "w", N: 1, Now: start, Lease: time.Hour,
					From: from("Waiting"), Limits: limits})
				if err == nil && len(got) != 1 {
					err = fmt.Errorf("claimed %v", got)
				}
				return err
			}
		}
		move := func(id job.ID, event lifecycle.Event) func() error {
			return func() error {
				j, err := s.Get(t.Context(), id)
				check(t, err)
				c, err := storetest.Transition(storetest.Step, j, event, lifecycle.Worker, start)
				check(t, err)
				c.Chain = &job.Chain{Worker: "w", Lease: time.Hour}
				return moved(s.Commit(t.Context(), c))
			}
		}
		chain := &job.Chain{Worker: "w", Lease: time.Hour}
		got := []int64{
			trips(create(of("chained"), chain)),
			trips(move(of("chained"), "begin")),
			trips(create(of("waiting"), nil)),
			trips(create(of("limited"), nil)),
			trips(claim(limit)) - 2, // reads counts, lanes, and the job
			trips(claim(nil)) - 1,   // reads the job
		}
		s.recent = recent{}
		got = append(got, min(trips(move(of("chained"), "next")), 3))
		if want := []int64{1, 1, 1, 1, 3, 2, 3}; n > 1 && fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("round trips %v, want %v", got, want)
		}
	}
}

func moved(r []job.Result, err error) error {
	if err == nil {
		err = r[0].Err
	}
	return err
}

// TestAlone: a server that has the database alone sends no notifications. One that comes is notified, until it goes.
func TestAlone(t *testing.T) {
	database := newDatabase(t)
	conn, err := pgx.Connect(t.Context(), database)
	check(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	_, err = conn.Exec(t.Context(), "LISTEN "+channel)
	check(t, err)
	a := openStore(t, database, Options{CallerTime: true, LeadEvery: 20 * time.Millisecond})
	// A server announces itself whenever its listener has a new connection, on a busy machine more than once.
	notified := func() string {
		t.Helper()
		within, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for {
			n, err := conn.WaitForNotification(within)
			check(t, err)
			if n.Payload != mustPayload(a) {
				return n.Payload
			}
		}
	}
	wait := func(others bool) {
		t.Helper()
		for a.others.Load() != others {
			check(t, a.pool.Ping(t.Context()))
		}
	}
	n := 0
	create := func() {
		t.Helper()
		n++
		_, err := a.Create(t.Context(), newJob(storetest.Step, job.ID(fmt.Sprint("tst_", n))))
		check(t, err)
	}
	wait(false)
	create() // without a notification: the next one is that of b
	b := openStore(t, database, Options{CallerTime: true, LeadEvery: 20 * time.Millisecond})
	if first := notified(); first != mustPayload(b) {
		t.Errorf("notified by %s while it was alone", first)
	}
	wait(true)
	create()
	for notified() == mustPayload(b) {
	}
	closeStore(t, b)
	wait(false)
}

// mustPayload is what a server sends when it begins to listen.
func mustPayload(s *Store) string {
	text, _ := s.payload(nil)
	return text
}
