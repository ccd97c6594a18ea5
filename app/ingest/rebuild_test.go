package ingest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/fsck"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/internal/headfile"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// tables gives the rows of an inventory, except what cannot be rebuilt: when each was checked, and which job first
// named a local id.
func tables(t *testing.T, path string) map[string][]string {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	all := map[string][]string{}
	for table, columns := range map[string]string{
		"objects": "*", "versions": "*", "files": "*", "places": "ark,version,place,name",
		"local_ids": "owner, local_id, ark",
		"named":     "job, ark, owner, minted", "lost": "*", "locations": "place,id", "meta": "installation",
	} {
		r, err := db.QueryContext(t.Context(), "SELECT "+columns+" FROM "+table)
		if err != nil {
			t.Fatal(err)
		}
		names, err := r.Columns()
		if err != nil {
			t.Fatal(err)
		}
		for r.Next() {
			row, into := make([]any, len(names)), make([]any, len(names))
			for i := range row {
				into[i] = &row[i]
			}
			if err := r.Scan(into...); err != nil {
				t.Fatal(err)
			}
			all[table] = append(all[table], strings.TrimSuffix(fmt.Sprintln(row...), "\n"))
		}
		if err := errors.Join(r.Err(), r.Close()); err != nil {
			t.Fatal(err)
		}
		slices.Sort(all[table])
	}
	return all
}

// library ingests objects of several kinds into two storage locations and stops: new ones, updates, one by a local id,
// one that failed after it was named.
func library(t *testing.T) (store job.Store, o Options) {
	t.Helper()
	p, other := testProfile(), testProfile()
	p.Storage = []string{"storage", "second"}
	other.ID, other.Owner, other.Collection = "other", "museum", "coins"
	store, o = mem.New(), options(t, t.TempDir(), p, other)
	o.Records, o.Installation = store, "one"
	w := startOn(t, store, o)
	first := w.one(Submission{Filename: "a.txt", LocalIDs: []string{"l1", "l 2; %"}, Title: "Ä title: with | signs",
		Creator: "Lee, A.", Date: "2009"}, "alpha")
	w.one(Submission{Filename: "b.txt", PrimaryID: first.ARK, Update: true, Note: "more: of it", Submitter: "ben"},
		"beta")
	w.one(Submission{Filename: "b.txt", LocalIDs: []string{"l1"}, Update: true, Title: "Another"}, "beta, again")
	w.one(Submission{Profile: "other", Filename: "c.txt", LocalIDs: []string{"l1"}}, "alpha")
	w.one(Submission{PrimaryID: "ark:/12345/given", Filename: "d.txt"}, "delta")
	obstacle := filepath.Join(o.Dir, "second", "extensions", "stagepost-staging")
	if err := os.WriteFile(obstacle, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := w.ingest(Submission{Filename: "e.txt", LocalIDs: []string{"l9"}}, "epsilon"); r.State != record.Failed {
		t.Fatalf("got %s", r.Text())
	}
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	w.stop()
	return store, o
}

func rebuilt(t *testing.T, in fsck.Rebuild) fsck.Rebuilt {
	t.Helper()
	done, err := fsck.RebuildInventory(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func sourceOf(o Options) fsck.Source {
	return fsck.Source{Dir: o.Dir, Installation: o.Installation, Records: o.Records, Profiles: o.Profiles}
}

// compared compares what there is, and requires no faults.
func compared(t *testing.T, o Options) {
	t.Helper()
	c, err := fsck.CompareDir(t.Context(), sourceOf(o))
	if err != nil || len(c.Faults) > 0 || c.Objects != 3 || c.Versions != 5 {
		t.Errorf("got %+v, %v", c, err)
	}
}

// A rebuilt inventory is what the lost one was, and the application goes on with it: updates, retries, and no
// identifier twice.
func TestRebuild(t *testing.T) {
	store, o := library(t)
	want := tables(t, filepath.Join(o.Dir, fsck.InventoryName))
	compared(t, o)
	for what, lose := range map[string]func(path string) error{
		"missing": os.Remove,
		"no head": func(path string) error { return errors.Join(os.Remove(path), os.Remove(headfile.Path(path))) },
		"damaged": func(path string) error {
			return os.WriteFile(path, []byte("no database at all, only some text"), 0o600)
		},
		"sound": func(string) error { return nil },
		"with log": func(path string) error {
			return os.WriteFile(path+"-wal", []byte("a log of another file"),
				0o600)
		},
	} {
		if err := lose(filepath.Join(o.Dir, fsck.InventoryName)); err != nil {
			t.Fatal(err)
		}
		done := rebuilt(t, fsck.Rebuild{Source: sourceOf(o)})
		if done.Objects != 3 || done.Versions != 5 || done.Names != 6 || done.Lost != 0 || len(done.Faults) > 0 ||
			len(done.Locations) != 2 {
			t.Errorf("%s: got %+v", what, done)
		}
		if diff := cmp.Diff(want, tables(t, filepath.Join(o.Dir, fsck.InventoryName))); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	compared(t, o)
	w := startOn(t, store, o)
	for _, j := range allJobs(t, store) {
		if j.State == record.Failed {
			if err := w.do(j.ID, record.Retry); err != nil {
				t.Fatal(err)
			}
			if got := w.end(j.ID); got.State != record.Completed {
				t.Errorf("retry: got %s: %s", got.State, got.Message)
			}
		}
	}
	ark := w.one(Submission{LocalIDs: []string{"l 2"}, Update: true, Filename: "f.txt"}, "phi").ARK
	if diff := cmp.Diff(map[string]string{"a.txt": "alpha", "b.txt": "beta, again", "f.txt": "phi"},
		w.produced(ark, "v4")); diff != "" {
		t.Error(diff)
	}
	if fresh := w.one(Submission{Filename: "g.txt"}, "gamma"); fresh.Version != 1 {
		t.Errorf("a new object is version %d of %s", fresh.Version, fresh.ARK)
	}
}

func allJobs(t *testing.T, store job.Store) []job.Job {
	t.Helper()
	page, err := store.List(t.Context(), job.Query{Kinds: []job.Kind{record.JobKind}, Oldest: true, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return page.Jobs
}

// Without any record the inventory follows from the storage locations alone, but for jobs that stored nothing whole.
func TestRebuildFromStorageAlone(t *testing.T) {
	_, o := library(t)
	want := tables(t, filepath.Join(o.Dir, fsck.InventoryName))
	o.Records = mem.New()
	done := rebuilt(t, fsck.Rebuild{Source: sourceOf(o)})
	// no record shows any more that the last one failed
	if done.Objects != 4 || done.Versions != 6 || len(done.Faults) > 0 {
		t.Errorf("got %+v", done)
	}
	got := tables(t, filepath.Join(o.Dir, fsck.InventoryName))
	for _, table := range []string{"objects", "versions", "files", "places", "local_ids"} {
		for _, row := range want[table] {
			if !slices.Contains(got[table], row) {
				t.Errorf("%s lacks %s: it has\n%s", table, row, strings.Join(got[table], "\n"))
			}
		}
	}
}

// What is damaged, lost or not there is reported, and nothing is made up.
func TestRebuildOfWhatIsDamaged(t *testing.T) {
	store, o := library(t)
	var lost, bent string
	for _, row := range tables(t, filepath.Join(o.Dir, fsck.InventoryName))["objects"] {
		switch ark, _, _ := strings.Cut(row, " "); {
		case strings.Contains(row, "museum"):
			bent = ark
		case strings.Contains(row, "given"):
			lost = ark
		}
	}
	lose(t, filepath.Join(o.Dir, "storage"), lost)
	lose(t, filepath.Join(o.Dir, "second"), lost)
	flip(t, content(t, filepath.Join(o.Dir, "storage"), bent, "producer/c.txt"))
	done := rebuilt(t, fsck.Rebuild{Source: sourceOf(o)})
	all := strings.Join(done.Faults, "\n")
	if done.Objects != 2 || done.Lost != 1 || len(done.Faults) != 2 ||
		!strings.Contains(all, "no storage location has version 1 of "+lost) ||
		!strings.Contains(all, "the content of producer/c.txt of "+bent+" does not match its digest") {
		t.Errorf("got %+v", done)
	}
	w := startOn(t, store, o) // it starts, although a record names what is lost
	r := w.ingest(Submission{Profile: "other", PrimaryID: lost}, "x")
	if r.State != record.Failed || r.Jobs[0].Cause != CauseIdentifiers {
		t.Errorf("the identifier of what is lost was given to somebody else: %s", r.Text())
	}
	w.stop()
	second := filepath.Join(o.Dir, "second")
	mount := unmount(t, second)
	_, err := fsck.RebuildInventory(t.Context(), fsck.Rebuild{Source: sourceOf(o)})
	if job.KindOf(err) != job.Refused || !strings.Contains(err.Error(), `--skip "second"`) {
		t.Errorf("a location that is not mounted: got %v", err)
	}
	if done := rebuilt(t, fsck.Rebuild{Source: sourceOf(o), Skip: []string{"second"}}); len(done.Locations) != 1 ||
		done.Objects != 2 {
		t.Errorf("got %+v", done)
	}
	mount()
	if err := os.Remove(filepath.Join(second, "stagepost-location.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := fsck.RebuildInventory(t.Context(),
		fsck.Rebuild{Source: sourceOf(o)}); job.KindOf(err) != job.Refused ||
		!strings.Contains(err.Error(), `--adopt "second"`) {
		t.Errorf("a location without a file: got %v", err)
	}
	if done := rebuilt(t, fsck.Rebuild{Source: sourceOf(o), Adopt: []string{"second"}, Actor: "op",
		Note: "lost"}); len(done.Locations) != 2 {
		t.Errorf("got %+v", done)
	}
}

// content finds the stored file of a path in an object's newest version.
func content(t *testing.T, dir, ark, name string) string {
	t.Helper()
	root, err := ocfl.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	object, err := root.Object(ark)
	if err != nil {
		t.Fatal(err)
	}
	files, err := object.Files("")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Path == name {
			return filepath.Join(dir, filepath.FromSlash(object.Dir()), filepath.FromSlash(f.Content))
		}
	}
	t.Fatalf("%s has no %s", ark, name)
	return ""
}

// flip changes a byte of a file.
func flip(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text[0] ^= 1
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A rebuild that ends at any point leaves the old inventory, or a server that refuses to start; repeated, it ends with
// the new one.
func TestRebuildEndsAnywhere(t *testing.T) {
	_, o := library(t)
	want := tables(t, filepath.Join(o.Dir, fsck.InventoryName))
	for n := range 4 {
		ctx, stop := context.WithCancel(t.Context())
		if n == 0 {
			stop()
		}
		_, err := fsck.RebuildInventory(ctx, fsck.Rebuild{Source: sourceOf(o), Progress: func(objects int, _ string) {
			if objects == n {
				stop()
			}
		}})
		stop()
		if n < 3 && err == nil {
			t.Errorf("stopped after %d objects: no error", n)
		}
		if diff := cmp.Diff(want, tables(t, filepath.Join(o.Dir, fsck.InventoryName))); diff != "" {
			t.Errorf("stopped after %d objects: %s", n, diff)
		}
	}
	path, fresh := filepath.Join(o.Dir, fsck.InventoryName), filepath.Join(o.Dir, fsck.RebuiltName)
	for what, crash := range map[string]func() error{
		"the new one was begun":   func() error { return os.WriteFile(fresh, []byte("half of it"), 0o600) },
		"the old one was put off": func() error { return os.Rename(path, path+".before-x") },
		"only its log was put off": func() error {
			return errors.Join(os.WriteFile(path+".before-y-wal", nil, 0o600), os.Rename(path, path+".before-y"))
		},
		"the new one is there, not noted": func() error {
			return headfile.Write(path, o.Installation, 1)
		},
	} {
		if err := crash(); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(path)
		gone := errors.Is(err, fs.ErrNotExist)
		a, err := New(o)
		if gone != errors.Is(err, headfile.ErrMissing) {
			t.Errorf("%s: got %v", what, err)
		}
		if err == nil {
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
		}
		rebuilt(t, fsck.Rebuild{Source: sourceOf(o)})
		if diff := cmp.Diff(want, tables(t, path)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		if _, err := os.Stat(fresh); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: left over: %v", what, err)
		}
	}
}
