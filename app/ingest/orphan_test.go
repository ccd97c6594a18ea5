package ingest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/orphans"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/engine/joblog"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// aheadClock is a clock that is ahead by a time that tests set.
type aheadClock struct {
	clock.Clock
	now, wall time.Duration
}

func (s *aheadClock) Now() time.Time  { return s.Clock.Now().Add(s.now) }
func (s *aheadClock) Wall() time.Time { return s.Clock.Wall().Add(s.wall) }

// hours is a clock that is so many hours ahead of the files.
func hours(n int) *aheadClock {
	d := time.Duration(n) * time.Hour
	return &aheadClock{clock.System(), d, d}
}

// idleApp is the application on a store with an engine that does not run, and without background work.
func idleApp(t *testing.T, store job.Store, o Options, clock clock.Clock) *App {
	t.Helper()
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(store, a.Works(), engine.Options{
		Deliver: a.Deliver(), Clock: clock, Retain: engine.Retention{Away: 90 * 24 * time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	a.bound(e)
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// found lists findings as "LEVEL rule name", sorted.
func found(t *testing.T, a *App) []string {
	t.Helper()
	r, err := a.Orphans(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Cut) > 0 {
		t.Errorf("cut: %v", r.Cut)
	}
	all := []string{}
	for _, o := range r.Orphans {
		all = append(all, o.Level+" "+o.Rule+" "+o.Name)
	}
	slices.Sort(all)
	return all
}

// plant writes a file below the data directory; it and its directories are hours old.
func plant(t *testing.T, dir, name string, hours int) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-time.Duration(hours) * time.Hour)
	for ; file != dir && file != filepath.Join(dir, workdir.WorkName) &&
		file != filepath.Join(dir, workdir.MailName); file = filepath.Dir(file) {
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

// noJob is an id of the right form that no job has.
func noJob(n string) string { return "ing_00000000000000000000000" + n }

// TestEveryOrphanIsFound plants one of each rule into a system that has none, and removes what may be removed.
func TestEveryOrphanIsFound(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha", "b.txt": "beta"})
	s.put("one.checkm", s.manifest("a.txt"))
	s.put("two.checkm", s.manifest("b.txt"))
	store := mem.New()
	o := options(t, t.TempDir())
	logs, err := joblog.Open(filepath.Join(o.Dir, "logs"), joblog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	o.Logs, o.TrashKeep = logs, time.Hour
	w := startOn(t, store, o)
	r := w.ingest(Submission{}, manifest("mrt-batch-manifest", s.row("one.checkm", "l1", "One"),
		s.row("two.checkm", "l2", "Two")))
	deleted := w.ingest(Submission{}, s.manifest("a.txt"))
	if r.State != record.Completed || deleted.State != record.Completed {
		t.Fatalf("got %s", r.Text())
	}
	w.stop()
	a := idleApp(t, store, o, hours(3))
	if got := found(t, a); len(got) > 0 {
		t.Fatalf("control: a healthy system has %v", got)
	}

	batch, done := string(r.Batch), string(r.Jobs[0].Job)
	want := []string{}
	expect := func(level, rule, name string) { want = append(want, level+" "+rule+" "+name) }

	if _, err := a.engine.Do(t.Context(), operator.Act{Job: deleted.Batch, Event: record.Delete, By: lifecycle.Operator,
		Actor: "op", Confirm: true}); err != nil {
		t.Fatal(err)
	}
	expect("WARN", "job-without-batch", string(deleted.Jobs[0].Job)) // the sweep has not seen the tombstone
	expect("WARN", "work-without-batch", "work/"+string(deleted.Batch))
	plant(t, o.Dir, "work/bat_A/ing_X/producer/f", 2)
	expect("FAIL", "work-without-batch", "work/bat_A")
	plant(t, o.Dir, "work/bat_B/payload", 2)
	expect("FAIL", "payload-without-batch", "work/bat_B")
	plant(t, o.Dir, "work/bat_C/payload.new", 0)
	expect("WARN", "payload-without-batch", "work/bat_C") // an upload that may be under way
	plant(t, o.Dir, "work/bat_D/reports/0.json", 2)
	expect("FAIL", "report-without-batch", "work/bat_D")
	plant(t, o.Dir, "work/"+batch+"/"+noJob("1")+"/f", 2)
	expect("FAIL", "work-without-job", "work/"+batch+"/"+noJob("1"))
	plant(t, o.Dir, "work/"+batch+"/"+done+"/f", 2)
	expect("FAIL", "work-of-ended", "work/"+batch+"/"+done)
	for _, name := range []string{"work/" + batch + "/report.json.new", "work/" + batch +
		"/reports/0.txt.new", "work/stray", "mail/.unfinished-1", "address.new",
		"storage/extensions/stagepost-staging/" + noJob("2") + "-e1"} {
		plant(t, o.Dir, name, 2)
		expect("FAIL", "temporary", name)
	}
	plant(t, o.Dir, "access/acc_X/package.zip", 2)
	expect("FAIL", "package-without-job", "access/acc_X")
	logs.Logger(job.ID(noJob("3")), 1, "Storing").Info("line")
	expect("FAIL", "log-without-job", "log of "+noJob("3"))
	for name, holder := range map[string]string{"ark:/1/gone": noJob("4"), "ark:/1/ended": done} {
		by := inventory.Taker{Job: holder, Epoch: 1, At: time.Now()}
		if _, err := a.inventory.Take(t.Context(), by,
			inventory.Want{Kind: inventory.ObjectLock, Name: name}); err != nil {
			t.Fatal(err)
		}
		expect("FAIL", "lock", "object "+name)
	}
	plantStorage(t, a, r, expect)
	plantStore(t, a, store, expect)
	slices.Sort(want)
	if diff := cmp.Diff(want, found(t, a)); diff != "" {
		t.Fatal(diff)
	}
	fixAll(t, a, want)
	for _, rule := range orphans.Rules() {
		planted := slices.ContainsFunc(want, func(f string) bool { return strings.Contains(f, " "+rule.Name+" ") })
		if planted == (rule.Never != "") {
			t.Errorf("rule %s: planted is %t, never because %q", rule.Name, planted, rule.Never)
		}
	}
}

// plantStorage takes a stored version away, adds one that the inventory does not know, and a directory that its object
// does not know.
func plantStorage(t *testing.T, a *App, r report.Batch, expect func(level, rule, name string)) {
	t.Helper()
	root, err := a.locations.Open(t.Context(), "storage", true)
	if err != nil {
		t.Fatal(err)
	}
	lost, half := r.Jobs[0].ARK, r.Jobs[1].ARK
	if err := os.RemoveAll(filepath.Join(a.options.Dir, "storage", filepath.FromSlash(root.Path(lost)))); err != nil {
		t.Fatal(err)
	}
	expect("FAIL", "version-missing", "storage/"+lost+"/v1")
	if err := os.MkdirAll(filepath.Join(a.options.Dir, "storage", filepath.FromSlash(root.Path(half)), "v2", "content"),
		0o755); err != nil {
		t.Fatal(err)
	}
	expect("FAIL", "temporary", "storage/"+root.Path(half)+"/v2")
	v := ocfl.Version{Created: time.Now().UTC().Truncate(time.Second), User: ocfl.User{Name: "ann"}, Message: "strange"}
	if _, err := root.AddVersion(t.Context(), "ark:/1/strange", v,
		ocfl.Options{Stage: "s", Key: noJob("5")}); err != nil {
		t.Fatal(err)
	}
	expect("FAIL", "version-unknown", "storage/"+root.Path("ark:/1/strange")+"/v1")
}

// plantStore makes a batch whose jobs never came, and a message of no job.
func plantStore(t *testing.T, a *App, store job.Store, expect func(level, rule, name string)) {
	t.Helper()
	b, err := a.Submit(t.Context(), Submission{Profile: "test", Submitter: "ann"}, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	to, err := record.BatchLife.Next(b.Position, record.Begin, lifecycle.Worker)
	if err != nil {
		t.Fatal(err)
	}
	n, key := 2, "x/strange/1"
	results, err := store.Commit(t.Context(), job.Change{
		Job: b.ID, Version: b.Version, Event: record.Begin, To: to, By: lifecycle.Worker, At: time.Now(),
		Set:    job.Fields{Expected: &n},
		Outbox: []job.Message{{Key: key, Job: job.ID(noJob("6")), Topic: "mail", Created: time.Now(), Due: time.Now()}},
	})
	if err != nil || results[0].Err != nil {
		t.Fatal(err, results)
	}
	expect("FAIL", "batch-incomplete", string(b.ID))
	expect("FAIL", "message-without-job", key)
}

// fixAll removes what may go: first with a wrong number, which changes nothing.
func fixAll(t *testing.T, a *App, before []string) {
	t.Helper()
	r, err := a.Orphans(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stays := []string{}
	n := 0
	for _, o := range r.Orphans {
		if o.Deletable && o.Level == orphans.LevelFail {
			n++
		} else {
			stays = append(stays, o.Level+" "+o.Rule+" "+o.Name)
		}
	}
	if n != r.Deletable || n < 10 {
		t.Errorf("%d are deletable, in the report %d", n, r.Deletable)
	}
	if _, err := a.FixOrphans(t.Context(),
		orphans.Fix{Expect: n - 1, Actor: "op", Note: "why"}); job.KindOf(err) != job.Conflict {
		t.Errorf("a wrong number: got %v", err)
	}
	if _, err := a.FixOrphans(t.Context(), orphans.Fix{Expect: n, Actor: "op"}); job.KindOf(err) != job.Invalid {
		t.Errorf("no reason: got %v", err)
	}
	if got := found(t, a); !slices.Equal(got, before) {
		t.Errorf("a refusal changed something: %s", cmp.Diff(before, got))
	}
	done, err := a.FixOrphans(t.Context(), orphans.Fix{Expect: n, Actor: "op", Note: "why"})
	if err != nil || len(done.Removed) != n || len(done.Failed) > 0 {
		t.Errorf("got %d removed, left %v, %v", len(done.Removed), done.Failed, err)
	}
	slices.Sort(stays)
	if diff := cmp.Diff(stays, found(t, a)); diff != "" {
		t.Error(diff)
	}
	entries, err := a.engine.Store().Audit(t.Context(), 0, -n)
	if err != nil || len(entries) != n {
		t.Fatalf("got %d entries, %v", len(entries), err)
	}
	for _, e := range entries {
		if e.Event != "remove-orphan" || e.Actor != "op" || e.Note != "why" || e.Object == "" {
			t.Errorf("got %+v", e)
		}
	}
}

// TestFixLooksAgain: what belongs to something by the time it is removed stays.
func TestFixLooksAgain(t *testing.T) {
	store := mem.New()
	o := options(t, t.TempDir())
	a := idleApp(t, store, o, hours(3))
	plant(t, o.Dir, "work/bat_A/payload", 2)
	plant(t, o.Dir, "work/bat_A/x.new", 2)
	all, r, err := a.orphanFinder().Search(t.Context())
	if err != nil || r.Deletable != 1 {
		t.Fatalf("got %+v, %v", r, err)
	}
	plant(t, o.Dir, "work/bat_A/payload.new", 0) // an upload goes on after all
	if err := all[0].Remove(t.Context()); job.KindOf(err) != job.Conflict {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(o.Dir, "work/bat_A/payload")); err != nil {
		t.Error(err)
	}
}
