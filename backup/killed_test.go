package backup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// countdown is a context that ends after so many questions.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// A restore that ends anywhere leaves nothing, or a directory that is marked as incomplete.
func TestKilledRestore(t *testing.T) {
	s, dir := newFixture(t), t.TempDir()
	s.write(dir, "set")
	set := filepath.Join(dir, "set")
	m, err := ReadManifest(set)
	if err != nil {
		t.Fatal(err)
	}
	whole, marked := false, 0
	for left := 0; !whole; left++ {
		if left > 1000 {
			t.Fatal("it never ends")
		}
		target := filepath.Join(t.TempDir(), "new")
		err := restore(&countdown{t.Context(), left}, set, target, m)
		_, none := os.Stat(filepath.Join(target, RestoringName))
		switch {
		case err == nil:
			whole = true
			if none == nil {
				t.Error("a whole directory is marked as incomplete")
			}
		case none != nil:
			t.Errorf("after %d reads: no sign that it is not whole: %v", left, none)
		default:
			marked++
			if _, err := Restore(t.Context(), set, target, reader); err == nil {
				t.Error("a second restore into it was not refused")
			}
		}
	}
	if marked < 5 {
		t.Errorf("only %d interruptions", marked)
	}
}

// What a killed backup left is removed by the next one, and is no backup meanwhile.
func TestKilledBackup(t *testing.T) {
	s, dir := newFixture(t), t.TempDir()
	half := filepath.Join(dir, partial+"inst1-abc")
	put1(t, filepath.Join(half, "data", "a.db"), "half", false)
	put1(t, filepath.Join(dir, partial+"inst2-abc", "data", "a.db"), "another installation's", false)
	s.put(SnapshotName+"/work/old", "left")
	if all, err := List(dir, "inst1"); err != nil || len(all) > 0 {
		t.Errorf("backups %v, %v", all, err)
	}
	if _, err := ReadManifest(half); err == nil {
		t.Error("half a backup was taken for one")
	}
	s.write(dir, "set")
	for name, want := range map[string]bool{half: false, filepath.Join(dir, partial+"inst2-abc"): true,
		filepath.Join(s.Data, SnapshotName): false} {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := restored(t, filepath.Join(dir, "set")); got["work/old"] != "" {
		t.Error("what a killed backup linked is in the next one")
	}
}

// A file that cannot be linked is copied; if it is removed before that, the moment is taken anew.
func TestMovedFile(t *testing.T) {
	s, dir := newFixture(t), t.TempDir()
	elsewhere := t.TempDir()
	text := string(make([]byte, 2*smallFile))
	put1(t, filepath.Join(elsewhere, "large"), text, false)
	if err := errors.Join(os.RemoveAll(filepath.Join(s.Data, "results")),
		os.Symlink(elsewhere, filepath.Join(s.Data, "results"))); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(t.Context(), &s.Source, Options{Dir: dir, Name: "linked", Now: time.Now}); err != nil {
		t.Fatal(err)
	}
	got := restored(t, filepath.Join(dir, "linked"))
	if diff := cmp.Diff("-rw-r----- "+text, got["results/large"]); diff != "" {
		t.Errorf("behind a symbolic link (-was +is):\n%s", diff)
	}
	f := &farm{source: &s.Source, sizes: map[string]int64{}, direct: []string{"results/gone"}}
	w := &writer{Source: &s.Source, ctx: t.Context(), dir: t.TempDir(), farm: f}
	if err := w.copyDirect("results/gone"); !errors.Is(err, errMoved) {
		t.Errorf("a file that was removed: %v", err)
	}
}

// A set is moved as it is, and replaces nothing.
func TestMove(t *testing.T) {
	s, dir, other := newFixture(t), t.TempDir(), t.TempDir()
	s.write(dir, "set")
	to := filepath.Join(other, "moved")
	if err := Move(t.Context(), filepath.Join(dir, "set"), to); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(t.Context(), to, reader); err != nil {
		t.Error(err)
	}
	s.write(dir, "set")
	if err := Move(t.Context(), filepath.Join(dir, "set"), to); err == nil {
		t.Error("a set was replaced")
	}
}
