package postgres

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
)

var costJobs = flag.Int("cost-jobs", 12_000, "jobs in the store of TestCosts")

// TestCosts counts the rows and the entries of indexes that PostgreSQL visits, not the time.
func TestCosts(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{CallerTime: true})
	s.counting = true
	storetest.Costs(t, s, *costJobs)
}

// scanned returns the median of what an operation visits.
func scanned(t *testing.T, s *Store, f func() error) int64 {
	t.Helper()
	var all []int64
	for range 5 {
		before, _ := s.Touched()
		check(t, f())
		after, _ := s.Touched()
		all = append(all, after-before)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// claimAndReturn claims a job and gives it back.
func claimAndReturn(t *testing.T, s *Store, at time.Time, want func(*job.Job) bool) error {
	got, err := s.Claim(t.Context(), job.Claim{Worker: "w1", N: 1, Now: at, Lease: time.Hour, From: from("Waiting")})
	if err != nil || len(got) != 1 || !want(&got[0]) {
		return fmt.Errorf("claimed %+v, %w", got, err)
	}
	_, err = s.Commit(t.Context(), job.Change{Job: got[0].ID, Epoch: got[0].Epoch, At: at})
	return err
}

// TestHeldCosts holds a group of many owners, whose jobs are the first ones.
func TestHeldCosts(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{CallerTime: true})
	s.counting = true
	ctx := t.Context()
	const n = 2000
	var list []job.Created
	for i := range n {
		list = append(list, newJob(storetest.Step, job.ID(fmt.Sprint("tst_", i)), func(j *job.Job) {
			j.Owner, j.Group, j.Priority = fmt.Sprint("o", i), "maps", 1
			if i%2 > 0 {
				j.Tags = []string{"queue=a"}
			}
		}))
	}
	list = append(list, newJob(storetest.Step, "tst_free", func(j *job.Job) { j.Group = "books" }))
	_, err := s.Create(ctx, list...)
	check(t, err)
	free := func(j *job.Job) bool { return j.ID == "tst_free" }
	held := func(j *job.Job) bool { return j.Group == "maps" }
	for _, scope := range []job.Scope{{Group: "maps"}, {Group: "maps", Kind: stepKind},
		{Kind: stepKind, State: "Waiting", Group: "maps"}} {
		hold := job.Hold{Scope: scope, Who: "olga", Since: start}
		_, err = s.Hold(ctx, hold)
		check(t, err)
		if rows := scanned(t, s, func() error { return claimAndReturn(t, s, start, free) }); rows > 300 {
			t.Errorf("%s: a claim visits %d rows past %d held lanes", scope, rows, n)
		}
		_, err = s.Create(ctx, newJob(storetest.Step, job.ID("tst_new"+scope.String()), func(j *job.Job) {
			j.Group, j.Owner, j.Priority = "maps", "new", 0
		}))
		check(t, err)
		check(t, claimAndReturn(t, s, start, free)) // a lane that came into the hold
		_, err = s.Release(ctx, hold)
		check(t, err)
		check(t, claimAndReturn(t, s, start, held))
	}
	hold := job.Hold{Scope: job.Scope{Group: "maps"}, Who: "olga", Since: start}
	_, err = s.Hold(ctx, hold)
	check(t, err)
	hold.Until = start.Add(time.Hour)
	_, err = s.Hold(ctx, hold) // instead of the one before
	check(t, err)
	check(t, claimAndReturn(t, s, start, free))
	check(t, claimAndReturn(t, s, start.Add(2*time.Hour), held))
	tagged := job.Hold{Scope: job.Scope{Tag: "queue=a"}, Who: "olga", Since: start}
	_, err = s.Hold(ctx, tagged)
	check(t, err)
	other := func(j *job.Job) bool { return len(j.Tags) == 0 }
	late := start.Add(2 * time.Hour)
	if rows := scanned(t, s, func() error { return claimAndReturn(t, s, late, other) }); rows > 300 {
		t.Errorf("a claim visits %d rows beside a held tag", rows)
	}
	_, err = s.Release(ctx, tagged)
	check(t, err)
	if got, err := s.Claim(ctx, job.Claim{Worker: "w1", N: 1 << 12, Now: late, Lease: time.Hour,
		From: from("Waiting")}); err != nil || len(got) != n+4 {
		t.Errorf("claimed %d of %d jobs, %v", len(got), n+4, err)
	}
}

// TestEndedCosts has many ended jobs beside a few others.
func TestEndedCosts(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{CallerTime: true})
	s.counting = true
	ctx := t.Context()
	var list []job.Created
	for i := range 40 {
		list = append(list, newJob(storetest.Step, job.ID(fmt.Sprint("tst_", i))))
	}
	jobs, err := s.Create(ctx, list...)
	check(t, err)
	c, err := storetest.Transition(storetest.Step, jobs[0], "cancel", lifecycle.Operator, start)
	check(t, err)
	_, err = s.Commit(ctx, c)
	check(t, err)
	made := 0
	costs := func() (all []int64) {
		for _, f := range []func() error{
			func() error { return claimAndReturn(t, s, start, func(*job.Job) bool { return true }) },
			func() error { _, err := s.List(ctx, job.Query{Ended: new(bool), Limit: 20}); return err },
			func() error {
				_, err := s.List(ctx, job.Query{Limit: 6, Kinds: []job.Kind{stepKind, "another"},
					Outcomes: []lifecycle.Outcome{lifecycle.Failed, lifecycle.TimedOut}})
				return err
			},
			func() error { _, err := s.Overdue(ctx, start, nil, 10); return err },
			func() error { _, err := s.Count(ctx); return err },
			func() error {
				_, err := s.Peek(ctx, job.Claim{N: 5, Now: start, From: from("Waiting")}, "tst_7")
				return err
			},
			func() error {
				made++
				jobs, err := s.Create(ctx, newJob(storetest.Step, job.ID(fmt.Sprint("tst_made", made))))
				if err != nil {
					return err
				}
				c, err := storetest.Transition(storetest.Step, jobs[0], "cancel", lifecycle.Operator, start)
				if err == nil {
					_, err = s.Commit(ctx, c)
				}
				return err
			},
			func() error {
				_, err := s.Take(ctx, job.Taking{N: 5, Lease: time.Minute, Now: start})
				return err
			},
			func() error { _, err := s.History(ctx, "tst_7", 0, 0); return err },
			func() error {
				last, _, err := s.Entries(ctx)
				if err == nil {
					_, err = s.Moved(ctx, last-20, last)
				}
				return err
			},
		} {
			all = append(all, scanned(t, s, f))
		}
		return all
	}
	few := costs()
	addEnded(t, s, "tst_0", 50_000)
	many := costs()
	t.Logf("claim, list, list of failed ones, overdue, count, peek, create and end, take, history, moved: %d without "+
		"ended jobs, %d with 50,000", few, many)
	for i := range few {
		if many[i] > 2*few[i]+16 {
			t.Errorf("operation %d visits %d rows, %d without ended jobs", i, many[i], few[i])
		}
	}
}

// TestListCosts: a list by what few jobs have reads few, also after many lists by what most jobs have.
func TestListCosts(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{CallerTime: true, Connections: 1})
	s.counting = true
	ctx := t.Context()
	jobs, err := s.Create(ctx, newJob(storetest.Step, "tst_0", func(j *job.Job) {
		j.Owner, j.Group, j.Cause, j.Tags = "a", "a", "a", []string{"a"} // as the copies have
	}))
	check(t, err)
	c, err := storetest.Transition(storetest.Step, jobs[0], "cancel", lifecycle.Operator, start)
	check(t, err)
	_, err = s.Commit(ctx, c)
	check(t, err)
	addEnded(t, s, "tst_0", 20_000)
	_, err = s.pool.Exec(ctx, "ANALYZE")
	check(t, err)
	for what, of := range map[string]func(string) job.Query{
		"owner": func(text string) job.Query { return job.Query{Owner: text} },
		"group": func(text string) job.Query { return job.Query{Group: text} },
		"tag":   func(text string) job.Query { return job.Query{Tag: text} },
		"cause": func(text string) job.Query { return job.Query{Causes: []string{text}} },
	} {
		for range 10 {
			page, err := s.List(ctx, of("a"))
			check(t, err)
			if len(page.Jobs) != 50 {
				t.Errorf("%s: %d jobs", what, len(page.Jobs))
			}
		}
		if rows := scanned(t, s, func() error { _, err := s.List(ctx, of("none")); return err }); rows > 100 {
			t.Errorf("%s: %d rows were visited for none", what, rows)
		}
	}
}

// TestNamedCosts: a search for the jobs of an owner by the beginning of their ids passes over 10,000 jobs of others at
// most, beside the newest 10,000, and finds those of an owner who has few.
func TestNamedCosts(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{CallerTime: true})
	s.counting = true
	ctx := t.Context()
	jobs, err := s.Create(ctx, newJob(storetest.Step, "tst_0", func(j *job.Job) { j.Owner = "ann" }))
	check(t, err)
	c, err := storetest.Transition(storetest.Step, jobs[0], "cancel", lifecycle.Operator, start)
	check(t, err)
	_, err = s.Commit(ctx, c)
	check(t, err)
	addEnded(t, s, "tst_0", 50_000)
	_, err = s.pool.Exec(ctx, "UPDATE job_made SET owner = 'bob' WHERE id = 'old_1000010'")
	check(t, err)
	_, err = s.pool.Exec(ctx, "ANALYZE")
	check(t, err)
	for owner, want := range map[string]int{"nobody": 0, "bob": 1, "ann": 5, "": 5} {
		found := 0
		rows := scanned(t, s, func() error {
			named, err := s.Named(ctx, "old_", owner, 5)
			found = len(named)
			return err
		})
		if most := int64(21_100); found != want || rows > most {
			t.Errorf("of owner %q: %d jobs, %d rows were visited, want at most %d", owner, found, rows, most)
		}
	}
}

// TestOldEntries works off the jobs of a lane while an older transaction of the database keeps the entries of former
// jobs in the indexes. A claim does not pass over them: it begins at the keys of the lane.
func TestOldEntries(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{CallerTime: true})
	s.counting = true
	ctx := t.Context()
	const n = 1000
	var list []job.Created
	for i := range n + 20 {
		list = append(list, newJob(storetest.Step, job.ID(fmt.Sprint("tst_", i))))
	}
	_, err := s.Create(ctx, list...)
	check(t, err)
	old, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	check(t, err)
	defer func() { check(t, old.Rollback(ctx)) }()
	var entries int
	const count = "SELECT count(*) FROM job_now WHERE waits = 1 AND priority = (SELECT min(priority) FROM job_now)"
	check(t, old.QueryRow(ctx, count).Scan(&entries))
	for range n / 50 {
		claim := job.Claim{Worker: "w1", N: 50, Now: start, Lease: time.Hour, From: from("Waiting")}
		if got, err := s.Claim(ctx, claim); err != nil || len(got) != 50 {
			t.Fatalf("claimed %d, %v", len(got), err)
		}
	}
	one := func() error {
		return claimAndReturn(t, s, start, func(j *job.Job) bool { return j.ID == job.ID(fmt.Sprint("tst_", n)) })
	}
	if rows := scanned(t, s, one); rows > 200 {
		t.Errorf("a claim visits %d rows and entries behind %d claimed jobs", rows, n)
	}
	// the control: a search from the beginning of the lane
	search := func() error {
		var first int64
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			check(t, s.scannedNow(ctx, tx, -1))
			err := tx.QueryRow(ctx, `SELECT n FROM job_now WHERE lane = (SELECT id FROM lane WHERE waiting) AND waits = 1
 ORDER BY priority, n LIMIT 1`).Scan(&first)
			check(t, s.scannedNow(ctx, tx, 1))
			return err
		})
	}
	if rows := scanned(t, s, search); rows < n {
		t.Errorf("control: %d rows and entries", rows)
	}
}
