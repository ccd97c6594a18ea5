package ingest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/fsck"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/internal/headfile"
	"github.com/stagepost/stagepost/store/mem"
)

// copyFile copies the file alone, as a backup does that ignores the write-ahead log.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// An inventory that lacks what the records name is refused at the start, also without the file beside it.
func TestStartWithoutTheInventory(t *testing.T) {
	store, o := mem.New(), options(t, t.TempDir())
	o.Records, o.Installation = store, "one"
	w := startOn(t, store, o)
	path := filepath.Join(o.Dir, fsck.InventoryName)
	copied := filepath.Join(t.TempDir(), "without-log.db")
	w.one(Submission{Filename: "a.txt"}, "alpha")
	copyFile(t, path, copied) // while the server runs: most of it is in the log
	w.one(Submission{Filename: "b.txt"}, "beta")
	w.stop()
	whole := filepath.Join(t.TempDir(), "whole.db")
	copyFile(t, path, whole)
	head := headfile.Path(path)
	for what, c := range map[string]struct {
		change func()
		want   error
	}{
		"missing":                   {func() { _ = os.Remove(path) }, headfile.ErrMissing},
		"missing, without its file": {func() { _ = os.Remove(path); _ = os.Remove(head) }, headfile.ErrOlder},
		"copied without its log":    {func() { copyFile(t, copied, path); _ = os.Remove(head) }, headfile.ErrOlder},
		"older":                     {func() { copyFile(t, copied, path) }, headfile.ErrOlder},
		"of another installation":   {func() { o.Installation = "two" }, headfile.ErrForeign},
		"control: as it was":        {func() {}, nil},
		"control: nothing but file": {func() { _ = os.Remove(head) }, nil},
	} {
		copyFile(t, whole, path)
		_ = os.Remove(head)
		if err := headfile.Write(path, "one", 4); err != nil {
			t.Fatal(err)
		}
		o.Installation = "one"
		c.change()
		a, err := New(o)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", what, err, c.want)
		}
		switch {
		case err == nil:
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		case !strings.Contains(err.Error(), "stagepost ingest inventory rebuild --data"):
			t.Errorf("%s: no remedy in %v", what, err)
		}
	}
}

// What the application makes in its data directory is for this user only, as the store is.
func TestMode(t *testing.T) {
	w := start(t)
	w.one(Submission{Filename: "a.txt"}, "alpha")
	for _, name := range []string{"storage", fsck.InventoryName, "inventory.head", workdir.WorkName, workdir.TrashName,
		workdir.MailName, "storage/stagepost-location.json"} {
		info, err := os.Stat(filepath.Join(w.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got&0o077 != 0 {
			t.Errorf("%s has %o", name, got)
		}
	}
}
