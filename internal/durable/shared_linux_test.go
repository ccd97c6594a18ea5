//go:build linux && (amd64 || arm64)

package durable

import (
	"syscall"
	"testing"
)

// TestRelease: before Linux 5.8, a sync of a file system reports no errors.
func TestRelease(t *testing.T) {
	for release, want := range map[string]bool{
		"5.8.0": true, "5.10.0-28-amd64\n": true, "6.1.0": true, "6.18.44-fc": true, "10.0": true,
		"5.7.19": false, "4.19.0-26-amd64": false, "3.10.0": false, "": false, "next": false, "5": false, "5.x": false,
	} {
		if got := atLeast58(release); got != want {
			t.Errorf("%q: got %t", release, got)
		}
	}
}

func TestDirtyBytes(t *testing.T) {
	const text = "MemTotal:  8000 kB\nDirty:    300 kB\nWriteback:  20 kB\nWritebackTmp: 7 kB\n"
	if n, known := dirtyBytes([]byte(text)); n != 320<<10 || !known {
		t.Errorf("got %d, %t", n, known)
	}
	for _, text := range []string{"", "Dirty: 300 kB\n", "Dirty: many kB\nWriteback: 0 kB\n"} {
		if _, known := dirtyBytes([]byte(text)); known {
			t.Errorf("%q is known", text)
		}
	}
}

// TestSystemOf: a file system that is not known to sync everything, or that has failed, is not synced as a whole.
func TestSystemOf(t *testing.T) {
	proc := rootOf(t, "/proc")
	if s := systemOf(proc); s != nil {
		t.Error("proc is synced as a whole")
	}
	root := rootOf(t, t.TempDir())
	var kind syscall.Statfs_t
	if err := syscall.Statfs(root.Name(), &kind); err != nil {
		t.Fatal(err)
	}
	if !wholes[kind.Type] || !reportsErrors() {
		t.Skipf("file system %x of the tests is not one that is synced as a whole", kind.Type)
	}
	s := openSystem(root)
	if s == nil {
		t.Fatal("the file system cannot be synced as a whole")
	}
	if err := s.sync(); err != nil {
		t.Error(err)
	}
}
