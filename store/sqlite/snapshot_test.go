package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/job"
)

// While the store is frozen nothing is committed; a snapshot that was taken then has what was there and nothing of
// what came later, and its copy is whole in one file.
func TestSnapshot(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	s := openStore(t, dir, Options{})
	create(t, s, "tst_1", "tst_2")
	want := contentsOf(t, s)
	var p *Snapshot
	later := make(chan struct{})
	err := s.Freeze(t.Context(), func() (err error) {
		go func() {
			defer close(later)
			create(t, s, "tst_3")
		}()
		for s.Waiting() == 0 { // until it waits for us
			runtime.Gosched()
		}
		p, err = Pin(filepath.Join(dir, database))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	<-later
	for i := range 40 {
		create(t, s, fmt.Sprint("tst_later", i))
	}
	if err := p.CopyTo(t.Context(), filepath.Join(other, database)); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(other); err != nil || len(entries) != 1 {
		t.Errorf("beside the copy: %v %v", entries, err)
	}
	copied := openStore(t, other, Options{})
	if diff := cmp.Diff(want, contentsOf(t, copied)); diff != "" {
		t.Errorf("the copy (-frozen +copied):\n%s", diff)
	}
	clean(t, copied)
	if _, err := s.Get(t.Context(), "tst_3"); err != nil {
		t.Errorf("control: the store went on: %v", err)
	}
}

// A copy that cannot be made leaves no file.
func TestSnapshotFails(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	closeStore(t, openStore(t, dir, Options{}))
	p, err := Pin(filepath.Join(dir, database))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	wantKind(t, "an ended context", p.CopyTo(ended, filepath.Join(other, "a.db")), job.Unavailable)
	if entries, err := os.ReadDir(other); err != nil || len(entries) > 0 {
		t.Errorf("left: %v %v", entries, err)
	}
	write := filepath.Join(other, "there.db")
	if err := os.WriteFile(write, []byte("something"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "onto a file", p.CopyTo(t.Context(), write), job.Unavailable)
	if text, err := os.ReadFile(write); err != nil || string(text) != "something" {
		t.Errorf("the file: %q %v", text, err)
	}
	_, err = Pin(filepath.Join(other, "none.db"))
	wantKind(t, "no file", err, job.Unavailable)
}
