package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

func rootOf(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// TestSet writes files with a set, on the file system of the test and where each file is synced by itself.
func TestSet(t *testing.T) {
	for name, make := range map[string]func(*os.Root) *Set{
		"as found": NewSet, "each": func(root *os.Root) *Set { return newSet(root, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			root := rootOf(t, dir)
			set := make(root)
			t.Logf("shared: %t", set.Shared())
			for range 2 { // the second time they replace those of the first
				for _, name := range []string{"a", "b", "c"} {
					if err := (File{Root: root, Name: name, Set: set}).Write(Text([]byte(name))); err != nil {
						t.Fatal(err)
					}
				}
				if err := set.Sync(); err != nil {
					t.Fatal(err)
				}
			}
			if err := set.Sync(); err != nil {
				t.Errorf("nothing to sync: %v", err)
			}
			got, err := os.ReadFile(filepath.Join(dir, "b"))
			if err != nil || string(got) != "b" || len(names(t, dir)) != 3 {
				t.Errorf("got %q, %q, %v", got, names(t, dir), err)
			}
			if err := set.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSetErrors: what cannot be synced is an error of this Sync and of all later ones, in either way.
func TestSetErrors(t *testing.T) {
	root := rootOf(t, t.TempDir())
	for name, set := range map[string]*Set{
		"each": newSet(root, nil), "shared": newSet(root, &system{sync: func() error { return nil }}),
		"unsynced": Unsynced(root),
	} {
		f, err := root.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if err := set.File(f, 1); err != nil && !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
		for range 2 {
			if err := set.Sync(); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
	if err := Unsynced(root).Sync(); err != nil {
		t.Errorf("got %v", err)
	}
	if err := newSet(root, nil).Dir("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// slowDisk is a file system whose syncs wait until the test lets them go on.
type slowDisk struct {
	began, end chan struct{}
	err        error
}

func newSlowDisk() (*slowDisk, *system) {
	d := &slowDisk{began: make(chan struct{}), end: make(chan struct{})}
	return d, &system{sync: func() error {
		d.began <- struct{}{}
		<-d.end
		return d.err
	}}
}

// TestShared: sets that wait at the same time share one sync, which began after their changes. Its control is the set
// that changed something during the first sync: the first does not count for it.
func TestShared(t *testing.T) {
	root := rootOf(t, t.TempDir())
	disk, system := newSlowDisk()
	first, covered := newSet(root, system), newSet(root, system)
	first.changed(nil)
	covered.changed(nil)
	var done sync.WaitGroup
	done.Go(func() {
		if err := first.Sync(); err != nil {
			t.Error(err)
		}
	})
	<-disk.began
	later := make(chan error)
	for range 10 {
		set := newSet(root, system)
		set.changed(nil)
		go func() { later <- set.Sync() }()
	}
	disk.end <- struct{}{}
	done.Wait()
	<-disk.began // for those that came later
	select {
	case err := <-later:
		t.Fatalf("a set is synced by a sync that began before its change: %v", err)
	default:
	}
	disk.end <- struct{}{}
	for range 10 {
		if err := <-later; err != nil {
			t.Error(err)
		}
	}
	if err := covered.Sync(); err != nil || system.begun.Load() != 2 {
		t.Errorf("got %v, %d syncs of 12 sets, want 2", err, system.begun.Load())
	}
}

// TestSharedFailure: a sync that failed may have lost the changes of every set that was not synced before. Each of them
// fails, also one that did not wait, and a repetition does not help. The control is a set that was synced before.
func TestSharedFailure(t *testing.T) {
	root := rootOf(t, t.TempDir())
	disk, system := newSlowDisk()
	disk.err = syscall.EIO
	sync := func(s *Set) error {
		result := make(chan error)
		go func() { result <- s.Sync() }()
		select {
		case err := <-result:
			return err
		case <-disk.began:
			disk.end <- struct{}{}
			return <-result
		}
	}
	waits, writes := newSet(root, system), newSet(root, system)
	waits.changed(nil)
	writes.changed(nil)
	for range 2 {
		if err := sync(waits); !errors.Is(err, ErrShared) || !errors.Is(err, syscall.EIO) {
			t.Errorf("got %v", err)
		}
	}
	disk.err = nil // as the kernel does: it reports an error once
	if err := sync(writes); !errors.Is(err, ErrShared) {
		t.Errorf("the changes of another set may be lost: got %v", err)
	}

	_, sound := newSlowDisk()
	sound.sync = func() error { return nil }
	before := newSet(root, sound)
	before.changed(nil)
	other := newSet(root, sound)
	other.changed(nil)
	if err := other.Sync(); err != nil {
		t.Fatal(err)
	}
	sound.failed.Store(&disk.err)
	if err := before.Sync(); err != nil {
		t.Errorf("control: %v", err)
	}
}
