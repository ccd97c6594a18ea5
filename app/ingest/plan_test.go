package ingest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/bulk"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// The tests of this file are the acceptance list of the ingest queue that came before: many small objects, a few very
// large ones, an error while a batch is created, locks of failed jobs, holds before and during a batch, releases, and a
// retry of a failure of each phase (planphase_test.go).

var planJobs = flag.Int("jobs", 300, "small objects in one batch in TestPlanManySmallObjects")

// startPlan runs the application together with bulks.
func startPlan(t *testing.T, store job.Store, o Options) (*harness, *bulk.App) {
	t.Helper()
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	bulks := bulk.New(bulk.Options{})
	e, err := engine.New(store, append(a.Works(), bulks.Works()...), engine.Options{
		Deliver: a.Deliver(), Sweep: 20 * time.Millisecond, Grace: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	a.Bind(e)
	bulks.Bind(e)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, a.Close()); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return &harness{App: a, t: t, dir: o.Dir, store: store, e: e}, bulks
}

// inBulk has a person do one thing to all jobs that match.
func (w *harness) inBulk(bulks *bulk.App, r bulk.Request, expect int) bulk.Result {
	w.t.Helper()
	r.Note, r.Actor, r.Expect = "the plan", "op", &expect
	j, err := bulks.Start(w.t.Context(), r, "")
	if err != nil {
		w.t.Fatal(err)
	}
	if j = w.end(j.ID); j.State == bulk.Failed && j.Cause != bulk.CauseRefused {
		w.t.Fatalf("the bulk failed: %s", j.Message)
	}
	result, err := bulks.Result(w.t.Context(), j.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

// TestPlanManySmallObjects: one manifest of very many objects. Every one is fetched once and stored once, the report
// has them in order, and one mail reports all.
func TestPlanManySmallObjects(t *testing.T) {
	n := *planJobs
	s := newSite(t, nil)
	rows := make([]string, n)
	for i := range rows {
		name := fmt.Sprintf("f%05d.txt", i)
		s.files[name] = fmt.Sprintf("object %d", i)
		rows[i] = s.row(name, "local-"+strconv.Itoa(i), "Object "+strconv.Itoa(i))
	}
	w, _ := startPlan(t, mem.New(), options(t, t.TempDir()))
	began := time.Now()
	b := w.submit(Submission{Notification: "ann@example.org"}, manifest("mrt-single-file-batch-manifest", rows...))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second+time.Duration(n)*100*time.Millisecond)
	defer cancel()
	b, err := w.e.Await(ctx, b.ID, func(j *job.Job) bool { return j.Ended })
	if err != nil || b.State != record.Completed || b.Children.OK != n {
		t.Fatalf("it is %s with %+v: %s (%v)", b.State, b.Children, b.Message, err)
	}
	took := time.Since(began)
	t.Logf("%d objects in %s, %.0f a second", n, took.Round(time.Millisecond), float64(n)/took.Seconds())
	r, arks := w.reported(b.ID), map[string]bool{}
	for i, j := range r.Jobs {
		arks[j.ARK] = true
		if want := fmt.Sprintf("f%05d.txt", i); j.Filename != want || j.State != record.Completed || j.Version != 1 {
			t.Fatalf("row %d of the report is %+v, want %s", i, j, want)
		}
	}
	if len(r.Jobs) != n || len(arks) != n || r.Completed != n {
		t.Errorf("the report has %d jobs and %d objects", len(r.Jobs), len(arks))
	}
	if objects, versions, _, err := w.inventory.Counts(t.Context()); err != nil || objects != n || versions != n {
		t.Errorf("%d objects and %d versions are stored, %v", objects, versions, err)
	}
	s.mu.Lock()
	for name, gets := range s.gets {
		if gets != 1 {
			t.Errorf("%s was fetched %d times", name, gets)
		}
	}
	s.mu.Unlock()
	if mails := w.awaitMails(2); len(mails) != 2 {
		t.Errorf("%d mails, want that it is queued and the report", len(mails))
	}
	first, err := w.store.Get(t.Context(), r.Jobs[0].Job)
	if want := min(max(int(10*math.Log(float64(n))+5), 0), 99); err != nil || first.Priority != want {
		t.Errorf("priority %d, want %d: the more jobs, the later (%v)", first.Priority, want, err)
	}
}

// TestPlanVeryLargeObjects: one whose server stops to answer fails in the end and is retried, one whose server is slow
// but steady completes, and one of many bytes does too. None keeps another waiting.
func TestPlanVeryLargeObjects(t *testing.T) {
	const terabytes, sparse = 5_000_000_000_000, 48 << 20
	s := newSite(t, nil)
	s.answer("silent", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(terabytes))
		if r.Method == http.MethodGet {
			_, _ = w.Write(make([]byte, 1<<16))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	})
	s.answer("steady", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "40")
		for i := 0; i < 40 && r.Method == http.MethodGet; i++ {
			_, _ = w.Write([]byte("."))
			w.(http.Flusher).Flush()
			<-time.After(25 * time.Millisecond) // a slow server: 1 s in all, twice what a silent one gets
		}
	})
	s.answer("sparse", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(sparse))
		if r.Method == http.MethodGet {
			_, _ = io.CopyN(w, zeros{}, sparse)
		}
	})
	p := testProfile()
	p.Limits.Bytes = 1 << 43
	o := options(t, t.TempDir(), p)
	o.Fetch.IdleTimeout = 500 * time.Millisecond
	w, _ := startPlan(t, mem.New(), o)
	b := w.end(w.submit(Submission{}, manifest("mrt-single-file-batch-manifest", s.row("silent", "", ""),
		s.row("steady", "", ""), s.row("sparse", "", ""))).ID)
	r := w.reported(b.ID)
	silent := r.Jobs[0]
	if b.State != record.Failed || silent.FailedIn != record.Downloading || silent.Cause != CauseNetwork ||
		r.Completed != 2 || r.Jobs[2].Bytes < sparse {
		t.Fatalf("got %s", r.Text())
	}
	j, err := w.store.Get(t.Context(), silent.Job)
	if err != nil || j.Claimed() {
		t.Errorf("got %+v, %v", j, err)
	}
	s.answer("silent", nil)
	s.put("silent", "found its voice")
	if err := w.do(silent.Job, record.Retry); err != nil {
		t.Fatal(err)
	}
	if j = w.end(j.ID); j.State != record.Completed {
		t.Errorf("got %s: %s", j.State, j.Message)
	}
	w.valid()
}

// zeros is a source that never ends.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// TestPlanErrorInAManifest: a row that cannot be read fails the batch before there is a job, however many good ones
// come before it, and the notice goes out.
func TestPlanErrorInAManifest(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "a"})
	rows := slices.Repeat([]string{s.row("a.txt", "", "")}, 700)
	w, _ := startPlan(t, mem.New(), options(t, t.TempDir()))
	b := w.end(w.submit(Submission{Notification: "ann@example.org"},
		manifest("mrt-single-file-batch-manifest", append(rows, "no | digest | of | any | kind")...)).ID)
	if b.State != record.Failed || b.Cause != CauseCorruptManifest || b.Children != (job.Children{}) {
		t.Errorf("it is %s (%s) with %+v", b.State, b.Cause, b.Children)
	}
	page, err := w.store.List(t.Context(), job.Query{Kinds: []job.Kind{record.JobKind}})
	if err != nil || len(page.Jobs) > 0 {
		t.Errorf("%d jobs are left, %v", len(page.Jobs), err)
	}
	if mails := w.awaitMails(1); len(mails) != 1 || !strings.Contains(mails[0], "Submission Queue Failed") ||
		!strings.Contains(mails[0], string(b.ID)) {
		t.Errorf("got %v", mails)
	}
	w.nothingStored()
}

// TestPlanHoldBeforeABatch: batches of held collections go to Held. Released while the hold is on they are refused, one
// by one and in bulk; afterwards one, all of a collection, and everything.
func TestPlanHoldBeforeABatch(t *testing.T) {
	books := testProfile()
	books.ID, books.Collection = "books", "books"
	o := options(t, t.TempDir(), testProfile(), books)
	w, bulks := startPlan(t, mem.New(), o)
	maps, all := job.Scope{Group: "maps"}, []job.ID{}
	w.hold(maps, never)
	w.hold(job.Scope{Group: "books"}, never)
	for i, p := range []string{"test", "test", "test", "books", "books"} {
		b := w.submit(Submission{Profile: p, Filename: "f.txt"}, fmt.Sprint("text ", i))
		w.until(b.ID, is(record.Held))
		all = append(all, b.ID)
	}
	held := bulk.Request{Kinds: []job.Kind{record.BatchKind}, States: []lifecycle.State{record.Held},
		Event: record.Release}
	ofMaps := held
	ofMaps.Group = "maps"
	if err := w.do(all[0], record.Release); job.KindOf(err) != job.Refused ||
		!strings.Contains(err.Error(), "group=maps is still on hold (flood, by op)") {
		t.Errorf("one, while held: got %v", err)
	}
	if r := w.inBulk(bulks, held, 5); r.Done != 0 || r.Refused != 5 || len(r.Refusals) != 2 {
		t.Errorf("all, while held: got %+v", r)
	}
	w.release(maps)
	if err := w.do(all[0], record.Release); err != nil {
		t.Errorf("one, afterwards: got %v", err)
	}
	if r := w.inBulk(bulks, ofMaps, 2); r.Done != 2 {
		t.Errorf("all of a collection: got %+v", r)
	}
	for _, id := range all[:3] {
		if b := w.end(id); b.State != record.Completed {
			t.Errorf("%s is %s: %s", id, b.State, b.Message)
		}
	}
	// the control: the other collection is held as before
	if r := w.inBulk(bulks, held, 2); r.Done != 0 || r.Refused != 2 {
		t.Errorf("another collection: got %+v", r)
	}
	w.release(job.Scope{Group: "books"})
	if r := w.inBulk(bulks, held, 2); r.Done != 2 {
		t.Errorf("everything: got %+v", r)
	}
	for _, id := range all[3:] {
		if b := w.end(id); b.State != record.Completed {
			t.Errorf("%s is %s: %s", id, b.State, b.Message)
		}
	}
}

// TestPlanHoldDuringALargeBatch: jobs at work finish their stage and wait in the next, those that had not begun go to
// Held, nothing is stored. Afterwards the first go on by themselves, the others when they are released. Each job but
// the first has its slot for the first stage until the hold is set, and none waits for a share of the slots after it
// began, so that no more than the first and one job for each slot have begun.
func TestPlanHoldDuringALargeBatch(t *testing.T) {
	const n = 60
	s := newSite(t, nil)
	asked, answer := make(chan string, 2*n), make(chan struct{})
	rows := make([]string, n)
	for i := range rows {
		name := fmt.Sprintf("f%02d", i)
		rows[i] = s.row(name, "", "")
		s.answer(name, func(w http.ResponseWriter, r *http.Request) {
			if i > 0 || r.Method == http.MethodGet {
				asked <- name
				<-answer
			}
			http.ServeContent(w, r, "", modified, strings.NewReader(name))
		})
	}
	w, bulks := startPlan(t, mem.New(), options(t, t.TempDir()))
	w.sources.most = func(slots int, _ bool) int { return slots }
	slots := w.e.Status().Pool(record.JobKind).Slots
	b := w.submit(Submission{}, manifest("mrt-single-file-batch-manifest", rows...))
	jobs := w.children(b.ID, n)
	<-asked
	scope := job.Scope{Group: "maps"}
	w.hold(scope, never)
	close(answer)
	var aside, waiting []job.ID
	for _, j := range jobs {
		w.until(j.ID, func(j *job.Job) bool {
			return j.State == record.Held || !j.Claimed() &&
				slices.Contains([]lifecycle.State{record.Estimating, record.Provisioning, record.Downloading,
					record.Processing}, j.State)
		})
		if now, err := w.store.Get(t.Context(), j.ID); err != nil {
			t.Fatal(err)
		} else if now.State == record.Held {
			aside = append(aside, j.ID)
		}
	}
	for _, j := range jobs {
		if slices.Contains(aside, j.ID) {
			continue
		}
		waiting = append(waiting, j.ID)
		if text := w.holder(j.ID); text != "group=maps is on hold: flood" {
			t.Errorf("why gives %q", text)
		}
	}
	if len(waiting) == 0 || len(aside) < n-slots-1 {
		t.Errorf("%d wait in the next stage and %d are held", len(waiting), len(aside))
	}
	w.nothingStored()
	release := bulk.Request{Parent: b.ID, States: []lifecycle.State{record.Held}, Event: record.Release}
	if r := w.inBulk(bulks, release, len(aside)); r.Done != 0 || r.Refused != len(aside) {
		t.Errorf("released while held: %+v", r)
	}
	w.release(scope)
	for _, id := range waiting {
		if j := w.end(id); j.State != record.Completed {
			t.Errorf("it waited and is %s: %s", j.State, j.Message)
		}
	}
	for _, id := range aside {
		if j, err := w.store.Get(t.Context(), id); err != nil || j.State != record.Held {
			t.Errorf("it was not released and is %s, %v", j.State, err)
		}
	}
	if err := w.do(aside[0], record.Release); err != nil {
		t.Error(err)
	}
	if r := w.inBulk(bulks, release, len(aside)-1); r.Done != len(aside)-1 {
		t.Errorf("released afterwards: %+v", r)
	}
	if b = w.end(b.ID); b.State != record.Completed || b.Children.OK != n {
		t.Errorf("the batch is %s with %+v", b.State, b.Children)
	}
}

// TestPlanStoppedJobsReleaseTheirLocks: an operator stops a job in the midst of minting; another job for the same local
// id goes on at once.
func TestPlanStoppedJobsReleaseTheirLocks(t *testing.T) {
	m := &minter{}
	p := newMinter(t, m)
	inner := p.Minter.URL
	called, answer := make(chan struct{}, 9), make(chan struct{})
	slow := newSite(t, nil)
	slow.answer("", func(w http.ResponseWriter, r *http.Request) {
		called <- struct{}{}
		<-answer
		http.Redirect(w, r, inner, http.StatusTemporaryRedirect)
	})
	p.Minter = profile.Minter{URL: slow.URL}
	other := newMinter(t, m)
	other.ID = "other"
	w, _ := startPlan(t, mem.New(), options(t, t.TempDir(), p, other))
	b := w.submit(Submission{LocalIDs: []string{"l1"}}, "a")
	id := w.children(b.ID, 1)[0].ID
	<-called
	if locks, err := w.inventory.Locks(t.Context()); err != nil || len(locks) != 1 { // the control
		t.Errorf("while it mints: %v, %v", locks, err)
	}
	if err := w.do(id, record.Stop); err != nil {
		t.Fatal(err)
	}
	if j := w.end(id); j.State != record.Failed || j.Claimed() || j.Origin != record.Processing {
		t.Errorf("got %+v", j)
	}
	if r := w.one(Submission{Profile: "other", LocalIDs: []string{"l1"}}, "b"); r.Version != 1 {
		t.Errorf("got %+v", r)
	}
	close(answer)
	if locks, err := w.inventory.Locks(t.Context()); err != nil || len(locks) > 0 {
		t.Errorf("left behind: %v, %v", locks, err)
	}
}
