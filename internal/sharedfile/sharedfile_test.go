package sharedfile

import (
	"os"
	"path/filepath"
	"testing"
)

// TestEditAfterCrash: an edit removes what an edit left that was killed.
func TestEditAfterCrash(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, Unfinished("tokens"))
	if err := os.WriteFile(left, []byte("half a line"), 0o600); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "tokens")
	err := Edit(name, func([]byte) error { return nil }, func(text []byte) ([]byte, error) {
		return AppendLine(text, "a line"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := Read(name); err != nil || string(text) != "a line\n" {
		t.Errorf("the file has %q, %v", text, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("the directory has %v, %v", files, err)
	}
}
