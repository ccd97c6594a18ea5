package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
)

// readsDue is a statement of each transaction that may claim jobs and reads before it writes.
const readsDue = selectClock + ", (" + selectFirstDue + ")"

// chained is a new job that begins in the commit that creates it.
func chained(id job.ID) job.Created {
	c := newJob(storetest.Step, id)
	c.Job, c.Event = job.New(c.Job, lifecycle.Owner, "ann", start) // not in the audit log
	c.Chain = &job.Chain{Worker: "w", Lease: time.Hour}
	return c
}

// chainOn moves a job, and requests the claim of its next state. There is a limit, which guards another state than
// Running.
func chainOn(t *testing.T, s *Store, j *job.Job, event lifecycle.Event, at time.Time) {
	t.Helper()
	c, err := storetest.Transition(storetest.Step, *j, event, lifecycle.Worker, at)
	check(t, err)
	c.Chain = &job.Chain{Worker: "w", Lease: time.Hour,
		Limits: []job.Limit{{Kind: stepKind, Guard: []lifecycle.State{"Checking"}, Max: 9}}}
	results, err := s.Commit(t.Context(), c)
	check(t, moved(results, err))
	*j = results[0].Job
}

// running makes a job that waits in the state Running.
func running(t *testing.T, s *Store, with func(*job.Job)) {
	t.Helper()
	jobs, err := s.Create(t.Context(), newJob(storetest.Step, "tst_other", with))
	check(t, err)
	c, err := storetest.Transition(storetest.Step, jobs[0], "begin", lifecycle.Worker, start)
	check(t, err)
	if due := jobs[0].Due; !due.IsZero() {
		c.Set.Due = &due
	}
	check(t, moved(s.Commit(t.Context(), c)))
}

// TestAssumed: a transition of a job that the server wrote last reads nothing. If the database is not as the server
// assumes it to be, because another server wrote, the transition has the result of a server that reads first.
func TestAssumed(t *testing.T) {
	for name, c := range map[string]struct {
		elsewhere func(*testing.T, *Store)
		wrong     bool // to assume that nothing changed
		claimed   bool // the job in its next state
	}{
		"nothing": {func(*testing.T, *Store) {}, false, true},
		"worse": {func(t *testing.T, s *Store) {
			running(t, s, func(j *job.Job) { j.Priority = job.DefaultPriority + 1 })
		}, false, true},
		"not due": {func(t *testing.T, s *Store) {
			running(t, s, func(j *job.Job) { j.Priority, j.Due = 1, start.Add(time.Hour) })
		}, false, true},
		"hold": {func(t *testing.T, s *Store) {
			_, err := s.Hold(t.Context(), job.Hold{Scope: job.Scope{State: "Running"}, Who: "olga", Since: start})
			check(t, err)
		}, true, false},
		"better": {func(t *testing.T, s *Store) {
			running(t, s, func(j *job.Job) { j.Priority = 1 })
		}, true, false},
		"due": {func(t *testing.T, s *Store) {
			running(t, s, func(j *job.Job) { j.Priority, j.Due = 1, start.Add(time.Second) })
		}, true, false},
		"lanes": {func(t *testing.T, s *Store) { check(t, s.tidy(t.Context())) }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			database, r := newDatabase(t), &tracer{seen: map[string][]any{}}
			elsewhere := openStore(t, database, Options{CallerTime: true})
			s := openStore(t, database, Options{CallerTime: true, tracer: r})
			jobs, err := s.Create(t.Context(), chained("tst_first"), chained("tst_second"))
			check(t, err)
			chainOn(t, s, &jobs[0], "begin", start)
			chainOn(t, s, &jobs[0], "next", start)
			c.elsewhere(t, elsewhere)
			r.reset()
			j := &jobs[1]
			chainOn(t, s, j, "begin", start.Add(time.Minute))
			read := r.saw(readsDue)
			if !r.saw(beginAssumed) || read != c.wrong || j.Claimed() != c.claimed {
				t.Errorf("read %t, claimed by %q: %v", read, j.Worker, r.statements())
			}
			var live, lanes int
			check(t, s.pool.QueryRow(t.Context(), `SELECT count(*), count(l.id) FROM job_now j
 LEFT JOIN lane l ON l.id = j.lane WHERE ended = 0`).Scan(&live, &lanes))
			if lanes != live {
				t.Errorf("%d of %d jobs have a lane", lanes, live)
			}
			checkRecent(t, s)
		})
	}
}

// TestTidyWaits: lanes are not removed while a transaction that relies on them has the shared lock of the holds.
func TestTidyWaits(t *testing.T) {
	s, ctx := openStore(t, newDatabase(t), Options{CallerTime: true}), t.Context()
	conn, err := s.connect(ctx)
	check(t, err)
	defer func() { check(t, conn.Close(context.WithoutCancel(ctx))) }()
	_, err = conn.Exec(ctx, "SELECT pg_advisory_lock_shared($1, 0)", int32(lockHolds))
	check(t, err)
	done := make(chan error, 1)
	go func() { done <- s.tidy(ctx) }()
	for waits := false; !waits; {
		select {
		case err := <-done:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
		check(t, conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
 AND classid = $1)`, int64(lockHolds)).Scan(&waits))
	}
	_, err = conn.Exec(ctx, "SELECT pg_advisory_unlock_shared($1, 0)", int32(lockHolds))
	check(t, err)
	check(t, <-done)
}

// TestAssumedClock: the lease of a job is that of the clock of the database, although the server expects another time
// because that clock was set.
func TestAssumedClock(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{})
	for i, set := range []time.Duration{0, time.Hour, -time.Hour} {
		c := chained(job.ID(fmt.Sprint("tst_", i)))
		jobs, err := s.Create(t.Context(), c)
		check(t, err)
		j := jobs[0]
		s.memory.clock = s.memory.clock.Add(set)
		var before time.Time
		check(t, s.pool.QueryRow(t.Context(), selectClock).Scan(&before))
		chainOn(t, s, &j, "begin", start)
		if lease := j.Until.Sub(before); lease < time.Hour-clockTolerance || lease > time.Hour+time.Minute {
			t.Errorf("the clock was set by %s: a lease of %s", set, lease)
		}
	}
}

// TestAssumedCounters: a server that has the database alone assumes the counters that new jobs raise. They have
// different numbers even if that is wrong.
func TestAssumedCounters(t *testing.T) {
	r := &tracer{seen: map[string][]any{}}
	s := openStore(t, newDatabase(t), Options{CallerTime: true, LeadEvery: time.Hour, tracer: r})
	ctx := t.Context()
	for s.others.Load() { // at first, the connection that opened the store counts as another server
		check(t, s.pool.Ping(ctx))
	}
	var numbers []int64
	create := func(id job.ID, raised, read bool) {
		t.Helper()
		r.reset()
		jobs, err := s.Create(ctx, chained(id))
		check(t, err)
		numbers = append(numbers, jobs[0].Number)
		if r.saw(raiseAssumed) != raised || r.saw(readsDue) != read {
			t.Errorf("%s: %v", id, r.statements())
		}
	}
	create("tst_1", false, true)
	create("tst_2", true, false)
	_, err := s.pool.Exec(ctx, "UPDATE given SET n = n + 10")
	check(t, err)
	create("tst_3", true, true)
	if want := []int64{1, 2, 13}; !slices.Equal(numbers, want) {
		t.Errorf("numbers %v, want %v", numbers, want)
	}
}

// TestRowTypes: the composite types of the schema have the columns of the program, in their order.
func TestRowTypes(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{})
	for row, want := range map[string]string{
		made.row: made.names(""), now.row: now.names("") + ", was", transition.row: transition.names("") + ", was",
		events.row: events.names(""), tallies.row: tallies.names(""),
	} {
		rows, err := s.pool.Query(t.Context(), `SELECT attname::text FROM pg_attribute
 WHERE attrelid = $1::text::regclass ORDER BY attnum`, row)
		check(t, err)
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		check(t, err)
		if got := strings.Join(names, ", "); got != want {
			t.Errorf("%s has %s, want %s", row, got, want)
		}
	}
}
