package location

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var someday = time.Date(2026, 5, 4, 12, 0, 0, 123, time.FixedZone("", 7200))

func TestReadAndWrite(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
	if _, err := Read(filepath.Join(dir, "nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: got %v", err)
	}
	first, second := New("one", someday), New("two", someday)
	if first.Location == second.Location || len(first.Location) != 26 {
		t.Errorf("got %q and %q", first.Location, second.Location)
	}
	part := filepath.Join(dir, Name+".one.part")
	if err := os.WriteFile(part, []byte("{"), 0o600); err != nil { // what a crash left
		t.Fatal(err)
	}
	if err := Create(dir, first); err != nil {
		t.Fatal(err)
	}
	if err := Create(dir, second); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second owner: got %v", err)
	}
	if got, err := Read(dir); err != nil || !cmp.Equal(got, first) {
		t.Errorf("got %+v, %v", got, err)
	}
	second.Before = []Previous{{Installation: "one", Until: second.Since, By: "op", Note: "moved"}}
	if err := Replace(dir, second); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(dir); err != nil || !cmp.Equal(got, second) {
		t.Errorf("got %+v, %v", got, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// Of many that create an identity at once, one does, and the file is that one's.
func TestCreateAtOnce(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	var made atomic.Pointer[Identity]
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		all.Go(func() {
			id := New(name, someday)
			switch err := Create(dir, id); {
			case err == nil && !made.CompareAndSwap(nil, &id):
				t.Error("two created it")
			case err != nil && !errors.Is(err, fs.ErrExist):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got, err := Read(dir); err != nil || made.Load() == nil || !cmp.Equal(got, *made.Load()) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestDamaged(t *testing.T) {
	for _, text := range []string{"", "{", "[]", "{}", `{"location":"a"}`, `{"installation":"a"}`,
		`{"location":1,"installation":"a"}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, Name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); !errors.Is(err, ErrDamaged) {
			t.Errorf("%q: got %v", text, err)
		}
	}
	dir := t.TempDir()
	if err := os.Symlink("/dev/zero", filepath.Join(dir, Name)); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); !errors.Is(err, ErrDamaged) {
		t.Errorf("a link: got %v", err)
	}
}
