package ingest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/storetest"
)

// frozen is a clock that stands still: nothing becomes due by itself, so each job that moves was woken.
type frozen struct{ at time.Time }

func (f frozen) Now() time.Time  { return f.at }
func (f frozen) Wall() time.Time { return f.at }

// begin runs an application that a test has changed, with an engine of its own clock and steps.
func begin(t *testing.T, o Options, clock clock.Clock, change func(*App),
	steps map[lifecycle.State]engine.Step) *harness {
	t.Helper()
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(a)
	}
	works, store := a.Works(), mem.New()
	for state, step := range steps {
		works[1].Steps[state], works[1].Owes = step, nil // what stands in for a step does not do its work
	}
	e, err := engine.New(store, works,
		engine.Options{Deliver: a.Deliver(), Sweep: 20 * time.Millisecond, Clock: clock, Slots: 64})
	if err != nil {
		t.Fatal(err)
	}
	a.Bind(e)
	w := &harness{App: a, t: t, dir: o.Dir, store: store, e: e}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// tapped calls at before each call about locks, and took after a lock was given.
type tapped struct {
	locker
	at   func(call, job string)
	took func(by string, locks []inventory.Lock)
}

func (x *tapped) before(call, job string) {
	if x.at != nil {
		x.at(call, job)
	}
}

func (x *tapped) Take(ctx context.Context, by inventory.Taker, wants ...inventory.Want) ([]inventory.Lock, error) {
	x.before("take", by.Job)
	got, err := x.locker.Take(ctx, by, wants...)
	if err == nil && x.took != nil {
		x.took(by.Job, got)
	}
	return got, err
}

func (x *tapped) Check(ctx context.Context, locks ...inventory.Lock) error {
	x.before("check", locks[0].Job)
	return x.locker.Check(ctx, locks...)
}

func (x *tapped) Settle(ctx context.Context, c inventory.Claim, locks []inventory.Lock, ark string) (inventory.Name,
	error) {
	x.before("settle", c.Job)
	return x.locker.Settle(ctx, c, locks, ark)
}

func (x *tapped) Record(ctx context.Context, e inventory.Entry, files iter.Seq2[inventory.File, error]) error {
	x.before("record", e.Job)
	return x.locker.Record(ctx, e, files)
}

// stopper holds the first job that comes to a call until it is opened.
type stopper struct {
	call string
	came chan string // its id
	open chan struct{}
	once sync.Once
}

func newStopper(call string) *stopper {
	return &stopper{call: call, came: make(chan string, 1), open: make(chan struct{})}
}

func (s *stopper) at(call, job string) {
	first := false
	if call == s.call {
		s.once.Do(func() { first = true })
	}
	if first {
		s.came <- job
		<-s.open
	}
}

// awaitLocks waits until the locks are as wanted, and gives them.
func (w *harness) awaitLocks(what string, as func([]Lock) bool) []Lock {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	for {
		all, err := w.Locks(ctx)
		if err != nil {
			w.t.Fatal(err)
		}
		if as(all) {
			return all
		}
		select {
		case <-ctx.Done():
			w.t.Fatalf("%s: got %+v", what, all)
		case <-time.After(time.Millisecond):
		}
	}
}

func none(all []Lock) bool { return len(all) == 0 }

// TestFailedJobsHaveNoLocks lets a job fail, and be stopped, in each phase while it has locks of all kinds.
func TestFailedJobsHaveNoLocks(t *testing.T) {
	for _, state := range []lifecycle.State{record.Pending, record.Estimating, record.Provisioning, record.Downloading,
		record.Processing, record.Storing, record.Recording, record.Notify} {
		for _, ev := range []lifecycle.Event{record.Fail, record.Stop} {
			if state == record.Pending && ev == record.Stop {
				continue
			}
			t.Run(string(state)+" "+string(ev), func(t *testing.T) {
				t.Parallel()
				var w *harness
				ready := make(chan struct{})
				came := make(chan job.ID, 1)
				w = begin(t, options(t, t.TempDir()), clock.System(), nil,
					map[lifecycle.State]engine.Step{state: func(ctx context.Context, r *engine.Run) error {
						<-ready
						by := inventory.Taker{Job: string(r.Job().ID), Epoch: r.Job().Epoch, At: r.Now()}
						for _, kind := range inventory.LockKinds() {
							if _, err := w.inventory.Take(ctx, by, inventory.Want{Kind: kind, Name: "x"}); err != nil {
								return err
							}
						}
						came <- r.Job().ID
						if ev == record.Fail {
							return engine.Fail("test", errors.New("it fails"))
						}
						<-ctx.Done()
						return ctx.Err()
					}})
				close(ready)
				b := w.submit(Submission{}, "text")
				id := <-came
				if ev == record.Stop {
					if all := w.awaitLocks("held",
						func(all []Lock) bool { return len(all) >= 3 }); all[0].State != LockHeld ||
						all[0].JobState != string(state) {
						t.Errorf("got %+v", all)
					}
					if err := w.do(id, record.Stop); err != nil {
						t.Fatal(err)
					}
				}
				if r := w.reported(w.end(b.ID).ID); r.Jobs[0].FailedIn != state {
					t.Errorf("got %s", r.Text())
				}
				w.awaitLocks("after the failure", none)
			})
		}
	}
}

// TestLocksOfEndedJobsAreShownAsLeft is also the control of the test above: no message reports an end that is long
// over.
func TestLocksOfEndedJobsAreShownAsLeft(t *testing.T) {
	w := start(t)
	first := w.one(Submission{}, "a")
	for _, holder := range []string{string(first.Job), "ing_nobody"} {
		want := inventory.Want{Kind: inventory.ObjectLock, Name: "ark:/99999/" + holder, Note: "test"}
		if _, err := w.inventory.Take(t.Context(), inventory.Taker{Job: holder, Epoch: 9}, want); err != nil {
			t.Fatal(err)
		}
	}
	all, err := w.Locks(t.Context())
	if err != nil || len(all) != 2 {
		t.Fatalf("got %+v, %v", all, err)
	}
	for i, want := range []string{string(record.Completed), ""} {
		if all[i].State != LockLeft || all[i].JobState != want || all[i].Epoch != 9 || all[i].Note != "test" {
			t.Errorf("got %+v", all[i])
		}
	}
	if err := w.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all, err = w.Locks(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("after the sweep: got %+v, %v", all, err)
	}
}

// TestOnlyTheLeaderEndsLocks: a server that does not lead leaves the locks of ended jobs to the one that does, but
// removes directories of its own. Control: TestLocksOfEndedJobsAreShownAsLeft.
func TestOnlyTheLeaderEndsLocks(t *testing.T) {
	w := start(t)
	w.App.stop() // its own sweep, as the leader, would end the lock
	w.wait.Wait()
	want := inventory.Want{Kind: inventory.ObjectLock, Name: "ark:/99999/fk4left", Note: "test"}
	if _, err := w.inventory.Take(t.Context(), inventory.Taker{Job: "ing_nobody", Epoch: 9}, want); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(w.dir, workdir.WorkName, "bat_old")
	long := time.Now().Add(-2 * youngest)
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chtimes(dir, long, long)); err != nil {
		t.Fatal(err)
	}
	store := storetest.Several{Store: mem.New()}
	e, err := engine.New(store, nil, engine.Options{Leads: func() bool { return false }})
	if err != nil {
		t.Fatal(err)
	}
	other := &App{options: w.options, log: w.log, engine: e, inventory: w.inventory, locations: w.locations,
		tree: w.tree, guard: e.Clock()}
	if err := other.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all, err := w.Locks(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("locks: %+v, %v", all, err)
	}
	if names := w.workDirs(); slices.Contains(names, "bat_old") {
		t.Errorf("directories: %q", names)
	}
}

// TestReleaseCallsTheNext has no time that passes: a job that waits for a lock moves only if it is called. The line
// goes by priority, then by age.
func TestReleaseCallsTheNext(t *testing.T) {
	stop := newStopper("record")
	w := begin(t, options(t, t.TempDir()), frozen{time.Now()},
		func(a *App) { a.locks = &tapped{locker: a.inventory, at: stop.at} }, nil)
	ark := "ark:/99999/fk4line"
	var batches []job.ID
	for i, priority := range []int{50, 50, 10, 50, 10} {
		s := Submission{PrimaryID: ark, Filename: "f.txt", Priority: &priority, Note: fmt.Sprint(i)}
		batches = append(batches, w.submit(s, fmt.Sprint("text ", i)).ID)
		if i == 0 {
			<-stop.came
			continue
		}
		w.awaitLocks("in line", func(all []Lock) bool { // the object's is the second
			return len(all) == 2 && len(all[1].Waiting) == i
		})
	}
	jobs := make([]job.ID, len(batches))
	for i, b := range batches {
		jobs[i] = w.children(b, 1)[0].ID
	}
	all, err := w.Locks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []job.ID{jobs[2], jobs[4], jobs[1], jobs[3]}
	if diff := cmp.Diff(want, all[1].Waiting); diff != "" || all[1].Holder != jobs[0] || all[0].Kind != "inventory" {
		t.Errorf("got %+v %s", all, diff)
	}
	x, err := explain.New(w.e).Why(t.Context(), jobs[3], never)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(x.Blockers, func(b job.Blocker) bool {
		return b.Code == "object" && b.Holder == string(jobs[0]) && b.Since.Equal(all[1].Since) &&
			strings.Contains(b.Sentence, ark)
	}) {
		t.Errorf("why: got %+v", x.Blockers)
	}
	close(stop.open)
	for _, b := range batches {
		if got := w.end(b); got.State != record.Completed {
			t.Errorf("got %s: %s", got.State, got.Message)
		}
	}
	var got []string
	for _, v := range w.object(ark).Versions {
		got = append(got, v.Note)
	}
	if diff := cmp.Diff([]string{"0", "2", "4", "1", "3"}, got); diff != "" {
		t.Error(diff)
	}
	w.awaitLocks("in the end", none)
	w.valid()
}

// TestManyWaitWithoutTime lets many come at once, so that releases fall into every moment of the decision to
// wait.
func TestManyWaitWithoutTime(t *testing.T) {
	w := begin(t, options(t, t.TempDir()), frozen{time.Now()}, nil, nil)
	var batches []job.ID
	for i := range 12 {
		batches = append(batches, w.submit(Submission{PrimaryID: "ark:/99999/fk4many", Filename: "f.txt"},
			fmt.Sprint("text ", i)).ID)
	}
	for _, b := range batches {
		w.end(b)
	}
	if o := w.object("ark:/99999/fk4many"); len(o.Versions) != len(batches) || o.Head != len(batches) {
		t.Errorf("got %+v", o)
	}
}

// TestLaterInLineChecksLessOften: the first ten jobs in a long line check again after a pause, the last after four. All
// are notified: the clock stands still. Each job is in line before the next one is submitted.
func TestLaterInLineChecksLessOften(t *testing.T) {
	const n = 35
	at, stop, ark := time.Now(), newStopper("record"), "ark:/99999/fk4long"
	w := begin(t, options(t, t.TempDir()), frozen{at}, func(a *App) {
		a.locks = &tapped{locker: a.inventory, at: stop.at}
	}, nil)
	var batches []job.ID
	for i := range n {
		b := w.submit(Submission{PrimaryID: ark, Filename: "f.txt"}, fmt.Sprint("text ", i))
		batches = append(batches, b.ID)
		if i == 0 {
			<-stop.came
			continue
		}
		id := w.children(b.ID, 1)[0].ID
		w.until(id, func(j *job.Job) bool { return !j.Claimed() && j.Cause == "object" })
		j, err := w.store.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := j.Due.Sub(at), time.Duration(1+(i-1)/10)*w.pause(); got != want {
			t.Errorf("number %d in line checks again after %s, want %s", i, got, want)
		}
	}
	w.awaitLocks("in line", func(all []Lock) bool { return len(all) == 2 && len(all[1].Waiting) == n-1 })
	close(stop.open)
	for _, b := range batches {
		w.end(b)
	}
	if o := w.object(ark); o.Head != n {
		t.Errorf("got %d versions, want %d", o.Head, n)
	}
}

// audited gives the entries about broken locks.
func (w *harness) audited() []job.Audit {
	w.t.Helper()
	all, err := w.store.Audit(w.t.Context(), 0, 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(a job.Audit) bool { return a.Event != BreakLock })
}

// TestBrokenLock takes the lock from a job at each moment when it thinks that it has it, and lets another job go first.
// Nothing is lost.
func TestBrokenLock(t *testing.T) {
	for _, call := range []string{"check", "commit", "record"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			stop := newStopper(call)
			p := testProfile()
			p.Storage = []string{"storage", "second"}
			w := begin(t, options(t, t.TempDir(), p), clock.System(), func(a *App) {
				a.locks = &tapped{locker: a.inventory, at: stop.at}
				a.expect = func(head string) *string { stop.at("commit", ""); return &head }
			}, nil)
			ark := "ark:/99999/fk4broken"
			slow := w.submit(Submission{PrimaryID: ark, Filename: "slow.txt", Update: true}, "slow")
			<-stop.came
			holder := w.children(slow.ID, 1)[0].ID
			quick := w.submit(Submission{PrimaryID: ark, Filename: "quick.txt", Update: true}, "quick")
			next := w.children(quick.ID, 1)[0].ID
			object := func(all []Lock) *Lock {
				i := slices.IndexFunc(all, func(l Lock) bool { return l.Kind == "object" })
				if i < 0 {
					return &Lock{}
				}
				return &all[i]
			}
			all := w.awaitLocks("waits", func(all []Lock) bool { return len(object(all).Waiting) == 1 })
			held := *object(all)
			for _, kind := range []string{"object", "inventory"} {
				was, err := w.BreakLock(t.Context(), kind, strings.Replace(ark, "ark:/", "ark:", 1), "ann", "it hangs")
				switch {
				case kind == "inventory" && call != "record":
					if job.KindOf(err) != job.NotFound {
						t.Errorf("got %v", err)
					}
				case err != nil || was.Holder != holder || kind == "object" && was.Token != held.Token:
					t.Errorf("got %+v, %v", was, err)
				}
			}
			if got := w.end(quick.ID); got.State != record.Completed {
				t.Fatalf("got %s: %s", got.State, got.Message)
			}
			close(stop.open)
			if got := w.end(slow.ID); got.State != record.Completed {
				t.Fatalf("got %s: %s", got.State, got.Message)
			}
			o := w.object(ark)
			if len(o.Versions) != 2 || o.Head != 2 {
				t.Fatalf("got %+v", o)
			}
			first, second := next, holder
			if call == "record" { // it had stored already
				first, second = holder, next
			}
			if o.Versions[0].Job != string(first) || o.Versions[1].Job != string(second) {
				t.Errorf("got %+v; %s held the lock first", o.Versions, holder)
			}
			if diff := cmp.Diff(map[string]string{"slow.txt": "slow", "quick.txt": "quick"},
				w.produced(ark, "v2")); diff != "" {
				t.Error(diff)
			}
			files, err := w.Files(t.Context(), ark, 2, "producer/", 0)
			if err != nil || len(files) < 2 ||
				slices.ContainsFunc(files, func(f StoredFile) bool { return len(f.SHA256) != 64 || f.Size == 0 }) {
				t.Errorf("got %+v, %v", files, err)
			}
			if entries := w.audited(); len(entries) == 0 || entries[0].Object != "object "+ark ||
				entries[0].Actor != "ann" || entries[0].Note != "it hangs" {
				t.Errorf("got %+v", entries)
			}
			w.awaitLocks("in the end", none)
			w.valid("storage", "second")
		})
	}
}

func TestBreakLockRefuses(t *testing.T) {
	w := start(t)
	if _, err := w.e.Operator().Hold(t.Context(), job.Scope{}, "ann", "nothing moves", never); err != nil {
		t.Fatal(err)
	}
	holder := w.submit(Submission{}, "text").ID
	if _, err := w.inventory.Take(t.Context(), inventory.Taker{Job: string(holder)},
		inventory.Want{Kind: inventory.LocalIDLock, Name: "library/l1"}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		kind, name, note string
		want             job.ErrorKind
	}{
		"kind":    {"door", "library/l1", "why", job.Invalid},
		"reason":  {"local-id", "library/l1", " ", job.Invalid},
		"control": {"local-id", "library/l1", "a\nb", job.Invalid},
		"nobody":  {"local-id", "library/l2", "why", job.NotFound},
		"other":   {"object", "library/l1", "why", job.NotFound},
	} {
		if _, err := w.BreakLock(t.Context(), c.kind, c.name, "ann", c.note); job.KindOf(err) != c.want {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if n := len(w.audited()); n != 0 {
		t.Errorf("%d entries about nothing", n)
	}
	was, err := w.BreakLock(t.Context(), "local-id", "library/l1", "", "why")
	if err != nil || was.Holder != holder || was.State != LockHeld || len(w.audited()) != 1 {
		t.Errorf("got %+v, %v", was, err)
	}
}
