package copies_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/edge/storage"
)

// TestOpen reads from the best copy, and goes on with another one.
func TestOpen(t *testing.T) {
	f := newFixture(t, "a", "b", "slow")
	must(t, f.fill(1))
	f.at["slow"].tier = storage.Slow
	_, err := f.store.Save(t.Context(), f.request())
	must(t, err)
	const path = "pack/file-0000.bin"
	want := f.files[path]
	read := func(offset int64) ([]byte, error) {
		r, err := f.store.Open(t.Context(), job, path, offset)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		if n, err := r.Read(nil); n != 0 || err != nil { // a read of nothing ends
			t.Errorf("a read of nothing: %d bytes, %v", n, err)
		}
		return io.ReadAll(r)
	}
	for _, offset := range []int64{0, 1, 500, 1000} {
		if got, err := read(offset); err != nil || !bytes.Equal(got, want[offset:]) {
			t.Errorf("from %d: %d bytes, %v", offset, len(got), err)
		}
	}
	for _, offset := range []int64{-1, 1001} {
		if _, err := read(offset); err == nil {
			t.Errorf("from %d: no error", offset)
		}
	}
	down := func(op, _ string) error {
		if op == "open" {
			return errDown
		}
		return nil
	}
	f.at["a"].set(down)
	if got, err := read(0); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	key := job + "/" + path
	must(t, os.Truncate(filepath.Join(f.dir, "b", key), 300)) // the rest comes from a
	f.at["a"].set(nil)
	must(t, os.Rename(filepath.Join(f.dir, "a", key), filepath.Join(f.dir, "a.bin")))
	f.at["slow"].ready = true
	if got, err := read(0); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	f.at["slow"].ready = false
	asked := f.at["slow"].asked
	_, err = read(0)
	var e *copies.ReadError
	if !errors.Is(err, copies.ErrRecalled) || !errors.As(err, &e) || !e.Temporary() || f.at["slow"].asked != asked+1 {
		t.Errorf("got %v after %d recalls", err, f.at["slow"].asked-asked)
	}
	must(t, os.Rename(filepath.Join(f.dir, "a.bin"), filepath.Join(f.dir, "a", key)))
	f.flip("a", key)
	r, err := f.store.Open(t.Context(), job, path, 0)
	must(t, err)
	defer r.Close()
	// as a server does that has stated the length
	n, err := io.CopyN(io.Discard, r, int64(len(want)))
	if !errors.Is(err, storage.ErrDamage) || n == int64(len(want)) {
		t.Errorf("a damaged copy gives %d bytes, %v", n, err)
	}
	if due, err := f.cat.Due(t.Context(), "a", f.now, 0); err != nil || len(due) != 1 || due[0].Of.Path != path {
		t.Errorf("its check is not due: %v", err)
	}
}

// TestDoubtedCopy reads another copy after one gave wrong bytes, until it was checked.
func TestDoubtedCopy(t *testing.T) {
	f := newFixture(t, "a", "slow")
	must(t, f.fill(1))
	_, err := f.store.Save(t.Context(), f.request())
	must(t, err)
	f.at["slow"].tier, f.at["slow"].ready = storage.Slow, true
	const path = "pack/file-0000.bin"
	read := func() error {
		r, err := f.store.Open(t.Context(), job, path, 0)
		must(t, err)
		defer r.Close()
		_, err = io.CopyN(io.Discard, r, int64(len(f.files[path])))
		return err
	}
	f.flip("a", job+"/"+path)
	if err := read(); !errors.Is(err, storage.ErrDamage) {
		t.Fatalf("the damaged copy is read: %v", err)
	}
	if err := read(); err != nil {
		t.Errorf("the good copy is not read after it: %v", err)
	}
	f.flip("a", job+"/"+path) // it is right again
	due, err := f.cat.Due(t.Context(), "a", f.now, 0)
	must(t, err)
	f.now = f.now.Add(time.Minute)
	must(t, f.cat.PutChecked(t.Context(), []catalog.Checked{{
		CopyKey: due[0].CopyKey, Fixity: catalog.Intact, At: f.now, Next: f.now.Add(time.Hour),
	}}))
	asked := f.at["slow"].asked
	if err := read(); err != nil || f.at["slow"].asked != asked {
		t.Errorf("after its check it is not the first one: %v, %d recalls", err, f.at["slow"].asked-asked)
	}
}

// TestHeal replaces a damaged copy at every crash point, and never reads a damaged source as a good one.
func TestHeal(t *testing.T) {
	for n := 0; ; n++ {
		f := newFixture(t, "a", "b")
		must(t, f.fill(2))
		_, err := f.store.Save(t.Context(), f.request())
		must(t, err)
		must(t, f.cat.End(t.Context(), job, catalog.Complete, f.now))
		all, err := f.cat.Copies(t.Context(), job, "pack/file-0000.bin")
		must(t, err)
		f.flip("a", all[0].Key)
		must(t, f.cat.PutChecked(t.Context(), []catalog.Checked{{
			CopyKey: all[0].CopyKey, Fixity: catalog.Corrupt, At: f.now, Next: f.now.AddDate(0, 1, 0),
		}}))
		f.crash.n, f.crash.at = n, 0
		_, err = f.store.Heal(t.Context(), all[0].CopyKey)
		fired := f.crash.fired()
		if !fired {
			must(t, err)
		}
		f.crash.n = -1
		must(t, f.cat.Close())
		f.open("a", "b")
		if faults, err := f.cat.Faults(t.Context(), 0); err != nil || len(faults) > 1 {
			t.Fatal(faults, err)
		} else if len(faults) == 1 {
			_, err := f.store.Heal(t.Context(), all[0].CopyKey)
			must(t, err)
		}
		must(t, f.store.Tidy(t.Context(), "a"))
		f.stored("a", 2)
		f.stored("b", 2)
		events, err := f.cat.Events(t.Context(), job, "", 0)
		if must(t, err); len(events) != 1 {
			t.Errorf("crash %d: %d events", n, len(events))
		}
		if !fired {
			break
		}
	}
}

func TestHealWithoutGoodCopy(t *testing.T) {
	f := newFixture(t, "a", "b")
	must(t, f.fill(1))
	_, err := f.store.Save(t.Context(), f.request())
	must(t, err)
	all, err := f.cat.Copies(t.Context(), job, "")
	must(t, err)
	for _, c := range all {
		f.flip(c.Location, c.Key)
	}
	must(t, f.cat.PutChecked(t.Context(), []catalog.Checked{{
		CopyKey: all[0].CopyKey, Fixity: catalog.Corrupt, At: f.now, Next: f.now.AddDate(0, 1, 0),
	}}))
	_, err = f.store.Heal(t.Context(), all[0].CopyKey)
	var e *copies.ReadError
	if !errors.As(err, &e) || !errors.Is(err, storage.ErrSource) {
		t.Fatalf("got %v", err)
	}
	if due, err := f.cat.Due(t.Context(), "b", f.now, 0); err != nil || len(due) != 1 {
		t.Errorf("the damaged source is not checked next: %+v, %v", due, err)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "a", all[0].Key)); err != nil {
		t.Errorf("the damaged copy is gone although nothing replaces it: %v", err)
	}
}

func TestCatchUp(t *testing.T) {
	f := newFixture(t, "a", "b", "c")
	must(t, f.fill(5))
	f.at["c"].set(func(string, string) error { return errDown })
	r := f.request()
	r.Policy.Quorum = copies.Majority
	report, err := f.store.Save(t.Context(), r)
	if must(t, err); len(report.Behind) != 1 || report.Behind[0].Copies != 5 {
		t.Fatalf("got %+v", report)
	}
	must(t, f.cat.End(t.Context(), job, catalog.Complete, f.now))
	if n, err := f.store.CatchUp(t.Context(), "c"); n != 0 || err != nil {
		t.Errorf("%d were stored at once, %v", n, err)
	}
	f.now = f.now.Add(2 * time.Hour)
	if _, err := f.store.CatchUp(t.Context(), "c"); !errors.Is(err, errDown) {
		t.Errorf("got %v", err)
	}
	f.at["c"].set(nil)
	f.files = map[string][]byte{} // the work directory is gone
	if n, err := f.store.CatchUp(t.Context(), "c"); n != 5 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	must(t, f.fill(5))
	f.stored("c", 5)
}

// TestDelete deletes an archive at every crash point: all copies are gone, and there is one tombstone.
func TestDelete(t *testing.T) {
	for n := 0; ; n++ {
		f := newFixture(t, "a", "b")
		must(t, f.fill(2))
		_, err := f.store.Save(t.Context(), f.request())
		must(t, err)
		must(t, f.cat.End(t.Context(), job, catalog.Complete, f.now))
		if err := f.store.Discard(t.Context(), job, "?"); !errors.Is(err, catalog.ErrConflict) {
			t.Fatalf("a complete archive is discarded: %v", err)
		}
		_, err = f.cat.RequestDeletion(t.Context(),
			catalog.Deletion{ID: "d", Job: job, RequestedBy: "eve", Reason: "no use", Requested: f.now})
		must(t, err)
		if _, err := f.store.Delete(t.Context(), "d"); !errors.Is(err, catalog.ErrConflict) {
			t.Fatalf("one person deletes early: %v", err)
		}
		f.stored("a", 2)
		_, err = f.cat.DecideDeletion(t.Context(), "d", "bob", true, f.now)
		must(t, err)
		f.crash.n, f.crash.at = n, 0
		_, err = f.store.Delete(t.Context(), "d")
		fired := f.crash.fired()
		if !fired {
			must(t, err)
		}
		f.crash.n = -1
		must(t, f.cat.Close())
		f.open("a", "b")
		stone, err := f.store.Delete(t.Context(), "d")
		if must(t, err); stone.Copies != 4 || stone.ApprovedBy != "bob" {
			t.Errorf("crash %d: %+v", n, stone)
		}
		f.stored("a", 0)
		f.stored("b", 0)
		if !fired {
			break
		}
	}
}

// TestRefusedDeletion has a location that refuses: the others delete, and the request stays open.
func TestRefusedDeletion(t *testing.T) {
	f := newFixture(t, "a", "b")
	must(t, f.fill(2))
	_, err := f.store.Save(t.Context(), f.request())
	must(t, err)
	must(t, f.cat.End(t.Context(), job, catalog.Complete, f.now))
	f.now = start.AddDate(2, 0, 0)
	_, err = f.cat.RequestDeletion(t.Context(),
		catalog.Deletion{ID: "d", Job: job, RequestedBy: "timer", Reason: "retention", Requested: f.now})
	must(t, err)
	locked := &storage.Error{Location: "b", Op: "delete", Err: errors.New("object lock")}
	f.at["b"].set(func(op, _ string) error {
		if op == "delete" {
			return locked
		}
		return nil
	})
	_, err = f.store.Delete(t.Context(), "d")
	var e *copies.Error
	if !errors.As(err, &e) || e.Temporary() || len(e.Missing) != 1 || e.Missing[0].Copies != 2 {
		t.Errorf("got %v", err)
	}
	f.stored("a", 0)
	f.stored("b", 2)
	f.at["b"].set(nil)
	_, err = f.store.Delete(t.Context(), "d")
	must(t, err)
}

// TestExpire deletes what outlived its retention time, and goes on when a location that was down comes back.
func TestExpire(t *testing.T) {
	f := newFixture(t, "a", "b")
	must(t, f.fill(2))
	_, err := f.store.Save(t.Context(), f.request())
	must(t, err)
	must(t, f.cat.End(t.Context(), job, catalog.Complete, f.now))
	if deleted, err := f.store.Expire(t.Context()); err != nil || len(deleted) != 0 {
		t.Fatalf("deleted early: %v, %v", deleted, err)
	}
	f.now = start.AddDate(1, 0, 1)
	must(t, f.cat.Hold(t.Context(), catalog.Hold{Job: job, Name: "court", By: "eve", Since: f.now}))
	if deleted, err := f.store.Expire(t.Context()); err != nil || len(deleted) != 0 {
		t.Fatalf("deleted although held: %v, %v", deleted, err)
	}
	must(t, f.cat.Release(t.Context(), job, "court", "eve", f.now))
	_, err = f.cat.RequestDeletion(t.Context(),
		catalog.Deletion{ID: "d", Job: job, RequestedBy: "timer", Requested: f.now}) // and then the process crashed
	must(t, err)
	f.at["b"].set(func(string, string) error { return errDown })
	if deleted, err := f.store.Expire(t.Context()); !errors.Is(err, errDown) || len(deleted) != 0 {
		t.Errorf("got %v, %v", deleted, err)
	}
	f.stored("a", 0)
	f.at["b"].set(nil)
	if deleted, err := f.store.Expire(t.Context()); err != nil || len(deleted) != 1 {
		t.Errorf("got %v, %v", deleted, err)
	}
	f.stored("b", 0)
	if deleted, err := f.store.Expire(t.Context()); err != nil || len(deleted) != 0 {
		t.Errorf("got %v, %v", deleted, err)
	}
}

// TestFailedArchive: what a location that was down keeps of a failed archive is deleted later, unless it is held.
func TestFailedArchive(t *testing.T) {
	f := newFixture(t, "a", "b")
	must(t, f.fill(2))
	_, err := f.store.Save(t.Context(), f.request())
	must(t, err)
	must(t, f.store.Tidy(t.Context(), "b")) // it is being made
	f.stored("b", 2)
	f.at["b"].set(func(string, string) error { return errDown })
	if err := f.store.Discard(t.Context(), job, "it failed"); !errors.Is(err, errDown) {
		t.Errorf("got %v", err)
	}
	must(t, f.cat.End(t.Context(), job, catalog.Failed, f.now))
	f.at["b"].set(nil)
	must(t, f.cat.Hold(t.Context(), catalog.Hold{Job: job, Name: "court", By: "eve", Since: f.now}))
	must(t, f.store.Tidy(t.Context(), "b"))
	f.stored("a", 0)
	f.stored("b", 2)
	must(t, f.cat.Release(t.Context(), job, "court", "eve", f.now))
	must(t, f.store.Tidy(t.Context(), "b"))
	f.stored("b", 0)
}

func TestLocks(t *testing.T) {
	f := newFixture(t, "a")
	must(t, f.fill(2))
	locks := &copies.Locks{Mode: "COMPLIANCE"}
	var seen []time.Time
	f.at["a"].set(func(op, key string) error {
		if mode, until := locks.Lock(key); op == "put" && mode == "COMPLIANCE" {
			seen = append(seen, until)
		}
		return nil
	})
	s, err := copies.New(copies.Options{
		Catalog: f.cat, Now: func() time.Time { return start },
		Targets: []copies.Target{{Name: "a", At: f.at["a"], Locks: locks, Parallel: 1}},
	})
	must(t, err)
	_, err = s.Save(t.Context(), f.request())
	must(t, err)
	until := start.AddDate(1, 0, 0)
	if !slices.Equal(seen, []time.Time{until, until}) {
		t.Errorf("got %v", seen)
	}
	if mode, _ := locks.Lock(job + "/pack/file-0000.bin"); mode != "" {
		t.Error("the lock remains")
	}
}

func TestParseQuorum(t *testing.T) {
	for text, want := range map[string]copies.Quorum{
		"": copies.All, "all": copies.All, "majority": copies.Majority, "2": 2,
	} {
		if got, err := copies.ParseQuorum(text); err != nil || got != want || text != "" && got.String() != text {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"0", "-1", "most"} {
		if got, err := copies.ParseQuorum(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
