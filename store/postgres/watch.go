package postgres

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/job"
)

// channel is that on which servers notify each other.
const channel = "stagepost"

// Watch is part of job.Store. Hints of other servers have no records.
func (s *Store) Watch(ctx context.Context, wake func([]job.Hint)) {
	s.watchers.Watch(ctx, wake)
}

// mostHints bounds the hints that wait for being announced. More are lost.
const mostHints = 10_000

// announce lets the announcer notify the other servers, if there are any.
func (s *Store) announce(hints []job.Hint) {
	if !s.others.Load() {
		return
	}
	s.mu.Lock()
	for _, h := range hints {
		if h.Record = nil; len(s.outgoing) < mostHints {
			s.outgoing = append(s.outgoing, h)
		}
	}
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// notice is the payload of a notification. One without hints announces this server to the others.
type notice struct {
	From  string     `json:"from"`
	Hints []job.Hint `json:"hints"`
}

// mostPayload is the length of a payload that PostgreSQL accepts.
const mostPayload = 7900

// announcer sends notifications outside of the transactions that changed the jobs: a commit with a notification waits
// for all others that have one. A hint that is lost costs time until the next sweep, nothing else.
func (s *Store) announcer(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.ready:
		}
		s.mu.Lock()
		hints := s.outgoing
		s.outgoing = nil
		s.mu.Unlock()
		for len(hints) > 0 {
			payload, n := s.payload(hints)
			hints = hints[n:]
			if _, err := s.pool.Exec(ctx, "SELECT pg_notify($1, $2)", channel, payload); err != nil {
				break
			}
		}
	}
}

// payload has as many of the hints as fit into one notification. One that does not fit counts, but is left out.
func (s *Store) payload(hints []job.Hint) (text string, n int) {
	one := notice{From: hex.EncodeToString(s.id[:])}
	for n = len(hints); ; n /= 2 {
		one.Hints = hints[:n]
		if b, err := json.Marshal(one); err == nil && len(b) <= mostPayload || n == 0 {
			return string(b), max(n, 1)
		}
	}
}

// listener wakes the watchers when other servers have changed jobs. After a loss of its connection, hints are lost.
func (s *Store) listener(ctx context.Context) {
	for ctx.Err() == nil {
		s.listen(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Leads reports whether this server is the leader of those that share the database, for the option Leads of an engine.
// The leader has a lock of the database as long as its connection lasts, which other servers end when it is silent for
// [Options.LeadFor]. It is quick, and may be called concurrently. After a loss of the connection two servers may lead
// for a moment.
func (s *Store) Leads() bool { return s.leads.Load() }

// listenerName is the end of the application name of the connections that listen.
const listenerName = " listener"

// application is the application name of connections.
func (o *Options) application(of string) string {
	name := "stagepost"
	if o.Name != "" {
		name += " " + o.Name[:min(len(o.Name), mostName)]
	}
	return name + of
}

// mostName is how much of the name of a server fits into the name of an application, which PostgreSQL cuts.
const mostName = 40

// quoted is a string constant.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// selectLeader finds the connection that has the leader's lock.
const selectLeader = `SELECT coalesce((SELECT application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid)
 WHERE l.locktype = 'advisory' AND l.classid = $1 AND l.objid = 0 AND l.granted
 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())), '')`

// Leader returns the name of the server that leads ([Options].Name), as of the database, and whether there is one.
func (s *Store) Leader(ctx context.Context) (name string, leads bool, err error) {
	err = s.read(ctx, "leader", "", func(r *reader) error {
		return r.q.QueryRow(r.ctx, selectLeader, int64(lockLeader)).Scan(&name)
	})
	inner := strings.TrimSuffix(strings.TrimPrefix(name, "stagepost"), listenerName)
	return strings.TrimSpace(inner), name != "", err
}

// lead takes the leader's lock if it is free, and finds out whether the connection is alive.
func (s *Store) lead(ctx context.Context, conn *pgx.Conn) error {
	waiting, stop := context.WithTimeout(ctx, s.options.LeadEvery)
	defer stop()
	leads := true
	if s.leads.Load() {
		return conn.Ping(waiting)
	}
	err := conn.QueryRow(waiting, "SELECT pg_try_advisory_lock($1, 0)", int32(lockLeader)).Scan(&leads)
	s.leads.Store(err == nil && leads)
	if err != nil || leads {
		return err
	}
	var ended int
	err = conn.QueryRow(waiting, endSilentLeader, int64(lockLeader), s.options.LeadFor.Microseconds()).Scan(&ended)
	if ended > 0 {
		s.noteFailure(fmt.Errorf("the leader was silent for %s: this server ended its connection", s.options.LeadFor))
	}
	return err
}

// endSilentLeader ends the connection that has the leader's lock if it was not used for a time (2, microseconds): the
// leader uses it every LeadEvery. PostgreSQL notices only after hours that a machine is gone, and never that a process
// hangs. A role may end its own connections, and it does not see when those of others were used.
const endSilentLeader = `SELECT count(pg_terminate_backend(pid)) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
 WHERE l.locktype = 'advisory' AND l.classid = $1 AND l.objid = 0 AND l.granted
 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
 AND a.state_change < clock_timestamp() - $2 * interval '1 microsecond'`

// selectOthers reports whether other connections have the lock of servers.
const selectOthers = `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = $1 AND objid = 0
 AND granted AND pid <> pg_backend_pid() AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`

// countOthers finds out whether there are other servers, which have to be notified. One that begins to listen later
// announces itself.
func (s *Store) countOthers(ctx context.Context, conn *pgx.Conn) error {
	waiting, stop := context.WithTimeout(ctx, s.options.LeadEvery)
	defer stop()
	var others bool
	err := conn.QueryRow(waiting, selectOthers, int64(lockServers)).Scan(&others)
	s.others.Store(others || err != nil)
	return err
}

// firstCount is the first pause before other servers are counted again, which doubles: the connection that opened the
// store, which counts as one, ends soon.
const firstCount = 10 * time.Millisecond

func (s *Store) listen(ctx context.Context) {
	conn, err := s.connect(ctx)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if set(ctx, conn, []string{"SET application_name = " + quoted(s.options.application(listenerName)),
		"LISTEN " + channel}) != nil || s.share(ctx, conn) != nil {
		return
	}
	text, _ := s.payload(nil)
	if _, err := conn.Exec(ctx, "SELECT pg_notify($1, $2)", channel, text); err != nil {
		return
	}
	defer s.leads.Store(false)
	defer s.others.Store(true) // until it is known again
	self := hex.EncodeToString(s.id[:])
	var next time.Time
	for pause := firstCount; ; {
		if now := time.Now(); !now.Before(next) {
			if s.lead(ctx, conn) != nil || s.countOthers(ctx, conn) != nil {
				return
			}
			pause = min(2*pause, s.options.LeadEvery)
			next = now.Add(pause)
		}
		waiting, stop := context.WithDeadline(ctx, next)
		n, err := conn.WaitForNotification(waiting)
		late := waiting.Err() != nil && ctx.Err() == nil && !conn.IsClosed()
		stop()
		if late {
			continue
		}
		if err != nil {
			return
		}
		var one notice
		if err := json.Unmarshal([]byte(n.Payload), &one); err == nil && one.From != self {
			s.others.Store(true)
			s.watchers.Notify(one.Hints)
		}
	}
}
