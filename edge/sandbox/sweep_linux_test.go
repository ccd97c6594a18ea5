package sandbox

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestTempsAreSwept: what a process that was killed left is removed at the next start, and nothing that is in use.
func TestTempsAreSwept(t *testing.T) {
	in := t.TempDir()
	made := func(name string) string {
		dir := filepath.Join(in, name)
		if err := os.MkdirAll(filepath.Join(dir, "below"), 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	left, used, foreign := made(tempPrefix+"left"), made(tempPrefix+"used"), made("else")
	if err := os.Symlink(foreign, filepath.Join(in, tempPrefix+"link")); err != nil {
		t.Fatal(err)
	}
	lock, err := lockDir(used)
	if err != nil {
		t.Fatal(err)
	}
	sweepTemps(in, time.Now()) // all of them are new: one of them may be about to be locked
	if _, err := os.Stat(left); err != nil {
		t.Error("a new one was removed")
	}
	sweepTemps(in, time.Now().Add(time.Hour))
	for dir, stays := range map[string]bool{left: false, used: true, foreign: true} {
		if _, err := os.Stat(filepath.Join(dir, "below")); (err == nil) != stays {
			t.Errorf("%s stays: %v", filepath.Base(dir), err == nil)
		}
	}
	if err := lock.Close(); err != nil { // as the kernel does when its process ends
		t.Fatal(err)
	}
	sweepTemps(in, time.Now().Add(time.Hour))
	if _, err := os.Stat(used); err == nil {
		t.Error("it is unused, and was not removed")
	}
}
