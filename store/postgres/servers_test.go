package postgres

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/internal/pgtest"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
)

var crashes = flag.Int("crashes", 3, "crashes of the database server in TestServerCrash")

var stepKind = job.Kind(storetest.Step.Name())

func from(state lifecycle.State) []job.KindState {
	return []job.KindState{{Kind: stepKind, State: state}}
}

// TestRollUp ends the last two jobs of a batch in two transactions that overlap. The second one waits for the first,
// and sees its end: the batch is settled, and due at once. Without the lock of the batch each would see the other job
// as open (write skew), which READ COMMITTED permits; the test then waits in vain.
func TestRollUp(t *testing.T) {
	database := newDatabase(t)
	a, b := openStore(t, database, Options{CallerTime: true}), openStore(t, database, Options{CallerTime: true})
	ctx := t.Context()
	batch := newJob(storetest.Batch, "tst_batch", func(j *job.Job) { j.Children.Expected = 2 })
	of := func(j *job.Job) { j.Parent = "tst_batch" }
	jobs, err := a.Create(ctx, batch, newJob(storetest.Step, "tst_1", of), newJob(storetest.Step, "tst_2", of))
	check(t, err)
	cancel := func(s *Store, j job.Job) error {
		c, err := storetest.Transition(storetest.Step, j, "cancel", lifecycle.Operator, start)
		check(t, err)
		r, err := s.Commit(ctx, c)
		if err == nil {
			err = r[0].Err
		}
		return err
	}
	second := make(chan error, 1)
	a.beforeFlush = func(*writer) { // the first transaction has read what it needs, and waits for the second one
		go func() { second <- cancel(b, jobs[2]) }()
		waitForLock(t, a)
	}
	check(t, cancel(a, jobs[1]))
	check(t, <-second)
	got, err := b.Get(ctx, "tst_batch")
	check(t, err)
	if !got.Children.Settled() || got.Children.Cancelled != 2 || got.Version != jobs[0].Version+2 {
		t.Errorf("the batch has version %d and %+v", got.Version, got.Children)
	}
}

// TestFailsAlone commits two changes in one transaction. One has a text that the database cannot store: it fails, the
// other one does not.
func TestFailsAlone(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{CallerTime: true, OnFailure: func(error) {}})
	ctx := t.Context()
	jobs, err := s.Create(ctx, newJob(storetest.Step, "tst_1"), newJob(storetest.Step, "tst_2"),
		newJob(storetest.Step, "tst_3"))
	check(t, err)
	entered, proceed := make(chan bool), make(chan bool)
	var sizes []int
	first := true
	s.beforeFlush = func(*writer) {
		if first {
			first = false
			close(entered)
			<-proceed
		}
	}
	s.grouped = func(n int) { sizes = append(sizes, n) }
	commit := func(i int, set job.Fields) error {
		_, err := s.Commit(ctx, job.Change{Job: jobs[i].ID, Version: jobs[i].Version, At: start, Set: set})
		return err
	}
	var errs [3]error
	var all sync.WaitGroup
	all.Go(func() { errs[0] = commit(0, job.Fields{}) })
	<-entered
	long := make([]byte, 2*job.MostText) // with its escapes, longer than an entry of an index
	random := rand.New(rand.NewPCG(1, 2))
	for i := range long {
		long[i] = byte(0x80 + random.IntN(0x80))
	}
	all.Go(func() {
		_, errs[1] = s.Create(ctx, newJob(storetest.Step, "tst_long", func(j *job.Job) {
			j.Key, j.Owner = string(long[:job.MostText]), string(long[job.MostText:])
		}))
	})
	all.Go(func() { errs[2] = commit(2, job.Fields{}) })
	for len(s.operations) < 2 { // until both wait
		runtime.Gosched()
	}
	close(proceed)
	all.Wait()
	if errs[0] != nil || job.KindOf(errs[1]) != job.Invalid || errs[2] != nil {
		t.Errorf("results %v", errs)
	}
	if len(sizes) != 2 || sizes[1] != 2 {
		t.Errorf("transactions of %v operations, want 1 and 2", sizes)
	}
}

// TestDatabaseClock has callers whose clocks are a day ahead and a day behind.
func TestDatabaseClock(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{})
	ctx, now := t.Context(), time.Now()
	soon := newJob(storetest.Step, "tst_soon", func(j *job.Job) { j.Due = now.Add(time.Hour) })
	letter := job.Message{Key: "m", Job: "tst_now", Topic: "mail", Created: now, Due: now.Add(time.Hour)}
	other := newJob(storetest.Step, "tst_now", func(j *job.Job) { j.Due = now.Add(-time.Hour) })
	other.Outbox = []job.Message{letter}
	_, err := s.Create(ctx, soon, other)
	check(t, err)
	for _, clock := range []time.Time{now.AddDate(0, 0, 1), now.AddDate(0, 0, -1)} {
		f, err := s.Peek(ctx, job.Claim{Worker: "w1", N: 9, Now: clock, From: from("Waiting")}, "")
		check(t, err)
		if len(f.Next) != 1 || f.Next[0] != "tst_now" {
			t.Errorf("the forecast is %v", f.Next)
		}
		got, err := s.Claim(ctx, job.Claim{Worker: "w1", N: 9, Now: clock, Lease: time.Minute, From: from("Waiting")})
		check(t, err)
		if len(got) != 1 || got[0].ID != "tst_now" || got[0].Until.Before(now) ||
			got[0].Until.After(time.Now().Add(2*time.Minute)) {
			t.Fatalf("claimed %+v", got)
		}
		late, err := s.Overdue(ctx, clock, nil, 9)
		if err != nil || len(late) > 0 {
			t.Errorf("overdue %v, %v", late, err)
		}
		taken, err := s.Take(ctx, job.Taking{N: 9, Now: clock, Lease: time.Minute})
		if err != nil || len(taken) > 0 {
			t.Errorf("taken %v, %v", taken, err)
		}
		lost, err := s.Renew(ctx, job.Renewal{Worker: "w1", Leases: []job.Lease{{Job: got[0].ID, Epoch: got[0].Epoch}},
			Lease: time.Hour, Now: clock})
		j, err2 := s.Get(ctx, "tst_now")
		if errors.Join(err, err2) != nil || len(lost) > 0 || j.Until.Before(now.Add(time.Hour)) ||
			j.Until.After(time.Now().Add(61*time.Minute)) {
			t.Errorf("renewed until %v, lost %v, %v", j.Until, lost, err)
		}
		r, err := s.Commit(ctx, job.Change{Job: j.ID, Epoch: j.Epoch, At: now})
		if err != nil || r[0].Err != nil {
			t.Fatal(err, r)
		}
	}
}

// TestHints notifies a server of the changes of another one; without hints, claims find the jobs as well.
func TestHints(t *testing.T) {
	database := newDatabase(t)
	a, b := openStore(t, database, Options{CallerTime: true}), openStore(t, database, Options{CallerTime: true})
	ctx := t.Context()
	hints := make(chan job.Hint, 1000)
	b.Watch(ctx, func(list []job.Hint) {
		for _, h := range list {
			select {
			case hints <- h:
			default:
			}
		}
	})
	create := func(n int) {
		t.Helper()
		_, err := a.Create(ctx, newJob(storetest.Step, job.ID(fmt.Sprint("tst_", n))))
		check(t, err)
	}
	hinted := func(from int) int {
		t.Helper()
		for n := from; ; n++ { // the listener may not be connected yet
			create(n)
			select {
			case h := <-hints:
				if h.Kind != stepKind || h.State != "Waiting" {
					t.Errorf("hint %+v", h)
				}
				if h.Free { // not one of an earlier claim
					return n + 1
				}
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	n := hinted(1)
	_, err := a.Hold(ctx, job.Hold{Scope: job.Scope{Kind: stepKind}, Who: "ann", Why: "x", Since: start})
	check(t, err)
	_, err = a.Release(ctx, job.Hold{Scope: job.Scope{Kind: stepKind}, Who: "ann", Why: "y", Since: start})
	check(t, err)
	late := time.After(10 * time.Second)
	awaited := func(what string, is func(h job.Hint) bool) {
		t.Helper()
		for found := false; !found; { // hints of jobs come before
			select {
			case h := <-hints:
				found = is(h)
			case <-late:
				t.Fatalf("no hint of %s came", what)
			}
		}
	}
	awaited("the release", func(h job.Hint) bool { return h.Released })
	ends := start.Add(time.Hour)
	for _, until := range []time.Time{{}, ends} {
		_, err := a.Hold(ctx, job.Hold{Scope: job.Scope{Kind: "another"}, Who: "ann", Since: start, Until: until})
		check(t, err)
	}
	awaited("a hold that ends by itself", func(h job.Hint) bool { return h.Until.Equal(ends) })
	const listeners = `SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
 WHERE datname = current_database() AND application_name = 'stagepost listener'`
	var ended int
	check(t, a.pool.QueryRow(ctx, listeners).Scan(&ended))
	if ended != 2 {
		t.Errorf("%d listeners", ended)
	}
	create(n)
	got, err := b.Claim(ctx, job.Claim{Worker: "w1", N: 1000, Now: start, Lease: time.Minute, From: from("Waiting")})
	if err != nil || len(got) != n {
		t.Errorf("claimed %d of %d jobs without hints, %v", len(got), n, err)
	}
	for len(hints) > 0 {
		<-hints
	}
	hinted(n + 1) // the listener has connected again
}

// TestUnavailable has no connection left for reads, and then no database.
func TestUnavailable(t *testing.T) {
	database := newDatabase(t)
	s := openStore(t, database, Options{CallerTime: true, Connections: 1, Patience: 100 * time.Millisecond,
		OnFailure: func(error) {}})
	ctx := t.Context()
	conn, err := s.pool.Acquire(ctx)
	check(t, err)
	short, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	if _, err := s.Get(short, "tst_1"); job.KindOf(err) != job.Unavailable {
		t.Errorf("a read without a connection: %v", err)
	}
	if _, err := s.Create(ctx, newJob(storetest.Step, "tst_1")); err != nil {
		t.Errorf("a write while all connections for reads are in use: %v", err)
	}
	conn.Release()
	name := database[strings.LastIndex(database, "=")+1:]
	check(t, testServer.Exec("postgres", "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false"))
	check(t, testServer.Exec("postgres",
		"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '"+name+"'"))
	if _, err := s.Create(ctx, newJob(storetest.Step, "tst_2")); job.KindOf(err) != job.Unavailable {
		t.Errorf("a write without a database: %v", err)
	}
	if _, err := s.Get(ctx, "tst_1"); job.KindOf(err) != job.Unavailable {
		t.Errorf("a read without a database: %v", err)
	}
	check(t, testServer.Exec("postgres", "ALTER DATABASE "+name+" ALLOW_CONNECTIONS true"))
	if _, err := s.Create(ctx, newJob(storetest.Step, "tst_3")); err != nil {
		t.Errorf("a write when the database is back: %v", err)
	}
	check(t, s.Close())
	if _, err := s.Create(ctx, newJob(storetest.Step, "tst_4")); job.KindOf(err) != job.Unavailable {
		t.Errorf("a write after the store was closed: %v", err)
	}
	if _, err := s.Get(ctx, "tst_1"); job.KindOf(err) != job.Unavailable {
		t.Errorf("a read after the store was closed: %v", err)
	}
}

// TestServerCrash ends the database server as a crash does, several times, while two stores work. They go on when it is
// back, and have all that was acknowledged.
func TestServerCrash(t *testing.T) {
	if errServer != nil {
		t.Fatal(errServer)
	}
	server, err := pgtest.New("fsync=off")
	check(t, err)
	defer func() { check(t, server.Stop()) }()
	var failures atomic.Int64
	options := Options{Unsynced: true, Patience: time.Minute, OnFailure: func(error) { failures.Add(1) }}
	var stores [2]*Store
	for i := range stores {
		stores[i], err = Open(t.Context(), server.URL("postgres"), options)
		check(t, err)
		defer closeStore(t, stores[i])
	}
	var done atomic.Int64
	var ended atomic.Bool
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			s := stores[i%2]
			for n := 0; !ended.Load(); n++ {
				if err := oneJob(t.Context(), s, job.ID(fmt.Sprintf("tst_%d_%d", i, n))); err != nil {
					t.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	reach := func(n int64) {
		for goal := done.Load() + n; done.Load() < goal && !t.Failed(); {
			runtime.Gosched()
		}
	}
	for range *crashes {
		reach(50)
		check(t, server.End(syscall.SIGQUIT))
		check(t, server.Start())
	}
	reach(50)
	ended.Store(true)
	all.Wait()
	for _, fault := range storetest.Check(t.Context(), stores[0], storetest.Step, storetest.Batch) {
		t.Error(fault)
	}
	tallies, err := stores[1].Count(t.Context())
	check(t, err)
	if len(tallies) != 1 || tallies[0].Jobs != done.Load() || tallies[0].State != "Running" || failures.Load() < 3 {
		t.Errorf("%d jobs, tallies %+v, %d failures", done.Load(), tallies, failures.Load())
	}
	t.Logf("%d jobs, %d failures", done.Load(), failures.Load())
}

// oneJob creates a job that is claimed at once, and moves it. Each step happens once, whatever fails.
func oneJob(ctx context.Context, s *Store, id job.ID) error {
	c := newJob(storetest.Step, id)
	jobs, err := s.Create(ctx, c)
	if err != nil {
		return err
	}
	move, err := storetest.Transition(storetest.Step, jobs[0], "begin", lifecycle.Worker, time.Now())
	if err != nil {
		return err
	}
	r, err := s.Commit(ctx, move)
	if err != nil || r[0].Err != nil {
		return fmt.Errorf("%s: %w", id, errors.Join(err, r[0].Err))
	}
	return nil
}

// TestVerify changes what the database has: an entry of a history, one of the audit log, and removes others.
func TestVerify(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{CallerTime: true})
	ctx := t.Context()
	_, err := script(ctx, s)
	check(t, err)
	lives := func(kind job.Kind) *lifecycle.Table {
		if kind == stepKind {
			return storetest.Step
		}
		return storetest.Batch
	}
	verify := func(id job.ID) (found []string) {
		t.Helper()
		checked, _, err := s.Verify(ctx, id, lives, func(id job.ID, err error) {
			found = append(found, fmt.Sprint(id, ": ", err))
		})
		if err != nil || checked != 3 && id == "" {
			t.Errorf("%d jobs were checked, %v", checked, err)
		}
		return found
	}
	if got := verify(""); len(got) > 0 {
		t.Errorf("before a change: %q", got)
	}
	for _, c := range []struct{ statement, want string }{
		{"UPDATE event SET note = 'x' WHERE seq = 2", "tst_1: entry 2 (begin) does not match its hash"},
		{"DELETE FROM event WHERE seq = 2", "tst_1: entry 2 is missing"},
		{"DELETE FROM audit WHERE a = (SELECT max(a) FROM audit)", ": the last entries of the audit log are missing"},
		{"UPDATE audit SET who = 'eve' WHERE a = 3", ": audit entry 3 ("},
	} {
		_, err := s.pool.Exec(ctx, c.statement)
		check(t, err)
		if got := verify(""); len(got) == 0 || !strings.HasPrefix(got[len(got)-1], c.want) {
			t.Errorf("after %s: %q, want %q", c.statement, got, c.want)
		}
	}
	if got := verify("tst_2"); len(got) > 0 {
		t.Errorf("a job that was not changed: %q", got)
	}
}

// TestVerifyNewer has entries that a newer server wrote, with a field that this one does not have, while this one runs.
// They are not reported as changed. Controls: the same without a newer server, and what this one writes.
func TestVerifyNewer(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{CallerTime: true})
	ctx := t.Context()
	_, err := script(ctx, s)
	check(t, err)
	for _, statement := range []string{"ALTER TABLE event ADD COLUMN moon text NOT NULL DEFAULT ''",
		"UPDATE event SET moon = 'full', form = 1, hash = sha256(hash) WHERE seq = 2",
		"UPDATE audit SET form = 1, hash = sha256(hash) WHERE a = 2"} {
		_, err := s.pool.Exec(ctx, statement)
		check(t, err)
	}
	verify := func() (found []string) {
		t.Helper()
		life := func(job.Kind) *lifecycle.Table { return storetest.Step }
		_, _, err := s.Verify(ctx, "", life, func(id job.ID, err error) {
			found = append(found, fmt.Sprint(id, ": ", err))
		})
		check(t, err)
		return found
	}
	compare := func(when string, got []string, want ...string) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%s: %q", when, got)
		}
		for i := range want {
			if !strings.Contains(got[i], want[i]) {
				t.Errorf("%s: %q, want %q", when, got[i], want[i])
			}
		}
	}
	compare("without a newer server", verify(), "tst_1: entry 2 (begin) does not match its hash", ": audit entry 2 (")
	_, err = s.pool.Exec(ctx, "INSERT INTO schema_version VALUES (99, 'later')")
	check(t, err)
	const newer = "was written by a newer version of Stagepost"
	compare("beside a newer server", verify(), "tst_1: entry 2 (begin) "+newer,
		": audit entry 2 (create by olga) "+newer)
	history, err := s.History(ctx, "tst_1", 0, 0)
	if err != nil || !history[1].Newer || history[2].Newer {
		t.Errorf("%+v, %v", history, err)
	}
	check(t, oneJob(ctx, s, "tst_9"))
	compare("after more commits", verify(), "tst_1: entry 2 (begin) "+newer, newer)
}

// TestVerifyAudit changes an entry of the audit log, removes one in the middle, exchanges two, and cuts the end off.
// The control is the log as it was.
func TestVerifyAudit(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{CallerTime: true})
	ctx := t.Context()
	for range 5 {
		check(t, s.Note(ctx, job.Audit{By: lifecycle.Operator, Actor: "olga", Event: "test", At: time.Unix(1e9, 0)}))
	}
	_, err := s.pool.Exec(ctx, "CREATE TABLE kept AS TABLE audit")
	check(t, err)
	for _, c := range []struct{ spoil, want string }{
		{"SELECT 1", ""},
		{"UPDATE audit SET note = 'x' WHERE a = 2", "audit entry 2 ("},
		{"DELETE FROM audit WHERE a = 3", "audit entry 3 is missing"},
		{"DELETE FROM audit WHERE a = 1", "audit entry 1 is missing"},
		{"UPDATE audit SET a = CASE a WHEN 3 THEN -4 ELSE -3 END WHERE a IN (3, 4); " +
			"UPDATE audit SET a = -a WHERE a < 0", "audit entry 3 ("},
		{"DELETE FROM audit WHERE a > 3", "the last entries of the audit log are missing"},
		{"DELETE FROM audit", "the last entries of the audit log are missing"},
		{"SELECT 1", ""},
	} {
		_, err := s.pool.Exec(ctx, c.spoil)
		check(t, err)
		var found []string
		_, _, err = s.Verify(ctx, "", func(job.Kind) *lifecycle.Table { return nil },
			func(_ job.ID, err error) { found = append(found, err.Error()) })
		check(t, err)
		if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 || !strings.HasPrefix(found[0], c.want)) {
			t.Errorf("after %s: %q, want %q", c.spoil, found, c.want)
		}
		_, err = s.pool.Exec(ctx, "DELETE FROM audit; INSERT INTO audit SELECT * FROM kept")
		check(t, err)
	}
}

// TestTidy removes the lanes that have no jobs, and only those.
func TestTidy(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{CallerTime: true})
	ctx := t.Context()
	for i := range 20 {
		c := newJob(storetest.Step, job.ID(fmt.Sprint("tst_", i)), func(j *job.Job) { j.Owner = fmt.Sprint("o", i) })
		_, err := s.Create(ctx, c)
		check(t, err)
	}
	got, err := s.Claim(ctx, job.Claim{Worker: "w1", N: 15, Now: start, Lease: time.Minute, From: from("Waiting")})
	check(t, err)
	for i := range got[:10] {
		c, err := storetest.Transition(storetest.Step, got[i], "begin", lifecycle.Worker, start)
		check(t, err)
		c.Ended, c.To.State = true, "Stopped"
		_, err = s.Commit(ctx, c)
		check(t, err)
	}
	count := func(table string) (n int) {
		t.Helper()
		check(t, s.pool.QueryRow(ctx, "SELECT count(*) FROM "+table).Scan(&n))
		return n
	}
	if lanes := count("lane"); lanes != 20 {
		t.Errorf("%d lanes", lanes)
	}
	check(t, s.tidy(ctx))
	if lanes, turns := count("lane"), count("turn"); lanes != 10 || turns != 5 {
		t.Errorf("%d lanes and %d turns are left, want 10 and 5", lanes, turns)
	}
	got, err = s.Claim(ctx, job.Claim{Worker: "w1", N: 15, Now: start, Lease: time.Minute, From: from("Waiting")})
	if err != nil || len(got) != 5 {
		t.Errorf("claimed %d, %v", len(got), err)
	}
}

// TestErrors gives errors of PostgreSQL their kinds.
func TestErrors(t *testing.T) {
	for code, want := range map[string]job.ErrorKind{
		"40001": job.Unavailable, "40P01": job.Unavailable, "57P01": job.Unavailable, "08006": job.Unavailable,
		"53300": job.Unavailable, "55P03": job.Unavailable, "53100": job.Unavailable, "22003": job.Internal,
		"42P01": job.Internal, "XX001": job.Internal,
	} {
		err := wrapped("commit", fmt.Errorf("flush: %w", &pgconn.PgError{Code: code}))
		if job.KindOf(err) != want || job.IsFull(err) != (code == pg.DiskFull) {
			t.Errorf("%s: %v of kind %s, want %s", code, err, job.KindOf(err), want)
		}
	}
	err := wrapped("commit", persistent{&pgconn.PgError{Code: pg.UniqueViolation}})
	if job.KindOf(err) != job.Internal {
		t.Errorf("a unique violation that remains: %v", err)
	}
}
