package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// inTrash lists the ids in the trash, and fails on a name without a time.
func inTrash(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, workdir.TrashName))
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, e := range entries {
		_, id, ok := workdir.ParseTrashed(e.Name())
		if !ok {
			t.Errorf("%s has no time", e.Name())
		}
		ids = append(ids, id)
	}
	return ids
}

// TestTrashKeepsForItsTime: unneeded files are in the trash under their id until their time is over, then are removed
// in batches, and not while the clock jumps.
func TestTrashKeepsForItsTime(t *testing.T) {
	o := options(t, t.TempDir())
	o.TrashKeep = 24 * time.Hour
	clock := hours(0)
	a := idleApp(t, mem.New(), o, clock)
	const n = 250
	for i := range n {
		plant(t, o.Dir, fmt.Sprintf("work/bat_%03d/payload", i), 2)
	}
	sweep := func(want int) {
		t.Helper()
		if err := a.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(inTrash(t, o.Dir)); got != want {
			t.Errorf("%d are in the trash, want %d", got, want)
		}
	}
	sweep(n)
	if got := inTrash(t, o.Dir); got[0] != "bat_000" {
		t.Errorf("got %s first", got[0])
	}
	clock.now, clock.wall = 23*time.Hour, 23*time.Hour
	sweep(n)
	clock.now, clock.wall = 25*time.Hour, 27*time.Hour
	sweep(n) // the clock jumped
	clock.wall = 25 * time.Hour
	sweep(n - 100)
	sweep(n - 200)
	sweep(0)
}

// TestSweepAfterAJumpMovesNothing: not even to the trash.
func TestSweepAfterAJumpMovesNothing(t *testing.T) {
	o := options(t, t.TempDir())
	clock := hours(0)
	a := idleApp(t, mem.New(), o, clock)
	plant(t, o.Dir, "work/bat_A/payload", 2)
	clock.wall = -2 * time.Hour
	for _, want := range []bool{true, false} {
		if err := a.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(o.Dir, "work/bat_A")); (err == nil) != want {
			t.Errorf("it is there: %v, want %t", err, want)
		}
		clock.wall = 0
	}
}

// TestUploadUnderWayIsLeftAlone: a directory without a batch is old only if nothing in it is written.
func TestUploadUnderWayIsLeftAlone(t *testing.T) {
	o := options(t, t.TempDir())
	a := idleApp(t, mem.New(), o, hours(0))
	plant(t, o.Dir, "work/bat_A/payload.new", 2)
	now := time.Now()
	if err := os.Chtimes(filepath.Join(o.Dir, "work/bat_A/payload.new"), now, now); err != nil {
		t.Fatal(err)
	}
	plant(t, o.Dir, "work/bat_B/payload.new", 2) // the control: no attempt writes any more
	if err := a.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(o.Dir, workdir.WorkName))
	if err != nil || len(entries) != 1 || entries[0].Name() != "bat_A" {
		t.Errorf("got %v, %v", entries, err)
	}
}

// stopIn lets a batch of one job run up to a state, and there an operator stops the job. The hold stays.
func stopIn(t *testing.T, w *harness, state lifecycle.State, s Submission, text string) job.Job {
	t.Helper()
	if _, err := w.e.Operator().Hold(t.Context(), job.Scope{Kind: record.JobKind, State: state}, "op", "test",
		time.Time{}); err != nil {
		t.Fatal(err)
	}
	j := w.children(w.submit(s, text).ID, 1)[0]
	w.until(j.ID, func(j *job.Job) bool { return j.State == state && !j.Claimed() })
	if err := w.do(j.ID, record.Stop); err != nil {
		t.Fatal(err)
	}
	w.end(j.Parent)
	return w.end(j.ID)
}

// TestRetryAfterTheWorkWasClearedAway: the working files of a job that failed long ago are in the trash; a retry into
// any phase fetches them again and ends in the same object. A job that failed lately keeps its files.
func TestRetryAfterTheWorkWasClearedAway(t *testing.T) {
	for _, state := range []lifecycle.State{record.Estimating, record.Downloading, record.Processing, record.Storing,
		record.Recording, record.Notify} {
		for _, typ := range []string{TypeObjectManifest, TypeFile} {
			t.Run(string(state)+" "+typ, func(t *testing.T) {
				t.Parallel()
				s := newSite(t, map[string]string{"a.txt": "alpha", "b.txt": "beta"})
				text := "payload"
				if typ == TypeObjectManifest {
					text = s.manifest("a.txt", "b.txt")
				}
				o := options(t, t.TempDir())
				o.TrashKeep, o.WorkKeep = time.Hour, 30*24*time.Hour
				store := mem.New()
				w := startOn(t, store, o)
				j := stopIn(t, w, state, Submission{Type: typ, Filename: "f.txt", LocalIDs: []string{"l"}}, text)
				w.stop()
				if err := idleApp(t, store, o, hours(29*24)).Sweep(t.Context()); err != nil ||
					!w.hasWork(j.Parent, j.ID) {
					t.Fatalf("control: its files are gone too early (%v)", err)
				}
				if err := idleApp(t, store, o, hours(31*24)).Sweep(t.Context()); err != nil ||
					w.hasWork(j.Parent, j.ID) {
					t.Fatalf("its files are still there (%v)", err)
				}
				if got := inTrash(t, o.Dir); len(got) != 1 || got[0] != string(j.ID) {
					t.Errorf("the trash has %v", got)
				}
				w = startOn(t, store, o)
				if _, err := w.e.Operator().Release(t.Context(), job.Scope{Kind: record.JobKind, State: state}, "op",
					"test"); err != nil {
					t.Fatal(err)
				}
				if err := w.do(j.ID, record.Retry); err != nil {
					t.Fatal(err)
				}
				if got := w.end(j.ID); got.State != record.Completed {
					t.Fatalf("got %s: %s", got.State, got.Message)
				}
				r := w.reported(j.Parent).Jobs[0]
				files := w.files(r.ARK, "v1")
				if typ == TypeFile && files["producer/f.txt"] != "payload" || typ == TypeObjectManifest &&
					(files["producer/a.txt"] != "alpha" || files["producer/b.txt"] != "beta") {
					t.Errorf("got %v", files)
				}
				if v := w.object(r.ARK).Versions; len(v) != 1 {
					t.Errorf("got %d versions", len(v))
				}
			})
		}
	}
}

// TestInterruptedRefill: the working files of a failed job were cleared away, and the first attempt to fetch them again
// gets one of two. The next attempts fetch the other one, too: the object is complete.
func TestInterruptedRefill(t *testing.T) {
	for _, state := range []lifecycle.State{record.Processing, record.Storing} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, map[string]string{"a.txt": "alpha", "b.txt": "beta"})
			o := options(t, t.TempDir())
			o.TrashKeep, o.WorkKeep = time.Hour, time.Hour
			store := mem.New()
			w := startOn(t, store, o)
			j := stopIn(t, w, state, Submission{LocalIDs: []string{"l"}}, s.manifest("a.txt", "b.txt"))
			w.stop()
			if err := idleApp(t, store, o, hours(2)).Sweep(t.Context()); err != nil || w.hasWork(j.Parent, j.ID) {
				t.Fatalf("its files are still there (%v)", err)
			}
			var up atomic.Bool
			s.answer("b.txt", func(w http.ResponseWriter, _ *http.Request) {
				if !up.Load() {
					http.Error(w, "down", http.StatusServiceUnavailable)
					return
				}
				_, _ = io.WriteString(w, "beta")
			})
			w = startOn(t, store, o)
			if _, err := w.e.Operator().Release(t.Context(), job.Scope{Kind: record.JobKind, State: state}, "op",
				"test"); err != nil {
				t.Fatal(err)
			}
			if err := w.do(j.ID, record.Retry); err != nil {
				t.Fatal(err)
			}
			w.until(j.ID, func(j *job.Job) bool { return j.Attempts > 0 })
			up.Store(true)
			if got := w.end(j.ID); got.State != record.Completed {
				t.Fatalf("got %s: %s", got.State, got.Message)
			}
			files := w.files(w.reported(j.Parent).Jobs[0].ARK, "v1")
			if files["producer/a.txt"] != "alpha" || files["producer/b.txt"] != "beta" {
				t.Errorf("the object has %v", files)
			}
		})
	}
}

// TestTrashDoesNotTakeWorkInUse: a directory in which an attempt works stays, and an attempt that opened it as it went
// waits for the next one.
func TestTrashDoesNotTakeWorkInUse(t *testing.T) {
	o := options(t, t.TempDir())
	a := idleApp(t, mem.New(), o, hours(0))
	d, err := a.tree.Open("bat_A", "ing_A", 1)
	if err != nil {
		t.Fatal(err)
	}
	yes := func() (bool, error) { return true, nil }
	if done, err := a.tree.DiscardIdle("bat_A", "ing_A", yes); done || err != nil {
		t.Errorf("it was taken (%t, %v)", done, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	no := func() (bool, error) { return false, nil }
	if done, err := a.tree.DiscardIdle("bat_A", "ing_A", no); done || err != nil {
		t.Errorf("it was taken though it is needed (%t, %v)", done, err)
	}
	dir := filepath.Join(o.Dir, workdir.WorkName, "bat_A", "ing_A")
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	late := &workdir.Dir{Root: root}
	defer late.Close()
	if there, err := late.At(dir); !there || err != nil {
		t.Errorf("got %t, %v", there, err)
	}
	if done, err := a.tree.DiscardIdle("bat_A", "ing_A", yes); !done || err != nil {
		t.Errorf("it is still there (%t, %v)", done, err)
	}
	if there, err := late.At(dir); there || err != nil {
		t.Errorf("what went to the trash is taken for the real one (%v)", err)
	}
}

// TestDeletedWorkGoesAtOnce: the directories of a deleted batch and its jobs go to the trash as soon as the tombstone
// is there.
func TestDeletedWorkGoesAtOnce(t *testing.T) {
	s := newSite(t, nil)
	o := options(t, t.TempDir())
	o.TrashKeep = time.Hour
	w := startOn(t, mem.New(), o)
	s.put("o.checkm", strings.ReplaceAll(manifest("mrt-ingest-manifest", s.URL+"/missing | | | | | missing"), "\r", ""))
	b := w.end(w.submit(Submission{}, manifest("mrt-batch-manifest", s.row("o.checkm", "l", "T"))).ID)
	if b.State != record.Failed {
		t.Fatalf("got %s", b.State)
	}
	w.awaitMails(1)
	if _, err := w.e.Do(t.Context(),
		operator.Act{Job: b.ID, Event: record.Delete, By: lifecycle.Operator, Actor: "op", Confirm: true}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := w.e.Await(ctx, w.children(b.ID, 1)[0].ID, func(j *job.Job) bool { return j.Gone }); err != nil {
		t.Fatal(err)
	}
	w.stop() // waits for the sweep that is at it
	if got := inTrash(t, o.Dir); len(got) == 0 {
		t.Error("nothing is in the trash")
	}
	if got := w.workDirs(); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

// TestRecordsGoChildrenFirst: the jobs of a deleted batch are purged, then the batch; a deleted job of a batch that
// stands is kept, for its report.
func TestRecordsGoChildrenFirst(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha"})
	s.put("one.checkm", s.manifest("a.txt"))
	text := func(id string) string {
		return manifest("mrt-batch-manifest", s.row("one.checkm", id+"1", "One"), s.row("one.checkm", id+"2", "Two"))
	}
	store, o := mem.New(), options(t, t.TempDir())
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	order := make(chan job.ID, 10)
	clear := func(ctx context.Context, j *job.Job) error {
		order <- j.ID
		return a.Clear(ctx, j)
	}
	e, err := engine.New(store, a.Works(),
		engine.Options{Deliver: a.Deliver(), Sweep: 5 * time.Millisecond, Retain: engine.Retention{
			Every: 10 * time.Millisecond, Records: time.Millisecond, Clear: clear,
		}})
	if err != nil {
		t.Fatal(err)
	}
	a.Bind(e)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	w := &harness{App: a, t: t, dir: o.Dir, store: store, e: e}
	defer func() {
		cancel()
		if err := errors.Join(<-done, a.Close()); err != nil {
			t.Error(err)
		}
	}()
	stands, goes := w.ingest(Submission{}, text("x")), w.ingest(Submission{}, text("y"))
	w.awaitMails(4)
	for _, id := range []job.ID{stands.Jobs[0].Job, goes.Batch} {
		if _, err := e.Do(t.Context(),
			operator.Act{Job: id, Event: record.Delete, By: lifecycle.Operator,
				Actor: "op", Confirm: true}); err != nil {
			t.Fatal(err)
		}
	}
	want := []job.ID{goes.Jobs[0].Job, goes.Jobs[1].Job, goes.Batch}
	for _, id := range want {
		select {
		case got := <-order:
			if got != id {
				t.Errorf("%s went, want %s", got, id)
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("%s did not go", id)
		}
	}
	w.verify(stands.Batch) // any call after the last purge
	if _, err := store.Get(t.Context(), stands.Jobs[0].Job); err != nil {
		t.Errorf("a job of a batch that stands: %v", err)
	}
	if got := w.reported(stands.Batch); got.Deleted != 1 || len(got.Jobs) != 2 {
		t.Errorf("got %s", got.Text())
	}
}

// TestTrashWords: the zero of TrashKeep is its default, and job.Off removes at once.
func TestTrashWords(t *testing.T) {
	for keep, want := range map[time.Duration]int{0: 1, job.Off: 0} {
		o := options(t, t.TempDir())
		o.TrashKeep = keep
		w := wire(t, mem.New(), o)
		path := filepath.Join(o.Dir, "left")
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := w.tree.ToTrash(path, "ing_1"); err != nil {
			t.Fatal(err)
		}
		if got := inTrash(t, o.Dir); len(got) != want {
			t.Errorf("%s: the trash has %v, want %d", keep, got, want)
		}
	}
}
