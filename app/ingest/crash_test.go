package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/enginetest"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// crashing is a store in a process that crashes.
type crashing = enginetest.Crashing

var newCrashing = enginetest.NewCrashing

// live runs the application until the batch has ended or the process crashed, and reports whether it crashed.
func live(t *testing.T, m *crashing, o Options, s Submission, text string) (crashed bool) {
	t.Helper()
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(m, a.Works(), engine.Options{Deliver: a.Deliver(), Sweep: time.Hour, Grace: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, kill := context.WithCancel(context.Background())
	a.Bind(e)
	var all sync.WaitGroup
	all.Go(func() { _ = e.Run(ctx) })
	ended := make(chan struct{})
	all.Go(func() {
		b, err := a.Submit(ctx, s, strings.NewReader(text))
		if err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			return
		}
		_, _ = e.Await(ctx, b.ID, func(j *job.Job) bool { return j.Ended })
		for { // the mails belong to the life of the batch
			messages, err := job.MessagesOf(ctx, m.Store, b.ID)
			open := err == nil
			for _, one := range messages {
				open = open && one.Settled == job.Pending
			}
			if len(messages) == 2 && !open {
				break
			}
			select {
			case <-m.Dead:
				return
			case <-time.After(time.Millisecond):
			}
		}
		close(ended)
	})
	select {
	case <-m.Dead:
		crashed = true
	case <-ended:
	case <-time.After(2 * time.Minute):
		t.Errorf("neither ended nor crashed at call %d", m.At)
	}
	kill()
	gone := make(chan struct{})
	go func() { all.Wait(); close(gone) }()
	select {
	case <-gone:
	// an engine that crashed in a call never gives its slots back; the test does not wait for it
	case <-time.After(300 * time.Millisecond):
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	return crashed
}

// plainReport is a report without what differs between runs: ids and times.
func plainReport(t *testing.T, r report.Batch) string {
	t.Helper()
	r.Batch, r.Submitted, r.Ended = "", never, never
	for i := range r.Jobs {
		r.Jobs[i].Job = ""
		if r.Jobs[i].ARK != "" {
			r.Jobs[i].ARK = "minted" // each installation has an order of its own
		}
		r.Jobs[i].Bytes = 0 // the system files hold the ids' and times' lengths
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDeathAtEveryCall kills the process at every call of the store in the life of a batch, before and after the call,
// and lets another process go on: one ARK, one version, one entry, the same report, each mail once.
func TestDeathAtEveryCall(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha", "b.txt": "beta"})
	s.put("one.checkm", s.manifest("a.txt", "b.txt"))
	s.put("two.checkm", s.manifest("missing.txt"))
	text := manifest("mrt-batch-manifest", s.row("one.checkm", "l1", "One"), s.row("two.checkm", "l2", "Two"))
	sub := Submission{Profile: "test", Submitter: "ann", Key: "k", Notification: "ann@example.org"}

	whole := newCrashing(mem.New(), 0, false)
	o := options(t, t.TempDir())
	live(t, whole, o, sub, text)
	want := plainReport(t, reopen(t, whole.Store, o, sub, text))
	t.Logf("the life of the batch has %d calls", whole.Calls())
	if !strings.Contains(want, `"completed": 1`) || !strings.Contains(want, `"failed": 1`) {
		t.Fatalf("control: got %s", want)
	}
	t.Run("windows", func(t *testing.T) {
		for at := 1; at <= whole.Calls(); at++ {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d after=%t", at, after), func(t *testing.T) {
					t.Parallel()
					m := newCrashing(mem.New(), at, after)
					o := options(t, leavable(t))
					live(t, m, o, sub, text)
					r := reopen(t, m.Store, o, sub, text)
					if diff := cmp.Diff(want, plainReport(t, r)); diff != "" {
						t.Error(diff)
					}
					failed := filepath.Join(o.Dir, workdir.WorkName, string(r.Batch), string(r.Jobs[1].Job))
					if _, err := os.Stat(failed); err != nil {
						t.Errorf("the work of the failed job stays for a retry: %v", err)
					}
				})
			}
		}
	})
}

// reopen starts another process on what was left, repeats the submission, and checks the result.
func reopen(t *testing.T, store job.Store, o Options, s Submission, text string) report.Batch {
	t.Helper()
	w := startOn(t, store, o)
	b := w.end(w.submit(s, text).ID)
	r := w.reported(b.ID)
	if mails := w.awaitMails(2); len(mails) != 2 {
		t.Errorf("got %d mails", len(mails))
	}
	objects, versions, minted, err := w.inventory.Counts(t.Context())
	if err != nil || objects != 1 || versions != 1 || minted != 1 {
		t.Errorf("got %d objects, %d versions, %d minted, %v", objects, versions, minted, err)
	}
	root, err := ocfl.OpenRoot(filepath.Join(o.Dir, "storage"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	object, err := root.Object(r.Jobs[0].ARK)
	if err != nil {
		t.Fatal(err)
	}
	if len(object.Versions()) != 1 {
		t.Errorf("got %v", object.Versions())
	}
	for _, id := range []job.ID{b.ID, r.Jobs[0].Job, r.Jobs[1].Job} {
		w.verify(id)
	}
	if err := w.Sweep(t.Context()); err != nil { // the one of the start may not be over
		t.Error(err)
	}
	w.valid()
	if w.hasWork(b.ID, r.Jobs[0].Job) {
		t.Error("the work of the completed job is still there")
	}
	w.stop()
	return r
}
