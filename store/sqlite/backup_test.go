package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stagepost/stagepost/job"
)

// A backup taken under load is one moment of the store, sound, and is never written over.
func TestBackup(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	create(t, s, "tst_before")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for c := range 4 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				_, _ = s.Create(ctx, made(fmt.Sprintf("tst_%d_%d", c, i)))
			}
		})
	}
	dir := t.TempDir()
	file := filepath.Join(dir, database)
	err := s.Backup(t.Context(), file)
	again := s.Backup(t.Context(), file)
	cancel()
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	wantKind(t, "over an existing file", again, job.Conflict)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the backup: %v %v", entries, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	copied := openStore(t, dir, Options{})
	if _, err := copied.Get(t.Context(), "tst_before"); err != nil {
		t.Error(err)
	}
	clean(t, copied)
}

func TestBackupFails(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	wantKind(t, "into no directory", s.Backup(t.Context(), filepath.Join(t.TempDir(), "no", "file")), job.Unavailable)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	wantKind(t, "with a context that has ended", s.Backup(ctx, filepath.Join(dir, "file")), job.Unavailable)
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("it left %v", entries)
	}
}
