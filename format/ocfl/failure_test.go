package ocfl

import (
	"errors"
	"testing"
)

// TestFailureLeavesNothing fails each operation once while the process lives on: the call returns an error or has
// done its work, and cleans up behind itself.
func TestFailureLeavesNothing(t *testing.T) {
	for _, s := range scenarios {
		_, w := crash(t, s, 0, crashBefore, powerStays, nil)
		for stop := 1; stop <= len(w.ops); stop++ {
			r, _ := crash(t, s, 0x7fffffff, crashBefore, powerStays,
				func(r *Root, w *crashOps) { r.ops = &flaky{crashOps: w, at: stop} })
			if err := settle(t, r, s, crashKey.Stage); err != nil {
				t.Errorf("%s, failure at %q: %v", s.name, w.ops[stop-1], err)
			}
		}
	}
}

// flaky is crashOps in which one operation fails and the later ones succeed.
type flaky struct {
	*crashOps
	at, n int
}

var errDisk = errors.New("no space left on device")

func (f *flaky) hit() bool { f.n++; return f.n == f.at }

func (f *flaky) Mkdir(name string) error {
	if f.hit() {
		return errDisk
	}
	return f.crashOps.Mkdir(name)
}

func (f *flaky) Create(name string) (syncFile, error) {
	if f.hit() {
		return nil, errDisk
	}
	file, err := f.crashOps.Create(name)
	return &flakyFile{f, file}, err
}

func (f *flaky) Rename(from, to string) error {
	if f.hit() {
		return errDisk
	}
	return f.crashOps.Rename(from, to)
}

func (f *flaky) SyncDir(name string) error {
	if f.hit() {
		return errDisk
	}
	return f.crashOps.SyncDir(name)
}

func (f *flaky) Within(string) (fileOps, error) { return f, nil }

func (f *flaky) Set() syncSet { return f.setOn(f) }

type flakyFile struct {
	f *flaky
	syncFile
}

func (f *flakyFile) Write(p []byte) (int, error) {
	if f.f.hit() {
		return 0, errDisk
	}
	return f.syncFile.Write(p)
}

func (f *flakyFile) Sync() error {
	if f.f.hit() {
		return errDisk
	}
	return f.syncFile.Sync()
}
