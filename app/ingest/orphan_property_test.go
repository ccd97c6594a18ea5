package ingest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

// batches of the property test, and how many one process gets before it is killed.
const (
	randomBatches = 200
	perLife       = 20
)

// randomBatch makes a submission: one object or several, of which some name files that are not there.
func randomBatch(s *site, r *rand.Rand, n int) (Submission, string) {
	sub := Submission{Profile: "test", Submitter: "ann", Key: fmt.Sprint(n)}
	switch r.IntN(6) {
	case 0:
		sub.Type, sub.Filename = TypeFile, "f.txt"
		return sub, "a file"
	case 1:
		return sub, s.manifest("a.txt", "b.txt")
	case 2:
		return sub, s.manifest("missing.txt")
	case 3:
		sub.Type = TypeBatchManifest
		return sub, "not a manifest"
	}
	rows := []string{}
	for i := range 1 + r.IntN(3) {
		name := []string{"one.checkm", "two.checkm", "bad.checkm", "none.checkm"}[r.IntN(4)]
		rows = append(rows, s.row(name, fmt.Sprintf("l%d-%d", n, i), "T"))
	}
	return sub, manifest("mrt-batch-manifest", rows...)
}

// lead is one process: it submits batches, waits for their ends, retries and deletes some, until it is done or crashes
// at a call of the store.
func lead(t *testing.T, inner job.Store, o Options, s *site, r *rand.Rand, from int, at int) {
	t.Helper()
	m := newCrashing(inner, at, r.IntN(2) == 0)
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(m, a.Works(),
		engine.Options{Deliver: a.Deliver(), Sweep: 20 * time.Millisecond, Grace: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, kill := context.WithTimeout(context.Background(), 2*time.Minute)
	defer kill()
	a.Bind(e)
	var all, clients sync.WaitGroup
	all.Go(func() { _ = e.Run(ctx) })
	for n := from; n < from+perLife; n++ {
		sub, text := randomBatch(s, r, n)
		fate := r.IntN(4)
		clients.Go(func() { handle(ctx, a, m, sub, text, fate) })
	}
	done := make(chan struct{})
	go func() { clients.Wait(); close(done) }()
	select {
	case <-done:
	case <-m.Dead:
	case <-ctx.Done():
		t.Error("it neither ended nor crashed")
	}
	kill()
	gone := make(chan struct{})
	go func() { all.Wait(); close(gone) }()
	select {
	case <-gone:
	case <-time.After(100 * time.Millisecond): // the test does not wait for it
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// handle is what a depositor and an operator do to one batch. Errors are those of a process that crashes.
func handle(ctx context.Context, a *App, m *crashing, sub Submission, text string, fate int) {
	b, err := a.Submit(ctx, sub, strings.NewReader(text))
	if err != nil {
		return
	}
	act := func(id job.ID, e lifecycle.Event) {
		_, _ = a.engine.Do(ctx, operator.Act{Job: id, Event: e, By: lifecycle.Operator, Actor: "op", Confirm: true})
	}
	end := func() bool {
		j, err := a.engine.Await(ctx, b.ID, func(j *job.Job) bool { return j.Ended })
		return err == nil && j.Ended
	}
	if fate == 0 {
		act(b.ID, record.Cancel) // if it is still pending
	}
	if !end() {
		return
	}
	page, err := m.List(ctx, job.Query{Parent: b.ID, Limit: 100})
	if err != nil {
		return
	}
	for i := range page.Jobs {
		switch j := &page.Jobs[i]; {
		case fate == 1 && j.State == record.Failed:
			act(j.ID, record.Retry)
			if _, err := a.engine.Await(ctx, j.ID, func(j *job.Job) bool { return j.Ended }); err != nil {
				return
			}
		case fate == 2 && i == 0:
			act(j.ID, record.Delete)
		}
	}
	if fate == 3 {
		act(b.ID, record.Delete)
	}
}

// TestHealthySystemHasNoOrphans lets processes work on 200 random batches, with failures, retries and deletions, and
// kills them again and again. After the last one has ended what the others left, and swept, there are no orphans.
func TestHealthySystemHasNoOrphans(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha", "b.txt": "beta"})
	s.put("one.checkm", s.manifest("a.txt"))
	s.put("two.checkm", s.manifest("a.txt", "b.txt"))
	s.put("bad.checkm", s.manifest("missing.txt"))
	store, o := mem.New(), options(t, t.TempDir())
	r := rand.New(rand.NewPCG(1, 2))
	for from := 0; from < randomBatches; from += perLife {
		lead(t, store, o, s, r, from, 50+r.IntN(1500))
	}
	before := len(found(t, idleApp(t, store, o, hours(3))))
	w := startOn(t, store, o)
	open := false
	for {
		page, err := store.List(t.Context(), job.Query{Ended: &open, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Jobs) == 0 {
			break
		}
		w.end(page.Jobs[0].ID)
	}
	w.stop()
	old := time.Now().Add(-2 * time.Hour)
	err := filepath.WalkDir(filepath.Join(o.Dir, workdir.WorkName), func(name string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(name, old, old)) // hours go by
	})
	if err != nil {
		t.Fatal(err)
	}
	a := idleApp(t, store, o, hours(3))
	for range 3 { // the trash goes in bites
		if err := a.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := found(t, a); len(got) > 0 {
		t.Errorf("got %s", strings.Join(got, "\n"))
	}
	tallies, err := store.Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ends := map[lifecycle.State]int64{}
	for _, n := range tallies {
		ends[n.State] += n.Jobs
	}
	for _, state := range []lifecycle.State{record.Completed, record.Failed, record.Deleted} {
		if ends[state] == 0 {
			t.Errorf("control: nothing is %s in %v", state, ends)
		}
	}
	t.Logf("%v; the killed processes left %d things", ends, before)
	w.valid()
}

// TestDeathInADeletion kills the process at every call of the store in the deletion of a batch with jobs in every end.
// Afterwards a sweep leaves nothing behind. The control is the search before the sweep: there are windows in which it
// finds something.
func TestDeathInADeletion(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha"})
	s.put("one.checkm", s.manifest("a.txt"))
	s.put("bad.checkm", s.manifest("missing.txt"))
	text := manifest("mrt-batch-manifest", s.row("one.checkm", "l1", "One"), s.row("bad.checkm", "l2", "Two"),
		s.row("bad.checkm", "l3", "Three"))
	var mu sync.Mutex
	left, windows := 0, 0
	t.Run("windows", func(t *testing.T) {
		for at := 1; at <= 12; at++ {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d after=%t", at, after), func(t *testing.T) {
					t.Parallel()
					crashed, found := dieDeleting(t, text, at, after)
					mu.Lock()
					defer mu.Unlock()
					if crashed {
						windows++
					}
					if found > 0 {
						left++
					}
				})
			}
		}
	})
	t.Logf("%d windows, %d left something for the sweep", windows, left)
	if windows < 10 || left == 0 {
		t.Errorf("control: %d windows, %d of them left something", windows, left)
	}
}

// dieDeleting makes a batch and deletes it in a process that crashes at a call, and lists what is left before and after
// a sweep.
func dieDeleting(t *testing.T, text string, at int, after bool) (crashed bool, before int) {
	store, o := mem.New(), options(t, t.TempDir())
	w := startOn(t, store, o)
	r := w.ingest(Submission{Notification: "ann@example.org"}, text)
	if r.Completed != 1 || r.Failed != 2 {
		t.Fatalf("got %s", r.Text())
	}
	w.awaitMails(2)
	if _, err := w.e.Do(t.Context(), operator.Act{Job: r.Jobs[2].Job, Event: record.Delete, By: lifecycle.Operator,
		Actor: "op", Confirm: true}); err != nil {
		t.Fatal(err)
	}
	w.stop()
	m := newCrashing(store, at, after)
	a := idleApp(t, m, o, hours(0))
	over := make(chan error, 1)
	go func() {
		err := errors.New("crashed")
		defer func() { over <- err }()
		_, err = a.engine.Do(t.Context(),
			operator.Act{Job: r.Batch, Event: record.Delete, By: lifecycle.Operator, Actor: "op", Confirm: true})
		if err == nil {
			err = a.Sweep(t.Context())
		}
	}()
	err := <-over
	select {
	case <-m.Dead:
		crashed = true
	default:
		if err != nil {
			t.Error(err)
		}
	}
	next := idleApp(t, store, o, hours(3))
	before = len(found(t, next))
	if err := next.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := found(t, next); len(got) > 0 {
		t.Errorf("got %v", got)
	}
	page, err := store.List(t.Context(), job.Query{Parent: r.Batch})
	if err != nil {
		t.Fatal(err)
	}
	b, err := store.Get(t.Context(), r.Batch)
	if err != nil {
		t.Fatal(err)
	}
	for i := range page.Jobs {
		if j := &page.Jobs[i]; b.Gone && !j.Gone {
			t.Errorf("%s is %s, its batch is deleted", j.ID, j.State)
		}
	}
	return crashed, before
}
