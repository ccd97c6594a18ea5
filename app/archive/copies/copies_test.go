package copies_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/edge/storage"
)

func TestSave(t *testing.T) {
	f := newFixture(t, "a", "b")
	must(t, f.fill(150))
	r := f.request()
	var mu sync.Mutex
	last := int64(0)
	r.Progress = func(done, total int64) {
		mu.Lock()
		defer mu.Unlock()
		if last = max(last, done); last > total {
			t.Errorf("%d of %d bytes", last, total)
		}
	}
	for range 2 { // the second call finds everything done
		report, err := f.store.Save(t.Context(), r)
		must(t, err)
		if report.Artifacts != 150 || report.Copies != 300 || len(report.Behind) != 0 || report.Bytes != last {
			t.Errorf("got %+v, progress %d", report, last)
		}
	}
	for _, name := range []string{"a", "b"} {
		f.stored(name, 150)
		if n := len(f.at[name].puts); n != 151 {
			t.Errorf("%s has %d files", name, n)
		}
		for key, n := range f.at[name].puts {
			if n != 1 {
				t.Errorf("%s was stored %d times in %s", key, n, name)
			}
		}
	}
	all, err := f.cat.Copies(t.Context(), job, "")
	must(t, err)
	for _, c := range all {
		if !c.Good() || !c.Retain.Equal(start.AddDate(1, 0, 0)) || !c.NextFixity.Equal(start.AddDate(0, 0, 30)) ||
			c.Attempts != 1 {
			t.Errorf("got %+v", c)
		}
	}
}

// TestEveryCrash crashes before and after each operation of a location and each write of the catalog, starts anew and
// saves again: there is one copy of each artifact in each location, and its content is right.
func TestEveryCrash(t *testing.T) {
	count := 0
	for n := 0; ; n++ {
		f := newFixture(t, "a", "b")
		f.crash.n = n
		err := f.fill(2)
		if err == nil {
			_, err = f.store.Save(t.Context(), f.request())
		}
		if !f.crash.fired() {
			must(t, err)
			break
		}
		if err == nil && n < 30 {
			t.Fatalf("crash %d was not noticed", n)
		}
		f.crash.n = -1
		must(t, f.cat.Close())
		f.open("a", "b")
		must(t, f.fill(2))
		report, err := f.store.Save(t.Context(), f.request())
		if must(t, err); report.Copies != 4 {
			t.Errorf("crash %d: %+v", n, report)
		}
		f.stored("a", 2)
		f.stored("b", 2)
		count++
	}
	if count < 30 {
		t.Errorf("only %d crashes", count)
	}
}

// TestQuorum has one location that is down: the others get their copies, and the policy decides about the archive.
func TestQuorum(t *testing.T) {
	final := &storage.Error{Location: "c", Op: "put", Err: fs.ErrPermission}
	for name, c := range map[string]struct {
		policy    copies.Policy
		err       error
		kept      bool
		temporary bool
	}{
		"all":                       {copies.Policy{}, errDown, false, true},
		"all, permanent":            {copies.Policy{}, final, false, false},
		"majority":                  {copies.Policy{Quorum: copies.Majority}, errDown, true, false},
		"majority, permanent":       {copies.Policy{Quorum: copies.Majority}, final, true, false},
		"one":                       {copies.Policy{Quorum: 1}, errDown, true, false},
		"three":                     {copies.Policy{Quorum: 3}, errDown, false, true},
		"required":                  {copies.Policy{Quorum: 1, Required: []string{"c"}}, errDown, false, true},
		"required, permanent":       {copies.Policy{Quorum: 1, Required: []string{"c"}}, final, false, false},
		"not one of the locations":  {copies.Policy{Locations: []string{"a", "b"}}, errDown, true, false},
		"required is one that runs": {copies.Policy{Quorum: 1, Required: []string{"a"}}, errDown, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "a", "b", "c")
			must(t, f.fill(10))
			f.at["c"].set(func(op, key string) error {
				if op == "put" && key != copies.Marker {
					return c.err
				}
				return nil
			})
			r := f.request()
			r.Policy = c.policy
			report, err := f.store.Save(t.Context(), r)
			var e *copies.Error
			switch {
			case c.kept && err != nil:
				t.Errorf("got %v", err)
			case !c.kept && (!errors.As(err, &e) || e.Temporary() != c.temporary || !errors.Is(err, c.err)):
				t.Errorf("got %v", err)
			case report.Copies != 20:
				t.Errorf("got %+v", report)
			}
			f.stored("a", 10)
			f.stored("b", 10)
			f.at["c"].set(nil)
			report, err = f.store.Save(t.Context(), r)
			if must(t, err); len(report.Behind) != 0 {
				t.Errorf("got %+v", report)
			}
			if c.policy.Locations == nil {
				f.stored("c", 10)
			}
		})
	}
	f := newFixture(t, "a", "b")
	for _, p := range []copies.Policy{
		{Quorum: 3}, {Locations: []string{"x"}}, {Required: []string{"x"}}, {Locations: []string{}},
		{Locations: []string{"a", "a"}},
	} {
		if err := f.store.Check(p); err == nil {
			t.Errorf("%+v is accepted", p)
		}
	}
}

// TestUnreachable: a location that is down is not asked for every artifact.
func TestUnreachable(t *testing.T) {
	f := newFixture(t, "a", "b")
	must(t, f.fill(100))
	asked := 0
	f.at["b"].set(func(op, key string) error {
		if op == "put" && strings.Contains(key, "/") { // not the file that names the location
			asked++
			return errDown
		}
		return nil
	})
	if _, err := f.store.Save(t.Context(), f.request()); err == nil || asked < 3 || asked > 5 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	f.stored("a", 100)
}

// TestReadBack: a copy that is damaged while it is stored is never counted, and the next attempt stores it anew.
func TestReadBack(t *testing.T) {
	f := newFixture(t, "a", "b")
	must(t, f.fill(3))
	damaged := false
	f.at["b"].set(func(op, key string) error {
		if op == "open" && strings.HasSuffix(key, "0001.bin") && !damaged {
			damaged = true
			f.flip("b", key)
		}
		return nil
	})
	_, err := f.store.Save(t.Context(), f.request())
	var e *copies.Error
	if !errors.As(err, &e) || !e.Temporary() || !errors.Is(err, storage.ErrDamage) {
		t.Fatalf("got %v", err)
	}
	_, err = f.store.Save(t.Context(), f.request())
	must(t, err)
	f.stored("b", 3)
}

// TestWrongSource: an artifact that changed since its digest was computed is stored nowhere. The error is permanent.
func TestWrongSource(t *testing.T) {
	f := newFixture(t, "a", "b")
	must(t, f.fill(3))
	f.files["pack/file-0001.bin"][7] ^= 1
	_, err := f.store.Save(t.Context(), f.request())
	var e *copies.Error
	if !errors.As(err, &e) || e.Temporary() || !errors.Is(err, storage.ErrSource) {
		t.Errorf("got %v", err)
	}
	f.stored("a", 2)
	f.stored("b", 2)
}

// TestKeyTaken: a file with other content that has the key of a copy is left as it is, and the copy gets another key.
func TestKeyTaken(t *testing.T) {
	f := newFixture(t, "a", "b")
	must(t, f.fill(2))
	taken := filepath.Join(f.dir, "b", job, "pack", "file-0001.bin")
	must(t, os.MkdirAll(filepath.Dir(taken), 0o700))
	must(t, os.WriteFile(taken, []byte("something else"), 0o600))
	for _, gone := range []int{1, 2} { // the second key is taken as well
		_, err := f.store.Save(t.Context(), f.request())
		var e *copies.Error
		if !errors.As(err, &e) || !e.Temporary() || !errors.Is(err, storage.ErrExists) {
			t.Fatalf("got %v", err)
		}
		if gone == 1 {
			second := filepath.Join(f.dir, "b", "replacement-2", job, "pack")
			must(t, os.MkdirAll(second, 0o700))
			must(t, os.WriteFile(filepath.Join(second, "file-0001.bin"), nil, 0o600))
		}
	}
	report, err := f.store.Save(t.Context(), f.request())
	if must(t, err); report.Copies != 4 {
		t.Errorf("got %+v", report)
	}
	if b, err := os.ReadFile(taken); err != nil || string(b) != "something else" {
		t.Errorf("the other file has %q, %v", b, err)
	}
	all, err := f.cat.Copies(t.Context(), job, "pack/file-0001.bin")
	if must(t, err); len(all) != 4 || !all[3].Good() || all[3].Key != "replacement-3/"+job+"/pack/file-0001.bin" {
		t.Errorf("got %+v", all)
	}
}

// flip changes one bit of a stored file.
func (f *fixture) flip(name, key string) {
	f.t.Helper()
	path := filepath.Join(f.dir, name, filepath.FromSlash(key))
	b, err := os.ReadFile(path)
	must(f.t, err)
	must(f.t, os.Chmod(path, 0o600))
	b[len(b)/2] ^= 4
	must(f.t, os.WriteFile(path, b, 0o600))
}

// TestOtherLocation: an empty directory in place of the location is neither filled nor taken for a location that lost
// its copies.
func TestOtherLocation(t *testing.T) {
	f := newFixture(t, "a", "b")
	must(t, f.fill(2))
	_, err := f.store.Save(t.Context(), f.request())
	must(t, err)
	must(t, f.cat.Close())
	must(t, os.Rename(filepath.Join(f.dir, "b"), filepath.Join(f.dir, "away")))
	must(t, os.Mkdir(filepath.Join(f.dir, "b"), 0o700))
	f.open("a", "b")
	if err := f.store.Ready(t.Context(), "b"); !errors.Is(err, copies.ErrForeign) {
		t.Errorf("got %v", err)
	}
	must(t, f.cat.End(t.Context(), job, catalog.Failed, f.now))
	if err := f.store.Discard(t.Context(), job, "it failed"); !errors.Is(err, copies.ErrForeign) {
		t.Errorf("got %v", err)
	}
	f.stored("a", 0)
	if all, err := f.cat.Copies(t.Context(), job, ""); err != nil || !all[1].Deleted.IsZero() {
		t.Errorf("a copy in a location that is not mounted counts as deleted: %+v, %v", all, err)
	}
	must(t, os.RemoveAll(filepath.Join(f.dir, "b")))
	must(t, os.Rename(filepath.Join(f.dir, "away"), filepath.Join(f.dir, "b")))
	must(t, f.cat.Close())
	f.open("a", "b")
	must(t, f.store.Discard(t.Context(), job, "it failed"))
	f.stored("b", 0)
}

// TestSetTargets: a location that is replaced is used at once, one that is dropped is refused, and calls that began
// with it end with it.
func TestSetTargets(t *testing.T) {
	open := func() copies.Target {
		d, err := storage.OpenDir(t.TempDir(), storage.Local)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return copies.Target{Name: "near", At: d}
	}
	c, err := catalog.Open(t.Context(), filepath.Join(t.TempDir(), catalog.Name), catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := copies.New(copies.Options{Catalog: c, Targets: []copies.Target{open()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Ready(t.Context(), "near"); err != nil {
		t.Fatal(err)
	}
	if err := s.SetTargets([]copies.Target{open()}); err != nil {
		t.Fatal(err)
	}
	if err := s.Ready(t.Context(), "near"); !errors.Is(err, copies.ErrForeign) {
		t.Errorf("the new location is not used: %v", err)
	}
	far := open()
	far.Name = "far"
	if err := s.SetTargets([]copies.Target{far}); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(copies.Policy{Locations: []string{"near"}}); err == nil ||
		!slices.Equal(s.Names(), []string{"far"}) {
		t.Errorf("near is still configured: %v", s.Names())
	}
	if err := s.SetTargets([]copies.Target{far, far}); err == nil || !slices.Equal(s.Names(), []string{"far"}) {
		t.Errorf("two locations of one name: got %v", err)
	}
}

// TestProgressWithinCopies: a copy that is being stored counts before it is verified; one that fails does not.
func TestProgressWithinCopies(t *testing.T) {
	f := newFixture(t, "a")
	must(t, f.fill(1))
	r := f.request()
	var mu sync.Mutex
	var seen []int64
	r.Progress = func(done, total int64) {
		mu.Lock()
		defer mu.Unlock()
		if seen = append(seen, done); done > total || done < total && done > total/2 {
			t.Errorf("%d of %d bytes", done, total)
		}
	}
	f.at["a"].set(func(op, _ string) error {
		if op == "open" { // the copy cannot be read back
			return &storage.Error{Location: "a", Op: op, Err: errors.New("the network is down"), Transient: true}
		}
		return nil
	})
	if _, err := f.store.Save(t.Context(), r); err == nil {
		t.Error("a copy that could not be read back counts")
	}
	if len(seen) == 0 || slices.Max(seen) == 0 {
		t.Errorf("the first attempt: got %v", seen)
	}
	f.at["a"].set(nil)
	seen = nil
	report, err := f.store.Save(t.Context(), r)
	if must(t, err); len(seen) == 0 || seen[len(seen)-1] != report.Bytes {
		t.Errorf("got %v of %d", seen, report.Bytes)
	}
}
