package postgres

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
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

// TestRecent: the store remembers the records that were written last, and not more than it should.
func TestRecent(t *testing.T) {
	var r recent
	for i := range 5 * mostRecent {
		r.put(&record{job: job.Job{ID: job.ID(fmt.Sprint(i)), Owner: fmt.Sprint(i)}})
		if n := len(r.newer) + len(r.older); n > 2*mostRecent {
			t.Fatalf("%d records after %d", n, i)
		}
	}
	for i, want := range map[int]bool{5*mostRecent - 1: true, 4 * mostRecent: true, 0: false} {
		one := r.get(job.ID(fmt.Sprint(i)))
		if known := one != nil; known != want || known && one.job.Owner != fmt.Sprint(i) {
			t.Errorf("job %d: %v", i, one)
		}
	}
	r.drop(job.ID(fmt.Sprint(4 * mostRecent)))
	if r.get(job.ID(fmt.Sprint(4*mostRecent))) != nil {
		t.Error("a dropped record is remembered")
	}
	if r.forget(); r.get(job.ID(fmt.Sprint(5*mostRecent-1))) != nil {
		t.Error("a record is remembered after forget")
	}
}

// checkRecent compares what the store remembers with what the database has. It returns how many records it compared.
func checkRecent(t *testing.T, s *Store) (n int) {
	t.Helper()
	for _, list := range []map[job.ID]*record{s.recent.newer, s.recent.older} {
		for id, got := range list {
			var want record
			err := s.read(t.Context(), "check", id, func(r *reader) error {
				found, err := all(r, scanRecord, selectRecord+"WHERE m.id = $1", pg.Stored(string(id)))
				if err == nil && len(found) != 1 {
					err = fmt.Errorf("%d records", len(found))
				}
				if err == nil {
					want = *found[0]
				}
				return err
			})
			check(t, err)
			if one := *got; one.waits == waitsDue && want.waits == waitsTurn { // it became due: the lock reads that
				one.waits = waitsTurn
				got = &one
			}
			if diff := cmp.Diff(want, *got, cmp.AllowUnexported(record{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("remembered, -in the database +remembered: %s", diff)
			}
			n++
		}
	}
	return n
}

// TestLongContents: a transition does not write the data of its job again if that stays, which PostgreSQL keeps outside
// of the row. The control changes the data.
func TestLongContents(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{CallerTime: true})
	ctx := t.Context()
	data := func(seed uint64) json.RawMessage {
		b := make([]byte, 30_000)
		r := rand.New(rand.NewPCG(seed, 1))
		for i := range b {
			b[i] = "0123456789abcdef"[r.IntN(16)]
		}
		return json.RawMessage(`"` + string(b) + `"`)
	}
	jobs, err := s.Create(ctx, newJob(storetest.Step, "tst_1", func(j *job.Job) { j.Data = data(1) }))
	check(t, err)
	size := func() (n int64) {
		t.Helper()
		check(t, s.pool.QueryRow(ctx, `SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE relname = 'job_now'`).
			Scan(&n))
		return n
	}
	j, before := jobs[0], size()
	commit := func(c job.Change) {
		t.Helper()
		r, err := s.Commit(ctx, c)
		check(t, moved(r, err))
		j = r[0].Job
	}
	for i := range 10 {
		commit(job.Change{Job: j.ID, Version: j.Version, From: j.State, Event: "next", To: chain[i%2],
			By: lifecycle.Worker, Actor: "worker-1", At: start})
	}
	if after := size(); before == 0 || after != before {
		t.Errorf("the contents grew from %d to %d bytes", before, after)
	}
	other := data(2)
	commit(job.Change{Job: j.ID, Version: j.Version, At: start, Set: job.Fields{Data: other}})
	if size() == before {
		t.Error("control: changed data was not written")
	}
}

// TestRememberedElsewhere: records that a server remembers were changed by another one, removed there, or exist there
// although they are to be new.
func TestRememberedElsewhere(t *testing.T) {
	database, ctx := newDatabase(t), t.Context()
	r := &tracer{seen: map[string][]any{}}
	a := openStore(t, database, Options{CallerTime: true, tracer: r})
	b := openStore(t, database, Options{CallerTime: true})
	jobs, err := a.Create(ctx, newJob(storetest.Step, "tst_1"), newJob(storetest.Step, "tst_2"))
	check(t, err)
	change := func(s *Store, j job.Job) (job.Job, error) {
		results, err := s.Commit(ctx, job.Change{Job: j.ID, Version: j.Version, At: start})
		check(t, err)
		return results[0].Job, results[0].Err
	}
	r.reset()
	j, err := change(a, jobs[0])
	check(t, err)
	if r.saw(lockJobs) || !r.saw(lockRecent) {
		t.Errorf("control: a remembered record was read: %v", r.statements())
	}
	j, err = change(b, j)
	check(t, err)
	if j, err = change(a, j); err != nil || j.Version != 4 {
		t.Errorf("after a change elsewhere: version %d, %v", j.Version, err)
	}
	gone := jobs[1]
	for _, e := range []lifecycle.Event{"cancel", "delete"} {
		by := pick(e == "cancel", lifecycle.Operator, lifecycle.Timer)
		c, err := storetest.Transition(storetest.Step, gone, e, by, start)
		check(t, err)
		results, err := a.Commit(ctx, c)
		check(t, moved(results, err))
		gone = results[0].Job
	}
	check(t, moved(b.Commit(ctx, job.Change{Job: gone.ID, Version: gone.Version, Purge: true, At: start})))
	if _, err := change(a, gone); job.KindOf(err) != job.NotFound {
		t.Errorf("after a purge elsewhere: %v", err)
	}
	there, err := b.Create(ctx, newJob(storetest.Step, "tst_3"))
	check(t, err)
	_, err = change(b, there[0])
	check(t, err)
	if got, err := a.Create(ctx, newJob(storetest.Step, "tst_3")); err != nil || got[0].Version != 2 {
		t.Errorf("a new job that exists elsewhere: %v, %v", got, err)
	}
}

// TestTrusted: a job that a worker has claimed and the server remembers is neither locked nor read before it is
// written. If it was changed or removed elsewhere, the answers and the records are those of a server that remembers
// nothing.
func TestTrusted(t *testing.T) {
	// before changes a job elsewhere, of which a worker has the claim
	before := map[string]func(t *testing.T, elsewhere *Store, j *job.Job){
		"nothing": func(*testing.T, *Store, *job.Job) {},
		"changed": func(t *testing.T, elsewhere *Store, j *job.Job) {
			results, err := elsewhere.Commit(t.Context(), job.Change{Job: j.ID, Version: j.Version, At: start,
				Set: job.Fields{Message: new("elsewhere")}})
			check(t, moved(results, err))
			*j = results[0].Job
		},
		"cancelled": func(t *testing.T, elsewhere *Store, j *job.Job) {
			transit(t, elsewhere, j, "cancel", lifecycle.Operator)
		},
		"purged": func(t *testing.T, elsewhere *Store, j *job.Job) {
			transit(t, elsewhere, j, "cancel", lifecycle.Operator)
			transit(t, elsewhere, j, "delete", lifecycle.Timer)
			check(t, moved(elsewhere.Commit(t.Context(), job.Change{Job: j.ID, Version: j.Version, Purge: true,
				At: start})))
		},
	}
	// known is the job as its worker has it, present as it is
	ops := map[string]func(known, present *job.Job) job.Change{
		"move": func(known, _ *job.Job) job.Change {
			c, err := storetest.Transition(storetest.Step, *known, "begin", lifecycle.Worker, start)
			check(t, err)
			return c
		},
		"set": func(known, _ *job.Job) job.Change {
			return job.Change{Job: known.ID, Epoch: known.Epoch, At: start}
		},
		"newest": func(_, now *job.Job) job.Change {
			return job.Change{Job: now.ID, Version: now.Version, At: start}
		},
		"stale": func(known, _ *job.Job) job.Change {
			return job.Change{Job: known.ID, Version: known.Version + 5, At: start}
		},
		"stop": func(_, now *job.Job) job.Change { // the first entry of the audit log if nothing was stopped before
			waiting := *now
			waiting.Position = storetest.Step.Start()
			c, err := storetest.Transition(storetest.Step, waiting, "cancel", lifecycle.Operator, start)
			check(t, err)
			return c
		},
		"purge": func(_, now *job.Job) job.Change {
			return job.Change{Job: now.ID, Version: now.Version, Purge: true, At: start}
		},
	}
	for was, changed := range before {
		for name, op := range ops {
			t.Run(was+" "+name, func(t *testing.T) { testTrusted(t, was == "nothing", changed, op) })
		}
	}
}

// transit moves a job.
func transit(t *testing.T, s *Store, j *job.Job, event lifecycle.Event, by lifecycle.Actor) {
	t.Helper()
	c, err := storetest.Transition(storetest.Step, *j, event, by, start)
	check(t, err)
	results, err := s.Commit(t.Context(), c)
	check(t, moved(results, err))
	*j = results[0].Job
}

func testTrusted(
	t *testing.T, trusted bool, before func(*testing.T, *Store, *job.Job), op func(known, present *job.Job) job.Change,
) {
	ctx, database, r := t.Context(), newDatabase(t), &tracer{seen: map[string][]any{}}
	elsewhere := openStore(t, database, Options{CallerTime: true})
	trusting := openStore(t, database, Options{CallerTime: true, tracer: r})
	forgetful := openStore(t, database, Options{CallerTime: true})
	var answers []string
	for i, s := range []*Store{trusting, forgetful} {
		id := job.ID(fmt.Sprint("tst_", i))
		made := newJob(storetest.Step, id)
		made.Job, made.Event = job.New(made.Job, lifecycle.Owner, "ann", start) // not in the audit log
		_, err := trusting.Create(ctx, made)
		check(t, err)
		got, err := trusting.Claim(ctx, job.Claim{Worker: "w", N: 2, Now: start, Lease: time.Hour,
			From: from("Waiting")})
		check(t, err)
		known := got[len(got)-1]
		if known.ID != id {
			t.Fatalf("claimed %+v", got)
		}
		present := known
		before(t, elsewhere, &present)
		r.reset()
		results, err := s.Commit(ctx, op(&known, &present))
		check(t, err)
		after, err := elsewhere.Get(ctx, id)
		answers = append(answers, fmt.Sprintf("%v %d %s, then %v %d %s %s", job.KindOf(results[0].Err),
			results[0].Job.Version, results[0].Job.State, job.KindOf(err), after.Version, after.State, after.Message))
		locked, read := r.saw(lockRecent), r.saw(lockJobs)
		if i == 0 && (read || locked == trusted) {
			t.Errorf("read %t, locked %t", read, locked)
		}
		var entries, counted int64
		check(t, elsewhere.pool.QueryRow(ctx, `SELECT coalesce(max(a), 0), coalesce((SELECT n FROM given
 WHERE what = 'audit'), 0) FROM audit`).Scan(&entries, &counted))
		if entries != counted {
			t.Errorf("the audit log has %d entries, %d are counted", entries, counted)
		}
	}
	if answers[0] != answers[1] {
		t.Errorf("%s, a server that remembers nothing: %s", answers[0], answers[1])
	}
	t.Log(answers[0])
}

// TestClaimsGoFirst: in a transaction with the claim of the job that waits, a new job begins in the commit that creates
// it, although its creation came first. The control has no claim.
func TestClaimsGoFirst(t *testing.T) {
	for _, claims := range []bool{true, false} {
		s := openStore(t, newDatabase(t), Options{CallerTime: true})
		ctx := t.Context()
		_, err := s.Create(ctx, newJob(storetest.Step, "tst_waits"))
		check(t, err)
		entered, goOn := make(chan bool, 10), make(chan bool)
		s.beforeFlush = func(*writer) {
			entered <- true
			<-goOn
		}
		var all sync.WaitGroup
		all.Go(func() { check(t, s.KeepClock(ctx, job.KeptClock{Trusted: start})) })
		<-entered
		var made []job.Job
		all.Go(func() {
			c := newJob(storetest.Step, "tst_new")
			c.Chain = &job.Chain{Worker: "w", Lease: time.Hour}
			made, err = s.Create(ctx, c)
		})
		wait := func(n int) {
			for len(s.operations) < n {
				runtime.Gosched()
			}
		}
		if wait(1); claims {
			all.Go(func() {
				_, err := s.Claim(ctx, job.Claim{Worker: "w", N: 1, Now: start, Lease: time.Hour,
					From: from("Waiting")})
				check(t, err)
			})
			wait(2)
		}
		close(goOn)
		all.Wait()
		if check(t, err); made[0].Claimed() != claims {
			t.Errorf("with a claim: %t, the new job has begun: %t", claims, made[0].Claimed())
		}
	}
}

// TestCountersAfterRollback: a transaction that adds a counter begins again, because a job has become due. The counter
// is added by the second attempt.
func TestCountersAfterRollback(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{CallerTime: true})
	ctx := t.Context()
	_, err := s.Create(ctx, newJob(storetest.Step, "tst_due", func(j *job.Job) { j.Due = start.Add(time.Minute) }))
	check(t, err)
	entered, goOn := make(chan bool, 10), make(chan bool)
	s.beforeFlush = func(*writer) {
		entered <- true
		<-goOn
	}
	var all sync.WaitGroup
	all.Go(func() { check(t, s.KeepClock(ctx, job.KeptClock{Trusted: start})) })
	<-entered
	all.Go(func() {
		_, err := s.Claim(ctx, job.Claim{Worker: "w", N: 1, Now: start.Add(time.Hour), Lease: time.Hour,
			From: from("Waiting")})
		check(t, err)
	})
	all.Go(func() {
		_, err := s.Create(ctx, newJob(storetest.Batch, "tst_first"))
		check(t, err)
	})
	for len(s.operations) < 2 {
		runtime.Gosched()
	}
	close(goOn)
	all.Wait()
	made, err := s.Create(ctx, newJob(storetest.Batch, "tst_second"))
	if err != nil || made[0].Number != 2 {
		t.Errorf("got %+v, %v", made, err)
	}
}

// TestRememberedBatch: the batch of a job that ends is locked with the job, in the same round trip. The control has
// forgotten the batch.
func TestRememberedBatch(t *testing.T) {
	ctx := t.Context()
	r := &tracer{seen: map[string][]any{}}
	s := openStore(t, newDatabase(t), Options{CallerTime: true, tracer: r})
	child := func(j *job.Job) { j.Parent = "tst_batch" }
	two := func(j *job.Job) { j.Children.Expected = 2 }
	_, err := s.Create(ctx, newJob(storetest.Batch, "tst_batch", two))
	check(t, err)
	jobs, err := s.Create(ctx, newJob(storetest.Step, "tst_1", child), newJob(storetest.Step, "tst_2", child))
	check(t, err)
	for i, want := range []string{lockRecent, lockJobs} {
		r.reset()
		c, err := storetest.Transition(storetest.Step, jobs[i], "cancel", lifecycle.Operator, start)
		check(t, err)
		check(t, moved(s.Commit(ctx, c)))
		if r.saw(lockRecords) || !r.saw(want) {
			t.Errorf("statements %v, want %s", r.statements(), want)
		}
		s.recent.drop("tst_batch")
	}
	batch, err := s.Get(ctx, "tst_batch")
	check(t, err)
	if batch.Children.Cancelled != 2 {
		t.Errorf("the batch counts %+v", batch.Children)
	}
}

// TestRememberedElsewhereAfterLoss: after the loss of a connection the database may be another one, whose record has
// the same version and another content. The control has lost no connection.
func TestRememberedElsewhereAfterLoss(t *testing.T) {
	ctx := t.Context()
	s := openStore(t, newDatabase(t), Options{CallerTime: true})
	var pid uint32
	s.beforeFlush = func(w *writer) { pid = w.conn.PgConn().PID() }
	jobs, err := s.Create(ctx, newJob(storetest.Step, "tst_1"))
	check(t, err)
	change := func(j job.Job) job.Job {
		t.Helper()
		results, err := s.Commit(ctx, job.Change{Job: j.ID, Version: j.Version, At: start})
		check(t, moved(results, err))
		return results[0].Job
	}
	elsewhere := func() {
		t.Helper()
		_, err := s.pool.Exec(ctx, "UPDATE job_now SET message = 'elsewhere'")
		check(t, err)
	}
	elsewhere()
	j := change(jobs[0])
	if j.Message != "" {
		t.Errorf("control: the message is %q", j.Message)
	}
	elsewhere()
	_, err = s.pool.Exec(ctx, "SELECT pg_terminate_backend($1, 10000)", int32(pid))
	check(t, err)
	if j = change(j); j.Message != "elsewhere" {
		t.Errorf("after a loss the message is %q", j.Message)
	}
}
