package ingest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/internal/dirlock"
	"github.com/stagepost/stagepost/job"
)

func TestStoragePlaceThatFails(t *testing.T) {
	p := testProfile()
	p.Storage = []string{"storage", "second"}
	w := start(t, p)
	second := filepath.Join(w.dir, "second")
	if err := os.WriteFile(second, []byte("no directory"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := w.ingest(Submission{Filename: "f.txt"}, "text")
	j := r.Jobs[0]
	if j.Cause != CauseStorage || j.FailedIn != record.Storing || !strings.Contains(j.Message, "second") {
		t.Fatalf("got %s", r.Text())
	}
	if objects, _, _, err := w.inventory.Counts(t.Context()); err != nil || objects > 0 {
		t.Errorf("the inventory has %d objects, %v", objects, err)
	}
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	if err := w.do(j.Job, record.Retry); err != nil {
		t.Fatal(err)
	}
	if got := w.end(j.Job); got.State != record.Completed {
		t.Fatalf("got %s: %s", got.State, got.Message)
	}
	o := w.object(w.reported(r.Batch).Jobs[0].ARK)
	for _, place := range o.Versions[0].Places {
		if place.Name != "v1" {
			t.Errorf("got %+v", place)
		}
	}
	w.valid("storage", "second")
}

// TestLockOfAJobThatEnded takes over the lock of an object whose writer ended without giving it back, as after stop.
func TestLockOfAJobThatEnded(t *testing.T) {
	w := start(t)
	first := w.one(Submission{LocalIDs: []string{"l1"}}, "a")
	for _, holder := range []string{string(first.Job), "ing_that_never_was"} {
		if _, err := w.inventory.Take(t.Context(), inventory.Taker{Job: holder, Epoch: 1},
			inventory.Want{Kind: inventory.ObjectLock, Name: first.ARK}); err != nil {
			t.Fatal(err)
		}
		if j := w.one(Submission{LocalIDs: []string{"l1"}}, "b"); j.ARK != first.ARK {
			t.Errorf("got %+v", j)
		}
	}
}

func TestWorkDirectoryBelongsToOneAttempt(t *testing.T) {
	w := start(t)
	a, err := w.tree.Open("bat_1", "ing_1", 5)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.tree.Open("bat_1", "ing_1", 6); !errors.Is(err, dirlock.Err) {
		t.Errorf("two attempts at once: got %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := w.tree.Open("bat_1", "ing_1", 6)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.tree.Open("bat_1", "ing_1", 5); job.KindOf(err) != job.Stale {
		t.Errorf("an attempt that slept: got %v", err)
	}
	c, err := w.tree.Open("bat_1", "ing_1", 6)
	if err != nil {
		t.Fatalf("control: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestSweepRemovesOrphans(t *testing.T) {
	w := start(t)
	kept := w.end(w.submit(Submission{}, "text").ID)
	for _, name := range []string{"bat_old", "bat_new"} {
		if err := os.MkdirAll(filepath.Join(w.dir, workdir.WorkName, name, "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-2 * youngest)
	if err := os.Chtimes(filepath.Join(w.dir, workdir.WorkName, "bat_old"), long, long); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(w.dir, workdir.TrashName, "ing_x", "producer"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := w.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(w.workDirs(), " "), string(kept.ID)+" bat_new"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	w.valid()
}
