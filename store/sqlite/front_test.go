package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/crash"
	"github.com/stagepost/stagepost/store/internal/ledger"
	"github.com/stagepost/stagepost/store/sqlite/internal/rowlog"
	"github.com/stagepost/stagepost/store/storetest"
)

// unapplied are the options of a store whose log is not applied before a flush.
func unapplied() Options { return Options{logSize: 16 << 10, applyAfter: time.Hour} }

// killed returns a copy of the directory as a process leaves it that is killed now.
func killed(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func wantJobs(t testing.TB, s *Store, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if _, err := s.Get(t.Context(), job.ID(id)); err != nil {
			t.Error(err)
		}
	}
}

// What is in the log alone when a process is killed is there at the next start, with the log or without, which removes
// it.
func TestKilledWithLog(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, unapplied())
	create(t, s, "tst_1", "tst_2")
	if err := s.applier.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	create(t, s, "tst_3", "tst_4")
	for _, o := range []Options{unapplied(), {NoLog: true}} {
		copied := killed(t, dir)
		again := openStore(t, copied, o)
		wantJobs(t, again, "tst_1", "tst_2", "tst_3", "tst_4")
		create(t, again, "tst_5")
		clean(t, again)
		if _, err := os.Stat(filepath.Join(copied, logName)); (err == nil) == o.NoLog {
			t.Errorf("without a log %t: directory of the log: %v", o.NoLog, err)
		}
		again = openStore(t, copied, unapplied())
		wantJobs(t, again, "tst_4", "tst_5")
		clean(t, again)
	}
	without := killed(t, dir) // the control: these jobs are in the log alone
	if err := os.RemoveAll(filepath.Join(without, logName)); err != nil {
		t.Fatal(err)
	}
	_, err := Open(without, Options{})
	wantKind(t, "open without the log", err, job.Internal)
	if err == nil || !strings.Contains(err.Error(), "Missing: 2 records of "+logName) {
		t.Errorf("the error does not name what is missing: %v", err)
	}
	if _, err := Accept(t.Context(), without, "olga", "a test"); err != nil {
		t.Fatal(err)
	}
	again := openStore(t, without, unapplied())
	wantJobs(t, again, "tst_1", "tst_2")
	_, err = again.Get(t.Context(), "tst_3")
	wantKind(t, "get of a job that was in the log alone", err, job.NotFound)
	clean(t, again)
}

// A log that is damaged before a whole record is refused; Accept keeps what is before the damage.
func TestDamagedLog(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, unapplied())
	create(t, s, "tst_1", "tst_2", "tst_3")
	copied := killed(t, dir)
	damageLog(t, copied, "tst_2")
	_, err := Open(copied, unapplied())
	wantKind(t, "open", err, job.Internal)
	if err == nil || !strings.Contains(err.Error(), "is damaged") && !strings.Contains(err.Error(), "records of") {
		t.Errorf("got %v", err)
	}
	missing, err := Accept(t.Context(), copied, "olga", "a test")
	if err != nil || missing == "" {
		t.Fatalf("missing %q, %v", missing, err)
	}
	again := openStore(t, copied, unapplied())
	wantJobs(t, again, "tst_1")
	_, err = again.Get(t.Context(), "tst_3")
	wantKind(t, "get of a job after the damage", err, job.NotFound)
	clean(t, again)
}

// A check of a directory sees what is in the log alone, and the next start continues from it. A log that is damaged is
// a fault.
func TestFsckDirReadsLog(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, unapplied())
	create(t, s, "tst_1", "tst_2", "tst_3")
	copied, broken := killed(t, dir), killed(t, dir)
	damageLog(t, broken, "tst_2")
	report, err := FsckDir(t.Context(), copied, lives, false)
	if err != nil || !report.Clean() || report.Jobs != 3 {
		t.Errorf("%d jobs, %v %v", report.Jobs, report.Faults, err)
	}
	again := openStore(t, copied, unapplied())
	wantJobs(t, again, "tst_1", "tst_2", "tst_3")
	create(t, again, "tst_4")
	clean(t, again)
	report, err = FsckDir(t.Context(), broken, lives, true)
	if err != nil || report.Clean() || !says(&report, logName) || report.Jobs != 0 {
		t.Errorf("with a damaged log: %d jobs, %v %v", report.Jobs, report.Faults, err)
	}
}

// damageLog changes the first segment where a text is.
func damageLog(t *testing.T, dir, text string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, logName, "*.log"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	b[strings.Index(string(b), text)] ^= 1
	if err := os.WriteFile(files[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A crash at every call of every transition, of maintenance, and of a job from its creation to its end: the next start
// has what was answered, all of it or nothing of a call without an answer.
func TestCrashWithLog(t *testing.T) {
	var before []*Store // of the crash before
	open := func(t *testing.T) (job.Store, func() job.Store) {
		for _, s := range before {
			closeStore(t, s)
		}
		dir := t.TempDir()
		s := openStore(t, dir, unapplied())
		before = []*Store{s}
		return s, func() job.Store {
			again := openStore(t, killed(t, dir), unapplied())
			before = append(before, again)
			return again
		}
	}
	workloads := []crash.Workload{crash.Upkeep()}
	if *transitions == 1 {
		workloads = append(workloads, crash.Walk(storetest.Step), crash.Walk(storetest.Batch))
	}
	for i, w := range slices.Concat(crash.Transitions(storetest.Step), crash.Transitions(storetest.Batch)) {
		if i%*transitions == 0 {
			workloads = append(workloads, w)
		}
	}
	report := crash.Report{Name: "with a log"}
	for _, w := range workloads {
		report.Add(crash.Enumerate(t, open, w))
	}
	t.Log(report)
	if report.Windows < 40 || report.Inconsistent > 0 {
		t.Errorf("%s\n%v", report, report.Faults)
	}
}

// The control: a start that ignores the log is inconsistent, or is refused.
func TestCrashWithLogControl(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, unapplied())
	create(t, s, "tst_1")
	copied := killed(t, dir)
	for _, name := range []string{logName, headName} {
		if err := os.RemoveAll(filepath.Join(copied, name)); err != nil {
			t.Fatal(err)
		}
	}
	again, err := Open(copied, Options{accept: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = again.Get(t.Context(), "tst_1")
	wantKind(t, "get without the log", err, job.NotFound)
	closeStore(t, again)
}

// rowsOf are all rows of the tables that the log writes.
func rowsOf(t testing.TB, c *conn.Conn) (all []string) {
	t.Helper()
	for _, table := range []string{"word", "move", "job_made", "job_word", "job_now", "job_data", "job_key", "event",
		"task", "hold", "message", "audit"} {
		columns := ""
		err := each(c, fmt.Sprintf("SELECT group_concat('quote(' || name || ')', ' || '' '' || ') FROM "+
			"pragma_table_info('%s')", table), func(s *conn.Stmt) error {
			columns = s.GetText(0)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		err = each(c, fmt.Sprintf("SELECT %s FROM %s ORDER BY 1", columns, table), func(s *conn.Stmt) error {
			all = append(all, table+" "+s.GetText(0))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Records that are applied again, from any of them on, change nothing.
func TestReplayIsIdempotent(t *testing.T) {
	s := openStore(t, t.TempDir(), unapplied())
	frontWorkload(t, s)
	s.overlay.mu.RLock()
	records := slices.Clone(s.overlay.fresh.contents)
	s.overlay.mu.RUnlock()
	if err := s.applier.flush(t.Context()); err != nil || len(records) < 10 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	want := rowsOf(t, s.records.c)
	for from := range records {
		images, err := rowlog.Latest(records[from:])
		if err != nil {
			t.Fatal(err)
		}
		err = s.do(t.Context(), true, nothing(func() {
			if err := s.applier.commit(images, s.records.head.numbers, s.records.applied); err != nil {
				t.Error(err)
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, rowsOf(t, s.records.c)); diff != "" {
			t.Fatalf("applied again from record %d on (-want +got):\n%s", from, diff)
		}
	}
	clean(t, s)
}

// frontWorkload commits many things that need no flush.
func frontWorkload(t testing.TB, s *Store) {
	t.Helper()
	ctx := t.Context()
	create(t, s, "tst_1", "tst_2", "tst_3")
	hold := job.Hold{Scope: job.Scope{Job: "tst_3"}, Who: "olga", Why: "a test", Since: testTime}
	for _, put := range []func(context.Context, job.Hold) ([]job.Hold, error){s.Hold, s.Release, s.Hold} {
		if _, err := put(ctx, hold); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 {
		jobs, err := s.Claim(ctx, job.Claim{Worker: "w", N: 2, Now: testTime, Lease: time.Hour,
			From: []job.KindState{{Kind: job.Kind(storetest.Step.Name()), State: "Waiting"}}})
		if err != nil {
			t.Fatal(err)
		}
		words := fmt.Sprintf("maps round%d", round)
		for _, j := range jobs {
			_, err := s.Commit(ctx, job.Change{Job: j.ID, Epoch: j.Epoch, At: testTime, Set: job.Fields{Words: &words},
				Tasks: []job.Task{{Name: "a", Kind: "task", State: "Done", Done: int64(round), Changed: testTime}},
				Outbox: []job.Message{{Key: fmt.Sprint(j.ID, round), Job: j.ID, Topic: "mail", Created: testTime,
					Due: testTime}}})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Readers that run while the applier writes see each job in its newest acknowledged version, with a history and tasks
// that fit.
func TestReadWhileApplied(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{logSize: 16 << 10, applyAfter: time.Microsecond})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	const jobs = 4
	var wg sync.WaitGroup
	fail := func(format string, args ...any) {
		t.Errorf(format, args...)
		stop()
	}
	for i := range jobs {
		id := job.ID(fmt.Sprint("tst_", i))
		create(t, s, string(id))
		wg.Go(func() {
			version := int64(1)
			for n := range 60 {
				if ctx.Err() != nil {
					return
				}
				note := fmt.Sprint("note ", n)
				results, err := s.Commit(ctx, job.Change{Job: id, Version: version, At: testTime,
					Set:   job.Fields{Message: &note},
					Tasks: []job.Task{{Name: "a", Kind: "task", State: "Done", Done: int64(n), Changed: testTime}}})
				if err = errors.Join(err, results[0].Err); err != nil {
					fail("commit: %v", err)
					return
				}
				version = results[0].Job.Version
				j, err := s.Get(ctx, id)
				if err != nil || j.Version != version || j.Message != note {
					fail("got version %d with %q, %d is acknowledged, %v", j.Version, j.Message, version, err)
				}
				tasks, err := s.Tasks(ctx, id)
				if err != nil || len(tasks) != 1 || tasks[0].Done != int64(n) {
					fail("tasks %v, want %d done, %v", tasks, n, err)
				}
				if _, err := s.History(ctx, id, 0, 0); err != nil {
					fail("history: %v", err)
				}
				page, err := s.List(ctx, job.Query{Limit: 10})
				if err != nil || len(page.Jobs) < 1 {
					fail("list: %d jobs, %v", len(page.Jobs), err)
				}
			}
		})
	}
	wg.Wait()
	clean(t, s)
}

// The operations of one record read one state of the database, and find what the applier writes to it meanwhile in the
// overlay as it was before that state. The control: that state has it not.
func TestOneRecordReadsOneState(t *testing.T) {
	s := openStore(t, t.TempDir(), unapplied())
	create(t, s, "tst_1")
	err := s.doAs(t.Context(), writesRecords, func(*ledger.Ledger) error {
		_, err := s.records.entry("none") // an id without a prefix is searched for
		wantKind(t, "get of a job that is not there", err, job.NotFound)
		if err := s.applier.flush(t.Context()); err != nil || !s.overlay.empty() {
			t.Errorf("after a flush the overlay is empty: %t, %v", s.overlay.empty(), err)
		}
		s.records.cache.clear()
		if e, err := s.records.entry("tst_1"); err != nil || e.job.Version != 1 {
			t.Errorf("get: %v", err)
		}
		s.records.cache.clear()
		newer := s.records.front.newer.generations
		s.records.front.newer.generations = [2]*generation{}
		defer func() { s.records.front.newer.generations = newer }()
		_, err = s.records.entry("tst_1")
		wantKind(t, "get in the state alone", err, job.NotFound)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	create(t, s, "tst_2")
	wantJobs(t, s, "tst_1", "tst_2")
	clean(t, s)
}

// A list of messages is the same before and after the applier has written them, without a flush: reads go on when the
// disk is full. Some are in the database in an older version.
func TestMessagesInTheLog(t *testing.T) {
	s := openStore(t, t.TempDir(), unapplied())
	frontWorkload(t, s)
	if err := s.applier.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	post := func(key string) {
		t.Helper()
		results, err := s.Commit(t.Context(), job.Change{Job: "tst_1", Version: moved(t, s, "tst_1").Version,
			At: testTime, Outbox: []job.Message{{Key: key, Job: "tst_1", Topic: "mail", Created: testTime.Local(),
				Body: []byte(`{"a":1}`), Due: testTime}}})
		if err = errors.Join(err, results[0].Err); err != nil {
			t.Fatal(err)
		}
	}
	post("new1")
	post("new2")
	old, err := s.Messages(t.Context(), job.MessageQuery{Limit: 3})
	if err != nil || len(old) != 3 {
		t.Fatal(old, err)
	}
	err = s.Settle(t.Context(), job.Message{Key: old[2].Key, Settled: job.Delivered, Attempts: 1,
		Tried: []job.Attempt{{At: testTime.Local(), Took: 1000}}})
	if err != nil {
		t.Fatal(err)
	}
	pending, delivered := job.Pending, job.Delivered
	var before [][]job.Message
	queries := []job.MessageQuery{{}, {Limit: 1}, {Limit: 2, Before: old[1].Number}, {Job: "tst_1"},
		{Settled: &pending}, {Settled: &pending, Limit: 2}, {Settled: &delivered}, {Topic: "none"}}
	for range 2 {
		var all [][]job.Message
		for _, q := range queries {
			page, err := s.Messages(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, page)
		}
		if before == nil {
			if s.overlay.empty() {
				t.Error("the lists flushed")
			}
			if err := s.applier.flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			before = all
		} else if diff := cmp.Diff(all, before); diff != "" {
			t.Errorf("(-database +log):\n%s", diff)
		}
	}
	if len(before[0]) < 4 || len(before[6]) != 1 {
		t.Errorf("%d messages, %d delivered", len(before[0]), len(before[6]))
	}
	clean(t, s)
}

// Other programs see rows in the database at most a second after they were acknowledged, also while others follow. The
// control: they do not see them at once.
func TestAppliedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		jobs := func() string { return texts(t, dir, "SELECT count(*) FROM jobs", 1)[0] }
		create(t, s, "tst_1")
		if got := jobs(); got != "0" {
			t.Errorf("the database has %s jobs at once: the test is blind", got)
		}
		for i := range 10 {
			time.Sleep(100 * time.Millisecond)
			create(t, s, fmt.Sprint("tst_later", i))
		}
		synctest.Wait()
		if got, err := strconv.Atoi(jobs()); err != nil || got < 7 { // those of 0.3 s may lack
			t.Errorf("the database has %d of 11 jobs, %v", got, err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := jobs(); got != "11" {
			t.Errorf("the database has %s of 11 jobs", got)
		}
		closeStore(t, s)
	})
}

// A copy of a store has what is in the log alone, in each way to make one. The control is the database as it is, which
// lacks that.
func TestBackupWithLog(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, unapplied())
	for i, backup := range []func(file string) error{
		func(file string) error { return s.Backup(t.Context(), file) },
		func(file string) error {
			var p *Snapshot
			err := s.Freeze(t.Context(), func() (err error) {
				p, err = Pin(filepath.Join(dir, database))
				return err
			})
			if err != nil {
				return err
			}
			return errors.Join(p.CopyTo(t.Context(), file), p.Close())
		},
	} {
		id := fmt.Sprint("tst_", i)
		create(t, s, id)
		if got := texts(t, dir, "SELECT count(*) FROM jobs", 1)[0]; got != fmt.Sprint(i) {
			t.Errorf("the database has %s jobs before the backup, want %d", got, i)
		}
		to := t.TempDir()
		if err := backup(filepath.Join(to, database)); err != nil {
			t.Fatal(err)
		}
		again := openStore(t, to, unapplied())
		wantJobs(t, again, id)
		clean(t, again)
	}
}
