package ingest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/format/ocfl"
)

// contentFiles counts the files that a storage root really holds.
func contentFiles(t *testing.T, dir string) int {
	t.Helper()
	n := 0
	for _, pattern := range []string{"*/*/*/*/v*/content/producer/*", "*/*/*/*/v*/content/producer/*/*"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
				n++
			}
		}
	}
	return n
}

func TestSameObjectAgainAddsAVersion(t *testing.T) {
	w := start(t)
	first := w.one(Submission{Filename: "x.zip", LocalIDs: []string{"l1"}, Title: "Old"}, zipOf(t, "a", "1", "b", "2"))
	stored := contentFiles(t, filepath.Join(w.dir, "storage"))
	byLocal := w.one(Submission{Filename: "x.zip", LocalIDs: []string{"l1"}}, zipOf(t, "a", "1", "c", "3"))
	byPrimary := w.one(Submission{Filename: "x.zip", PrimaryID: strings.Replace(first.ARK, "ark:/", "ark:", 1)},
		zipOf(t, "a", "1"))
	if byLocal.ARK != first.ARK || byPrimary.ARK != first.ARK || byLocal.Version != 2 || byPrimary.Version != 3 {
		t.Fatalf("got %+v and %+v", byLocal, byPrimary)
	}
	for version, want := range map[string]map[string]string{
		"v1": {"a": "1", "b": "2"}, "v2": {"a": "1", "c": "3"}, "v3": {"a": "1"},
	} {
		if diff := cmp.Diff(want, w.produced(first.ARK, version)); diff != "" {
			t.Errorf("%s: %s", version, diff)
		}
	}
	if n := contentFiles(t, filepath.Join(w.dir, "storage")); n != stored+1 {
		t.Errorf("only c is new: got %d files, had %d", n, stored)
	}
	o := w.object(first.ARK)
	if o.Head != 3 || len(o.Versions) != 3 || o.Title != "Old" {
		t.Errorf("got %+v", o)
	}
	w.valid()
}

func TestUpdateKeepsWhatIsNotHandedIn(t *testing.T) {
	p := testProfile()
	p.Storage = []string{"storage", "second"}
	w := start(t, p)
	first := w.one(Submission{Filename: "x.zip", LocalIDs: []string{"l1"}}, zipOf(t, "a", "1", "b", "2", "d/c", "3"))
	second := w.one(Submission{Filename: "x.zip", LocalIDs: []string{"l1"}, Update: true},
		zipOf(t, "b", "two", "e", "5", "mrt-delete.txt", "d/c\n"))
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "two", "e": "5"}, w.produced(first.ARK, "v2")); diff != "" {
		t.Error(diff)
	}
	v := w.object(first.ARK).Versions[1]
	files, err := w.Files(t.Context(), first.ARK, 2, "", 0)
	if err != nil || len(files) != v.Files || second.Version != 2 {
		t.Errorf("the inventory has %d files of %d, %v", len(files), v.Files, err)
	}
	for _, f := range files {
		if len(f.SHA256) != 64 || f.Size <= 0 {
			t.Errorf("got %+v", f)
		}
	}
	if len(v.Places) != 2 || v.Places[0].Dir != "second" || v.Places[0].Name != "v2" {
		t.Errorf("got %+v", v.Places)
	}
	if n := contentFiles(t, filepath.Join(w.dir, "second")); n != 5 {
		t.Errorf("a, b, c, the new b and e: got %d", n)
	}
	w.valid("storage", "second")
}

func TestIdentifierConflicts(t *testing.T) {
	w := start(t)
	a := w.one(Submission{LocalIDs: []string{"l1"}}, "a")
	w.one(Submission{LocalIDs: []string{"l2"}}, "b")
	for name, s := range map[string]Submission{
		"local id of another ark": {PrimaryID: "ark:/99999/other", LocalIDs: []string{"l1"}},
		"two objects":             {LocalIDs: []string{"l1", "l2"}},
	} {
		r := w.ingest(s, "x")
		if r.State != record.Failed || r.Jobs[0].Cause != CauseIdentifiers || r.Jobs[0].FailedIn != record.Processing {
			t.Errorf("%s: got %s", name, r.Text())
		}
	}
	if o := w.object(a.ARK); len(o.Versions) != 1 {
		t.Errorf("got %+v", o.Versions)
	}
}

func TestSubmissionsOfOneObjectAtOnce(t *testing.T) {
	p := testProfile()
	p.Storage = []string{"storage", "second"}
	w := start(t, p)
	const n = 8
	var batches []string
	for i := range n {
		b := w.submit(Submission{Filename: "f.txt", LocalIDs: []string{"l1"}}, strings.Repeat("x", i+1))
		batches = append(batches, string(b.ID))
	}
	arks := map[string]bool{}
	for _, b := range batches {
		r := w.reported(w.end(jobID(b)).ID)
		if r.State != record.Completed {
			t.Fatalf("got %s", r.Text())
		}
		arks[r.Jobs[0].ARK] = true
	}
	if len(arks) != 1 {
		t.Fatalf("got %d arks", len(arks))
	}
	for ark := range arks {
		o := w.object(ark)
		if len(o.Versions) != n {
			t.Errorf("got %d versions", len(o.Versions))
		}
		for _, v := range o.Versions {
			if v.Places[0].Name != v.Places[1].Name {
				t.Errorf("version %d has other names in its locations: %+v", v.Number, v.Places)
			}
		}
	}
	w.valid("storage", "second")
}

// TestReadByLayoutAlone finds an object without the inventory: by the layout of OCFL and the ARK.
func TestReadByLayoutAlone(t *testing.T) {
	w := start(t)
	j := w.one(Submission{Filename: "letter.txt"}, "dear")
	root, err := ocfl.OpenRoot(filepath.Join(w.dir, "storage"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	read, err := root.VerifyVersion(t.Context(), j.ARK, "v1")
	if err != nil || read.Files != w.object(j.ARK).Versions[0].Files {
		t.Errorf("got %+v, %v", read, err)
	}
}
