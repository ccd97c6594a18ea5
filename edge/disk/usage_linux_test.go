package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUsage(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "big")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(outside, make([]byte, 4<<20), 0o600))
	must(os.WriteFile(dir+"/a", make([]byte, 64<<10), 0o600))
	sparse, err := os.Create(dir + "/sparse")
	must(err)
	must(sparse.Truncate(1 << 40))
	must(sparse.Close())
	must(os.Symlink(outside, dir+"/link"))
	must(os.Symlink(filepath.Dir(outside), dir+"/dirlink"))
	must(os.Symlink(".", dir+"/loop"))
	must(os.Mkdir(dir+"/closed", 0o700))
	must(os.WriteFile(dir+"/closed/b", make([]byte, 64<<10), 0o600))
	must(os.Chmod(dir+"/closed", 0))
	got, err := Usage(t.Context(), dir, 0)
	if err != nil || got < 128<<10 || got > 160<<10 {
		t.Errorf("got %d, %v, want some 128 KiB", got, err)
	}
	if got, err := Usage(t.Context(), dir, 1000); err != nil || got <= 1000 || got > 128<<10 {
		t.Errorf("got %d, %v, want a walk that stopped", got, err)
	}
}

func TestUsageCountsEmptyFiles(t *testing.T) {
	dir := t.TempDir()
	for i := range 300 {
		if err := os.WriteFile(filepath.Join(dir, strings.Repeat("x", i%200+1)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := Usage(t.Context(), dir, 0); err != nil || got != 200*EntryBytes {
		t.Errorf("got %d, %v, want %d", got, err, 200*EntryBytes)
	}
}

func TestUsageTooDeep(t *testing.T) {
	for depth, want := range map[int]error{MaxDepth: nil, MaxDepth + 1: ErrTooDeep} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", depth)), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := Usage(t.Context(), dir, 0); !errors.Is(err, want) {
			t.Errorf("%d: got %v, want %v", depth, err, want)
		}
	}
}
