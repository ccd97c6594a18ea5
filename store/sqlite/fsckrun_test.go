package sqlite

import (
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/internal/sizes"
	"github.com/stagepost/stagepost/store/storetest"
)

// moved makes moves of a job by an operator.
func moved(t testing.TB, s *Store, id job.ID, events ...lifecycle.Event) (j job.Job) {
	t.Helper()
	j, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		c := job.Change{Job: id, Version: j.Version, Purge: true, By: lifecycle.Operator, Actor: "olga", At: testTime}
		if e != "purge" {
			if c, err = storetest.Transition(storetest.Step, j, e, lifecycle.Operator, testTime); err != nil {
				t.Fatal(err)
			}
		}
		results, err := s.Commit(t.Context(), c)
		if err != nil || results[0].Err != nil {
			t.Fatal(e, err, results)
		}
		j = results[0].Job
	}
	return j
}

func ids(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(prefix, i))
	}
	return all
}

// eitherWay runs a test without a log in front of the database and with one, whose rows stay in the log until a call
// flushes.
func eitherWay(t *testing.T, run func(*testing.T, Options)) {
	t.Run("database", func(t *testing.T) { run(t, Options{NoLog: true}) })
	t.Run("log", func(t *testing.T) { run(t, unapplied()) })
}

// Commits continue during a check: each record that it reads is followed by commits, which a check that stops the
// commit loop never sees. The report is of the begin.
func TestFsckDuringCommits(t *testing.T) { eitherWay(t, fsckDuringCommits) }

func fsckDuringCommits(t *testing.T, o Options) {
	s := openStore(t, t.TempDir(), o)
	create(t, s, ids("tst_", 10)...)
	n := 0
	report, err := s.Fsck(t.Context(), func(k job.Kind) *lifecycle.Table {
		create(t, s, fmt.Sprint("tst_new", n))
		moved(t, s, job.ID(fmt.Sprint("tst_", n%10)), "hold", "release")
		if n < 5 {
			moved(t, s, job.ID(fmt.Sprint("tst_new", n)), "cancel", "delete", "purge")
		}
		n++
		return lives(k)
	}, false)
	if err != nil || !report.Clean() || report.Jobs != 10 || n != 10 {
		t.Errorf("%d jobs, %d commits, %v %v", report.Jobs, n, report.Faults, err)
	}
	clean(t, s)
}

// A check of a running store stops the commit loop for some rows at a time, however many jobs there are and however
// many repairs it makes. The control is the number of repairs, which took several slices.
func TestFsckInSlices(t *testing.T) { eitherWay(t, fsckInSlices) }

func fsckInSlices(t *testing.T, o Options) {
	const n = 3*sliceRows + 10
	dir := t.TempDir()
	var rows []int
	o.slice = func(n int) { rows = append(rows, n) }
	s := openStore(t, dir, o)
	var list []job.Created
	for i := range n {
		list = append(list, newJob(storetest.Step, fmt.Sprint("tst_", i), testTime, func(j *job.Job) {
			j.Key = fmt.Sprint("key", i)
		}))
	}
	if _, err := s.Create(t.Context(), list...); err != nil {
		t.Fatal(err)
	}
	report, err := s.Fsck(t.Context(), lives, false)
	if err != nil || !report.Clean() || !slices.Equal(rows, []int{0}) {
		t.Errorf("a check without faults: slices of %v rows; %v %v", rows, report.Faults, err)
	}
	sql(t, dir, "DELETE FROM job_key")
	rows = rows[:0]
	report, err = s.Fsck(t.Context(), lives, true)
	if err != nil || !report.Clean() || len(report.Faults) != n {
		t.Errorf("%d faults, clean %t, %v", len(report.Faults), report.Clean(), err)
	}
	sum := 0
	for _, n := range rows {
		sum += n
	}
	if most := slices.Max(rows); most > sliceRows || sum < n {
		t.Errorf("slices of %v rows, at most %d", rows, sliceRows)
	}
	clean(t, s)
}

// A job that changes between the check and its repair is reported and repaired by the next check. The counts of a
// batch are repaired although its jobs end meanwhile.
func TestFsckRepairsDuringCommits(t *testing.T) { eitherWay(t, fsckRepairsDuringCommits) }

func fsckRepairsDuringCommits(t *testing.T, o Options) {
	dir := t.TempDir()
	s := openStore(t, dir, o)
	list := []job.Created{newJob(storetest.Batch, "tst_batch", testTime, func(j *job.Job) { j.Children.Expected = 3 })}
	for i := range 3 {
		list = append(list, newJob(storetest.Step, fmt.Sprint("tst_", i), testTime, func(j *job.Job) {
			j.Key, j.Parent = fmt.Sprint("key", i), "tst_batch"
		}))
	}
	if _, err := s.Create(t.Context(), list...); err != nil {
		t.Fatal(err)
	}
	if err := s.applier.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	sql(t, dir, "DELETE FROM job_key; UPDATE job_now SET children = '[3,1,0,0,0,1,0]', sum = NULL WHERE n = 1")
	n := 0
	report, err := s.Fsck(t.Context(), func(k job.Kind) *lifecycle.Table {
		if n++; n == 2 {
			s.do(t.Context(), false, nothing(s.records.cache.clear))
			moved(t, s, "tst_1", "cancel")
		}
		return lives(k)
	}, true)
	if err != nil || report.Clean() || !says(&report, "key1\"; not repaired") || !says(&report, "key2\" (repaired)") {
		t.Errorf("%v %v", report.Faults, err)
	}
	batch, err := s.Get(t.Context(), "tst_batch")
	if want := (job.Children{Expected: 3, Open: 2, Cancelled: 1}); err != nil || batch.Children != want {
		t.Errorf("counts %+v, want %+v; %v", batch.Children, want, err)
	}
	report, err = s.Fsck(t.Context(), lives, true)
	if err != nil || !report.Clean() || len(report.Faults) != 1 {
		t.Errorf("the next check: %v %v", report.Faults, err)
	}
	clean(t, s)
}

// Memory that is rebuilt while jobs are created, moved, claimed, held and purged is that of the records in the end.
func TestRebuildDuringCommits(t *testing.T) { eitherWay(t, rebuildDuringCommits) }

func rebuildDuringCommits(t *testing.T, o Options) {
	s := openStore(t, t.TempDir(), o)
	create(t, s, ids("tst_", 20)...)
	moved(t, s, "tst_0", "cancel", "delete")
	moved(t, s, "tst_1", "cancel")
	s.lines.apply([]lineChange{{n: 7, line: line{kind: 1, state: 99}}})
	s.ledger.LoadEnded(job.KindState{Kind: "storetest.step", State: "Done"}, "", 3, sizes.Sum{})
	b, err := s.rebuilt(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	defer b.p.close(&failed)
	create(t, s, ids("tst_later", 2*sliceRows)...)
	moved(t, s, "tst_0", "purge")
	moved(t, s, "tst_1", "delete", "purge")
	moved(t, s, "tst_2", "cancel", "delete", "purge")
	moved(t, s, "tst_3", "hold")
	moved(t, s, "tst_later0", "cancel", "delete", "purge")
	moved(t, s, "tst_later1", "hold")
	held := job.Hold{Scope: job.Scope{Job: "tst_5"}, Who: "alice", Why: "audit", Since: testTime}
	if _, err := s.Hold(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	c := job.Claim{Worker: "w", From: []job.KindState{{Kind: "storetest.step", State: "Waiting"}}, N: 3, Now: testTime,
		Lease: time.Hour}
	before, err := s.Claim(t.Context(), c)
	if err != nil || len(before) != 3 {
		t.Fatal(len(before), err)
	}
	if err := b.finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.N = 1000
	after, err := s.Claim(t.Context(), c)
	if want := 20 - 4 - 1 + 2*sliceRows - 2 - 3; err != nil || len(after) != want {
		t.Errorf("%d jobs are given afterwards, want %d; %v", len(after), want, err)
	}
	if err := s.applier.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := tallies(s.ledger)
	fresh := &lines{}
	l, err := loadBy(partRows, connections(t, s, 1), s.names, fresh, nil, recent{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(tallies(l), got); diff != "" {
		t.Errorf("counts (-records +memory):\n%s", diff)
	}
	if want := fresh.page(0, 10000); !slices.Equal(s.lines.page(0, 10000), want) {
		t.Error("lines differ from the records")
	}
	create(t, s, "tst_last")
	clean(t, s)
}

// A store that is closed during a check ends it.
func TestCloseDuringFsck(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	create(t, s, ids("tst_", 10)...)
	closed := make(chan error)
	_, err := s.Fsck(t.Context(), func(k job.Kind) *lifecycle.Table {
		select {
		case <-s.stopped:
		default:
			go func() { closed <- s.Close() }()
			<-s.stopped
		}
		return lives(k)
	}, true)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	_ = err // the check may have ended before it was cancelled
	_, err = s.Fsck(t.Context(), lives, false)
	wantKind(t, "a check of a closed store", err, job.Unavailable)
}
