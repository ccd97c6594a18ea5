package ingest

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/crash/power"
	"github.com/stagepost/stagepost/store/mem"
)

// TestFilesOfWorkDirectory: what Stagepost adds to an object is in the list of files, not in files of its own, until it
// is stored.
func TestFilesOfWorkDirectory(t *testing.T) {
	var got []string
	seen := func(dir string) {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				got = append(got, filepath.ToSlash(strings.TrimPrefix(name, dir+"/")))
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	storedAfter(t, seen)
	want := []string{"lists/fetched.jsonl", "lists/own.jsonl", "lock", "package/manifest.checkm", "producer/a.txt",
		"producer/sub/b.txt"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestListOfEarlierRelease: an earlier release wrote what it added to the object into files, and listed them without
// their texts. A job that it left in Storing is stored as others are.
func TestListOfEarlierRelease(t *testing.T) {
	want := storedAfter(t, func(string) {})
	got := storedAfter(t, func(dir string) {
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		d := workdir.Dir{Root: root}
		var lines []byte
		for f, err := range workdir.Lines[listed](root, ownList) {
			in, err2 := f.open(&d)
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(in)
			err = errors.Join(err, in.Close(), root.MkdirAll(workdir.SystemName, 0o750),
				root.WriteFile(f.Path, text, 0o640))
			line, err2 := json.Marshal(f.File)
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			lines = append(append(lines, line...), '\n')
		}
		if err := root.WriteFile(ownList, lines, 0o640); err != nil {
			t.Fatal(err)
		}
	})
	names := func(files map[string]string) (all []string) {
		for name := range files {
			all = append(all, name)
		}
		slices.Sort(all)
		return all
	}
	if diff := cmp.Diff(names(want), names(got)); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{record.ERCName, record.OwnerName, record.ManifestName} {
		if text := got[workdir.SystemName+"/"+name]; text == "" {
			t.Errorf("no %s", name)
		}
	}
}

// storedAfter ingests an object, calls do with its work directory before Processing ends, and returns the files of the
// object.
func storedAfter(t *testing.T, do func(dir string)) map[string]string {
	t.Helper()
	o := options(t, t.TempDir())
	store := &power.Store{Store: mem.New(), Created: func(*job.Job) {},
		Changed: func(j *job.Job, change *job.Change) {
			if j.Kind == record.JobKind && j.State == record.Processing && change.To.State == record.Storing {
				do(filepath.Join(o.Dir, workdir.WorkName, string(j.Parent), string(j.ID)))
			}
		}}
	w := startOn(t, store, o)
	s := newSite(t, map[string]string{"a.txt": "alpha", "sub/b.txt": "beta"})
	j := w.one(Submission{Filename: "first.checkm", Title: "First", Creator: "A. Person", Date: "2026"},
		s.manifest("a.txt", "sub/b.txt"))
	if j.State != record.Completed {
		t.Fatalf("%s: %s", j.State, j.Message)
	}
	w.valid()
	return w.files(j.ARK, "v1")
}

// TestListedTexts: the text of a file in a list is kept to the byte, also where it is no UTF-8.
func TestListedTexts(t *testing.T) {
	want := listed{File: inventory.File{Path: "system/x"}, Text: []byte("a\xff\x00<&>\u2028")}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got listed
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
