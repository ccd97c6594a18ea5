package stagepost_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTemporaryFilesInMemory: the temporary directories of tests that scripts/test runs are in the file system that it
// mounts, whose name begins so.
func TestTemporaryFilesInMemory(t *testing.T) {
	memory := os.TempDir()
	if !strings.HasPrefix(filepath.Base(memory), "stagepost.") {
		t.Skip("scripts/test does not run it, or cannot mount a file system")
	}
	if dir := t.TempDir(); !strings.HasPrefix(dir, memory+"/") {
		t.Errorf("%s is not in %s: syncs there take time", dir, memory)
	}
}
