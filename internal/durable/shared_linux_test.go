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

// TestJournal: only an ext4 file system that names the thread of its journal is synced by one call. In a container the
// kernel may hide the thread (0), or the file.
func TestJournal(t *testing.T) {
	for text, want := range map[string]bool{"171\n": true, "1": true, "<none>\n": false, "0\n": false, "-1": false,
		"": false} {
		if got := namesThread(text); got != want {
			t.Errorf("%q: got %t", text, got)
		}
	}
	for device, want := range map[uint64]string{
		0xfd00: "253:0", 0x803: "8:3", 0x10_0802: "8:258", 0x1000_0000_0801: "4104:1",
	} {
		if got := deviceNumber(device); got != want {
			t.Errorf("%x: got %s, want %s", device, got, want)
		}
	}
	if journaled(0) {
		t.Error("a device that does not exist has a journal")
	}
}

// TestSystemOf: a file system that is not known to sync everything, or that has failed, is not synced as a whole.
func TestSystemOf(t *testing.T) {
	proc := rootOf(t, "/proc")
	if s := systemOf(proc); s != nil {
		t.Error("proc is synced as a whole")
	}
	root := rootOf(t, ".") // temporary files may be in memory
	var kind syscall.Statfs_t
	if err := syscall.Statfs(root.Name(), &kind); err != nil {
		t.Fatal(err)
	}
	if !wholes[kind.Type] || !reportsErrors() {
		t.Skipf("file system %x of the tests is not one that is synced as a whole", kind.Type)
	}
	info, err := root.Stat(".")
	if err != nil {
		t.Fatal(err)
	}
	s := openSystem(root, info.Sys().(*syscall.Stat_t).Dev)
	if s == nil {
		t.Fatal("the file system cannot be synced as a whole")
	}
	if err := s.sync(); err != nil {
		t.Error(err)
	}
}

// TestMuchToWrite: where much waits to be written, no set waits for a sync of the whole file system. One is done for
// the sets after it. The controls are little, which sets wait for, and very much, for which no sync is done.
func TestMuchToWrite(t *testing.T) {
	disk, s := newSlowDisk()
	if s.unless(mostDirty) != s {
		t.Error("a set does not wait for little")
	}
	if s.unless(mostClean+1) != nil || s.cleaning.Load() {
		t.Error("a set, or a sync without one, waits for very much")
	}
	for range 3 { // one sync at a time
		if s.unless(mostDirty+1) != nil {
			t.Error("a set waits for much")
		}
	}
	<-disk.began
	if n := s.begun.Load(); n != 1 {
		t.Errorf("%d syncs have begun", n)
	}
	behind := newSet(rootOf(t, t.TempDir()), s)
	behind.changed(nil)
	synced := make(chan error)
	go func() { synced <- behind.Sync() }()
	disk.end <- struct{}{}
	<-disk.began // that of the set, after the first one
	disk.end <- struct{}{}
	if err := <-synced; err != nil {
		t.Error(err)
	}
}
