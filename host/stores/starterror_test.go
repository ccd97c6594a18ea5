package stores

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestStartError: on a full disk, and in a directory that the user cannot write, the error names the directory and the
// next step. Other errors stay as they are.
func TestStartError(t *testing.T) {
	dir := t.TempDir()
	inside, outside := filepath.Join(dir, "stagepost.db"), filepath.Join(t.TempDir(), "services.yaml")
	for name, x := range map[string]struct {
		err  error
		want string
	}{
		"full": {&fs.PathError{Op: "write", Path: inside, Err: syscall.ENOSPC},
			"storage full: " + dir + " has "},
		"not writable": {&fs.PathError{Op: "open", Path: inside, Err: syscall.EACCES},
			inside + ": permission denied (--data DIR names a directory that this user can write)"},
	} {
		if err := StartError(dir, x.err); !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %s", name, err, x.want)
		}
	}
	other := &fs.PathError{Op: "open", Path: outside, Err: syscall.EACCES}
	if err := StartError(dir, other); !errors.Is(err, other) || strings.Contains(err.Error(), "--data") {
		t.Errorf("a file elsewhere: %v", err)
	}
}
