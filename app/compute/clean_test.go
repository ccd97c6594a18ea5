package compute_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// here reports whether the files of a job lie on the disk.
func (w *harness) here(id job.ID) bool {
	w.t.Helper()
	_, err := os.Stat(filepath.Join(w.dir, "compute", filepath.FromSlash(compute.DirOf(id))))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
	return err == nil
}

// TestClean: an owner's files go before their time, the space is free at once, who reads them reads on, and the history
// reports. Another job's files stay.
func TestClean(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := quick(t)
		o.UserBytes = 3000
		w := newHarness(t, o, one(newFake()))
		big := map[string]string{compute.Script: hello, "data": strings.Repeat("x", 1500)}
		order := compute.Order{Owner: "ada", Service: "example"}
		first, err := w.order(order, big)
		if err != nil {
			t.Fatal(err)
		}
		kept := w.upload("bob", hello)
		j := w.until(first.ID, compute.Completed)
		w.until(kept.ID, compute.Completed)
		if _, err := w.order(order, big); job.KindOf(err) != job.Refused {
			t.Fatalf("there is no space for two: %v", err)
		}
		f, r, err := w.app.Results(&j)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		begun := make([]byte, 10)
		if _, err := io.ReadFull(f, begun); err != nil {
			t.Fatal(err)
		}
		request := compute.Request{By: lifecycle.Owner, Actor: "ada", Note: "I have them"}
		got, err := w.app.Clean(t.Context(), j.ID, request)
		if err != nil || got.State != compute.Cleaned {
			t.Fatalf("%s, %v", got.State, err)
		}
		if n := w.app.Usage("ada"); n != 0 {
			t.Errorf("ada has %d bytes after all her files went", n)
		}
		if _, err := w.order(order, big); err != nil {
			t.Errorf("the space is not free: %v", err)
		}
		eventually(t, "the files are gone", func() bool { return !w.here(j.ID) })
		if rest, err := io.ReadAll(f); err != nil || int64(len(begun)+len(rest)) != r.Bytes {
			t.Errorf("a download was cut: %d of %d bytes, %v", len(begun)+len(rest), r.Bytes, err)
		}
		history, err := w.store.History(t.Context(), j.ID, 0, 0)
		if last := history[len(history)-1]; err != nil || last.By != lifecycle.Timer || last.Actor != "ada" ||
			!strings.Contains(last.Note, "ada (owner) requested it early: I have them") {
			t.Errorf("the history ends with %+v, %v", last, err)
		}
		again, err := w.app.Clean(t.Context(), j.ID, request)
		if err != nil || again.Version != got.Version {
			t.Errorf("a second time: %+v, %v", again, err)
		}
		if _, _, err := w.app.Results(&got); job.KindOf(err) != job.Gone ||
			!strings.Contains(err.Error(), got.Entered.UTC().Format(time.RFC3339)) {
			t.Errorf("who asks for results reads %v", err)
		}
		if !w.here(kept.ID) || w.until(kept.ID, compute.Completed).Ended != true {
			t.Error("the files of another job went, too")
		}
	})
}

// TestCleanRefused: what has not ended keeps its files, and the refusal reports what to do; what is no compute job is
// unknown.
func TestCleanRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake()
		f.auto = false
		w := newHarness(t, quick(t), one(notifier{f}))
		j := w.until(w.upload("ada", hello).ID, compute.Running)
		request := compute.Request{By: lifecycle.Owner, Actor: "ada"}
		if _, err := w.app.Clean(t.Context(), j.ID, request); job.KindOf(err) != job.Refused ||
			!strings.Contains(err.Error(), "cannot clean while Running: it has not ended; cancel it first") {
			t.Errorf("one that runs: %v", err)
		}
		if _, err := w.app.Clean(t.Context(), "cmp_nowhere", request); job.KindOf(err) != job.NotFound {
			t.Errorf("no such job: %v", err)
		}
		synctest.Wait()
		if now := w.until(j.ID, compute.Running, compute.Cleaned); now.State != compute.Running || !w.here(j.ID) {
			t.Errorf("the refusal changed it: it is %s", now.State)
		}
		f.finish(j.ID, nil)
		done := w.until(j.ID, compute.Completed)
		request.Version = done.Version - 1
		if _, err := w.app.Clean(t.Context(), j.ID, request); job.KindOf(err) != job.Conflict || !w.here(j.ID) {
			t.Errorf("who saw an older record: %v", err)
		}
		request.Version = done.Version
		if _, err := w.app.Clean(t.Context(), j.ID, request); err != nil { // the control
			t.Error(err)
		}
	})
}

// TestCleanSurvives: the record states first that the files are gone; a server that ends before they are removes them
// in its next life.
func TestCleanSurvives(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store, o := mem.New(), quick(t)
		deaf := func(options *engine.Options) { delete(options.Deliver, "compute-clean") }
		w := newHarnessOn(t, store, o, one(newFake()), deaf)
		j := w.until(w.upload("ada", hello).ID, compute.Completed)
		if _, err := w.app.Clean(t.Context(), j.ID, compute.Request{By: lifecycle.Operator, Actor: "op"}); err != nil {
			t.Fatal(err)
		}
		w.stop()
		if !w.here(j.ID) {
			t.Fatal("the files went without the message")
		}
		next := newHarnessOn(t, store, o, nil)
		eventually(t, "the files are gone", func() bool { return !next.here(j.ID) })
	})
}

// TestFullSaysWhat: an owner without space reads how large the upload is, and what can be done about it.
func TestFullSaysWhat(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := quick(t)
		o.UserBytes = 1000
		w := newHarness(t, o, nil)
		sized := func(n int) error {
			_, err := w.order(compute.Order{Owner: "ada", Service: "example"}, map[string]string{compute.Script: hello,
				"data": strings.Repeat("x", n-len(hello))})
			return err
		}
		says := func(what string, err error, words ...string) {
			t.Helper()
			if job.KindOf(err) != job.Refused {
				t.Fatalf("%s: %v", what, err)
			}
			for _, word := range words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%s: %q is not in %v", what, word, err)
				}
			}
		}
		err := sized(2000)
		says("larger than all of it", err, "this upload has 2000 bytes alone", "may have 1000", "make it smaller",
			"compute.user.bytes")
		if strings.Contains(err.Error(), "clean") {
			t.Errorf("it advises what does not help: %v", err)
		}
		if err := sized(400); err != nil {
			t.Fatal(err)
		}
		says("larger than the rest", sized(700), "ada has 400 bytes", "may have 1000",
			"this upload brings 700 bytes more", "stagepost compute clean ID")
		u := begin(t, w.app)
		defer u.Discard()
		u.For("ada")
		if err := u.File("a", strings.NewReader(strings.Repeat("x", 100))); err != nil {
			t.Fatal(err)
		}
		says("while it comes", u.File("b", strings.NewReader(strings.Repeat("x", 600))), "ada has 400 bytes",
			"brings at least 700 bytes more")
	})
}

// unheard is a store whose news of cleaned jobs do not come.
type unheard struct{ job.Store }

func (s unheard) Watch(ctx context.Context, tell func([]job.Hint)) {
	s.Store.Watch(ctx, func(hints []job.Hint) {
		if !slices.ContainsFunc(hints, func(h job.Hint) bool {
			return h.State == compute.Cleaned || h.Record != nil && h.Record.State == compute.Cleaned
		}) {
			tell(hints)
		}
	})
}

// TestCleanFreesAtOnce: an owner who has cleaned a job has its space, even before the store's news of that come.
func TestCleanFreesAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := quick(t)
		o.UserBytes = 1 << 20
		w := newHarnessOn(t, unheard{mem.New()}, o, one(newFake()))
		j := w.until(w.upload("ada", hello).ID, compute.Completed)
		if w.app.Usage("ada") == 0 {
			t.Fatal("its files do not count")
		}
		if _, err := w.app.Clean(t.Context(), j.ID, compute.Request{By: lifecycle.Owner, Actor: "ada"}); err != nil {
			t.Fatal(err)
		}
		if n := w.app.Usage("ada"); n != 0 {
			t.Errorf("ada has %d bytes yet", n)
		}
	})
}

// TestKeepUnlimited: files that are kept indefinitely have no moment at which they are removed. Control: by default it
// is after 48 h.
func TestKeepUnlimited(t *testing.T) {
	ended := time.Unix(1_000_000, 0)
	for keep, want := range map[time.Duration]time.Duration{0: 48 * time.Hour, time.Hour: time.Hour, -1: 0} {
		o := quick(t)
		o.Keep = keep
		app, err := compute.New(o)
		if err != nil {
			t.Fatal(err)
		}
		if got := app.Works()[0].Keep; got != want {
			t.Errorf("%s: the engine keeps it for %s, want %s", keep, got, want)
		}
		if got := app.Expires(ended); want == 0 && !got.IsZero() || want > 0 && !got.Equal(ended.Add(want)) {
			t.Errorf("%s: it expires at %s", keep, got)
		}
		if err := app.Close(); err != nil {
			t.Error(err)
		}
	}
}
