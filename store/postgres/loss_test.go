package postgres

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
)

var losses = flag.Int("losses", 5, "TestConnectionLoss loses each connection of this number")

// cutter cuts the connection that writes at one of its calls: instead of a write, after a write, or instead of an
// answer, which has then arrived and is lost.
type cutter struct {
	mu    sync.Mutex // guards all below
	armed bool
	at    int // the call, from 1; 0: none
	calls int
	cut   string // what was cut
}

// cuttable is the connection that writes.
type cuttable struct {
	net.Conn
	*cutter
}

// strikes reports whether the present call is the one that is cut.
func (c *cutter) strikes(what string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.armed {
		return false
	}
	c.calls++
	if c.calls == c.at {
		c.cut = what
	}
	return c.calls == c.at
}

func (c cuttable) Write(b []byte) (int, error) {
	if c.strikes("before a write") {
		_ = c.Conn.Close()
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Write(b)
	if c.strikes("after a write") {
		_ = c.Conn.Close()
		return n, net.ErrClosed
	}
	return n, err
}

func (c cuttable) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.strikes("an answer") {
		_ = c.Conn.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// cuttingStore opens a store whose writer's connection goes through a cutter, from now on.
func cuttingStore(t *testing.T, c *cutter) *Store {
	t.Helper()
	s := openStore(t, newDatabase(t), Options{CallerTime: true, RetryAfter: time.Millisecond,
		OnFailure: func(error) {}})
	s.writerDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return cuttable{conn, c}, err
	}
	c.armed = true
	return s
}

// everything is all that a store has, in a form that is compared.
type everything struct {
	Jobs     []job.Job
	History  map[job.ID][]job.Event
	Tasks    map[job.ID][]job.Task
	Messages []job.Message
	Audit    []job.Audit
	Holds    []job.Hold
	Clock    job.KeptClock
}

func everythingOf(t *testing.T, s *Store) (e everything) {
	t.Helper()
	ctx := t.Context()
	page, err := s.List(ctx, job.Query{Oldest: true, Limit: 1000})
	check(t, err)
	e = everything{Jobs: page.Jobs, History: map[job.ID][]job.Event{}, Tasks: map[job.ID][]job.Task{}}
	for _, j := range page.Jobs {
		e.History[j.ID], err = s.History(ctx, j.ID, 0, 0)
		check(t, err)
		e.Tasks[j.ID], err = s.Tasks(ctx, j.ID)
		check(t, err)
	}
	e.Messages, err = s.Messages(ctx, job.MessageQuery{Limit: 1000})
	check(t, err)
	e.Audit, err = s.Audit(ctx, 0, 1000)
	check(t, err)
	e.Holds, err = s.Holds(ctx)
	check(t, err)
	e.Clock, err = s.KeptClock(ctx)
	check(t, err)
	return e
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// newJob makes a job of the small lifecycle.
func newJob(life *lifecycle.Table, id job.ID, with ...func(*job.Job)) job.Created {
	j := job.Job{ID: id, Kind: job.Kind(life.Name()), Position: life.Start(), Priority: job.DefaultPriority,
		Definition: life.Hash()}
	for _, f := range with {
		f(&j)
	}
	j, e := job.New(j, lifecycle.Operator, "olga", start)
	return job.Created{Job: j, Event: e}
}

// script calls each method that writes, and returns all answers.
func script(ctx context.Context, s *Store) (answers []any, err error) {
	at, step := start, job.Kind(storetest.Step.Name())
	note := func(answer any, failed error) {
		answers = append(answers, answer)
		if err == nil {
			err = failed
		}
	}
	batch := newJob(storetest.Batch, "tst_batch", func(j *job.Job) { j.Children.Expected = 2 })
	child := func(id job.ID) job.Created {
		c := newJob(storetest.Step, id, func(j *job.Job) {
			j.Parent, j.Key, j.Tags = "tst_batch", string(id), []string{"a"}
		})
		c.Outbox = []job.Message{{Key: "m" + string(id), Job: id, Topic: "mail", Created: at, Due: at}}
		return c
	}
	note(s.Create(ctx, batch, child("tst_1")))
	note(s.Create(ctx, child("tst_2")))
	hold := job.Hold{Scope: job.Scope{Job: "tst_2"}, Who: "olga", Since: at}
	note(s.Hold(ctx, hold))
	claim := job.Claim{Worker: "w1", N: 5, Now: at, Lease: time.Minute,
		From: []job.KindState{{Kind: step, State: storetest.Step.Start().State}}}
	got, failed := s.Claim(ctx, claim)
	note(got, failed)
	note(s.Release(ctx, hold))
	if failed != nil || len(got) != 1 {
		return answers, fmt.Errorf("claimed %v: %w", got, failed)
	}
	j := got[0]
	note(s.Renew(ctx, job.Renewal{Worker: "w1", Leases: []job.Lease{{Job: j.ID, Epoch: j.Epoch}}, Lease: time.Hour,
		Now: at}))
	for _, e := range []lifecycle.Event{"begin", "next", "finish"} {
		c, failed := storetest.Transition(storetest.Step, j, e, lifecycle.Worker, at)
		if failed != nil {
			return answers, failed
		}
		c.Chain = &job.Chain{Worker: "w1", Lease: time.Minute}
		c.Tasks = []job.Task{{Name: string(e), Kind: "x", State: "y", Changed: at}}
		c.Set.Data = json.RawMessage(`{"event":"` + string(e) + `"}`)
		r, failed := s.Commit(ctx, c)
		note(r, failed)
		if failed != nil {
			return answers, failed
		}
		j = r[0].Job
	}
	note(s.Take(ctx, job.Taking{N: 1, Lease: time.Minute, Now: at}))
	note(nil, s.Settle(ctx, job.Message{Key: "mtst_1", Settled: job.Delivered}))
	note(s.Replay(ctx, at, "mtst_1"))
	note(nil, s.Note(ctx, job.Audit{By: lifecycle.Operator, Actor: "olga", Event: "break-lock", At: at}))
	note(nil, s.KeepClock(ctx, job.KeptClock{Trusted: at}))
	return answers, err
}

// TestConnectionLoss loses the connection that writes at every call in turn. Each operation is carried out once, and
// its answer is that of a run without losses.
func TestConnectionLoss(t *testing.T) {
	calm := &cutter{}
	s := cuttingStore(t, calm)
	wantAnswers, err := script(t.Context(), s)
	check(t, err)
	want := everythingOf(t, s)
	closeStore(t, s)
	kinds := map[string]int{}
	at := 1
	for ; ; at += *losses {
		c := &cutter{at: at}
		s := cuttingStore(t, c)
		answers, err := script(t.Context(), s)
		if err != nil {
			t.Errorf("call %d, %s: %v", at, c.cut, err)
		}
		what := fmt.Sprintf("call %d, %s", at, c.cut)
		if diff := cmp.Diff(wantAnswers, answers, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: answers (-without a loss +with it):\n%s", what, diff)
		}
		if diff := cmp.Diff(want, everythingOf(t, s), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: (-without a loss +with it):\n%s", what, diff)
		}
		for _, fault := range storetest.Check(t.Context(), s, storetest.Step, storetest.Batch) {
			t.Errorf("%s: %s", what, fault)
		}
		closeStore(t, s)
		if c.cut == "" { // there are no more calls
			break
		}
		kinds[c.cut]++
	}
	t.Logf("of %d calls: %v", calm.calls, kinds)
	for _, what := range []string{"before a write", "after a write", "an answer"} {
		if kinds[what] == 0 {
			t.Errorf("losses: %v, none %s", kinds, what)
		}
	}
	if at < calm.calls-calm.calls/20 { // how many reads an answer takes differs from run to run
		t.Errorf("call %d of %d was not lost", at, calm.calls)
	}
}

// TestAnswerLost loses the answer of a commit. The control is a store whose attempts have numbers of their own: it
// makes the entry twice.
func TestAnswerLost(t *testing.T) {
	for _, control := range []bool{false, true} {
		c := &cutter{}
		s := cuttingStore(t, c)
		if control {
			s.afterFailure = func(w *writer) { w.seq++ }
		}
		note := func(actor string) {
			t.Helper()
			entry := job.Audit{By: lifecycle.Operator, Actor: actor, Event: "break-lock", At: start}
			check(t, s.Note(t.Context(), entry))
		}
		note("first") // with the queries that a new connection needs
		note("second")
		calls := c.calls
		note("third")
		c.mu.Lock()
		c.at = c.calls + c.calls - calls // the last answer of the next note
		c.mu.Unlock()
		note("fourth")
		entries, err := s.Audit(t.Context(), 0, 10)
		check(t, err)
		want := 4
		if control {
			want = 5
		}
		if len(entries) != want || c.cut != "an answer" {
			t.Errorf("control %v: %d entries after the loss of %s, want %d", control, len(entries), c.cut, want)
		}
	}
}

// TestTerminated terminates the backend of the writer before each kind of transaction is written.
func TestTerminated(t *testing.T) {
	var failures []string
	s := openStore(t, newDatabase(t), Options{CallerTime: true, RetryAfter: time.Millisecond,
		OnFailure: func(err error) { failures = append(failures, err.Error()) }})
	want := openStore(t, newDatabase(t), Options{CallerTime: true})
	wantAnswers, err := script(t.Context(), want)
	check(t, err)
	terminated := map[int64]bool{}
	s.beforeFlush = func(w *writer) {
		if terminated[w.seq] {
			return
		}
		terminated[w.seq] = true
		terminate := fmt.Sprintf("SELECT pg_terminate_backend(%d, 5000)", w.conn.PgConn().PID())
		check(t, testServer.Exec("postgres", terminate))
	}
	answers, err := script(t.Context(), s)
	check(t, err)
	if diff := cmp.Diff(wantAnswers, answers, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("answers (-without +with terminated backends):\n%s", diff)
	}
	if diff := cmp.Diff(everythingOf(t, want), everythingOf(t, s), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-without +with terminated backends):\n%s", diff)
	}
	if len(terminated) < 10 || len(failures) < len(terminated) {
		t.Errorf("%d transactions, failures %q", len(terminated), failures)
	}
}

// TestDeadlock makes the store the victim of a deadlock: it tries again.
func TestDeadlock(t *testing.T) {
	var failures []error
	database := newDatabase(t)
	s := openStore(t, database, Options{CallerTime: true,
		OnFailure: func(err error) { failures = append(failures, err) }})
	jobs, err := s.Create(t.Context(), newJob(storetest.Step, "tst_1"), newJob(storetest.Step, "tst_2"))
	check(t, err)
	conn, err := s.connect(t.Context())
	check(t, err)
	defer func() { check(t, conn.Close(t.Context())) }()
	exec := func(statement string) {
		t.Helper()
		_, err := conn.Exec(t.Context(), statement)
		check(t, err)
	}
	lock := func(id job.ID) {
		exec("SELECT FROM job_now WHERE n = (SELECT n FROM job_made WHERE id = '" + string(id) + "') FOR UPDATE")
	}
	exec("SET deadlock_timeout = '1min'") // the other one notices first
	exec("BEGIN")
	lock("tst_2")
	result := make(chan error, 1)
	go func() {
		r, err := s.Commit(t.Context(), job.Change{Job: "tst_1", Version: jobs[0].Version, At: start},
			job.Change{Job: "tst_2", Version: jobs[1].Version, At: start})
		if err == nil && (r[0].Err != nil || r[1].Err != nil) {
			err = fmt.Errorf("results %v", r)
		}
		result <- err
	}()
	waitForLock(t, s)
	lock("tst_1")
	exec("COMMIT")
	check(t, <-result)
	if len(failures) == 0 || pg.State(failures[0]) != "40P01" {
		t.Errorf("failures %v, want a deadlock", failures)
	}
	for i, j := range jobs {
		if got, err := s.Get(t.Context(), j.ID); err != nil || got.Version != jobs[i].Version+1 {
			t.Errorf("%s has version %d, %v", j.ID, got.Version, err)
		}
	}
}

// waitForLock waits until a transaction of the store waits for a lock of another one.
func waitForLock(t *testing.T, s *Store) {
	t.Helper()
	for {
		var waiting bool
		err := s.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
 WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waiting)
		check(t, err)
		if waiting {
			return
		}
	}
}
