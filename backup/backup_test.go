package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
)

// fixture is a data directory whose databases are plain files.
type fixture struct {
	Source
	t      *testing.T
	frozen func()          // called while commits wait
	after  func()          // called when commits go on
	knows  map[string]bool // makers of versions
}

type pinned struct{ text []byte }

func (p pinned) CopyTo(_ context.Context, file string) error { return putFile(file, p.text) }
func (p pinned) Close() error                                { return nil }

type databases map[string]bool

func (d databases) Has(maker string) (bool, error) { return d[maker], nil }
func (databases) Schemas() map[string]int          { return map[string]int{"a.db": 3} }
func (databases) Close() error                     { return nil }

var reader = Reader{Schemas: map[string]int{"a.db": 3}}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s := &fixture{t: t, frozen: func() {}, after: func() {}, knows: map[string]bool{}}
	s.Source = Source{
		Data: t.TempDir(), Installation: "inst1", Version: "1.2",
		Entries: []Entry{
			{Name: "a.db", How: Database}, {Name: "b.db", How: Database}, {Name: "work", How: Linked},
			{Name: "results", How: Linked, Part: "results"},
			{Name: "head", How: Noted}, {Name: "logs", How: Late}, {Name: "storage*", How: Stored},
			{Name: SnapshotName, How: Left}, {Name: "trash", How: Left},
		},
		Freeze: func(_ context.Context, do func() error) error {
			err := do()
			s.frozen()
			s.after()
			return err
		},
		Pin: func(file string) (Pinned, error) {
			text, err := os.ReadFile(file)
			return pinned{text}, err
		},
		Open: func(string) (Databases, error) { return databases(s.knows), nil },
	}
	for name, text := range map[string]string{
		"a.db": "database a", "b.db": "database b", "work/1/payload": "first", "work/1/list": "payload\n",
		"results/r": "result", "head": "7",
		"logs/1.log": "line\n", "trash/old": "old", "stranger": "somebody's", ".head.new": "8", ".stranger.new": "",
		"work/empty/": "",
		"work/1/lock": "claim 1",
	} {
		s.put(name, text)
	}
	if err := os.Symlink("payload", filepath.Join(s.Data, "work/1/link")); err != nil {
		t.Fatal(err)
	}
	return s
}

// put writes a file of the data directory; a name with a slash at its end is a directory.
func (s *fixture) put(name, text string) {
	s.t.Helper()
	put1(s.t, filepath.Join(s.Data, name), text, strings.HasSuffix(name, "/"))
}

func put1(t *testing.T, name, text string, dir bool) {
	t.Helper()
	if dir {
		if err := os.MkdirAll(name, 0o750); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o750), os.WriteFile(name, []byte(text), 0o640)); err != nil {
		t.Fatal(err)
	}
}

func (s *fixture) write(dir, name string, without ...string) *Manifest {
	s.t.Helper()
	m, err := Write(s.t.Context(), &s.Source, Options{Dir: dir, Name: name, Without: without, Now: time.Now})
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// contents returns the files below a directory, with modes.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := walk(dir, ".", func(name string, info fs.FileInfo) error {
		at := filepath.Join(dir, name)
		switch {
		case name == ".":
		case info.IsDir():
			all[name+"/"] = info.Mode().String() + info.ModTime().String()
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(at)
			all[name] = "-> " + to
			return err
		default:
			text, err := os.ReadFile(at)
			all[name] = info.Mode().String() + " " + string(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func restored(t *testing.T, set string) map[string]string {
	t.Helper()
	target := filepath.Join(t.TempDir(), "new")
	if _, err := Restore(t.Context(), set, target, reader); err != nil {
		t.Fatal(err)
	}
	return contents(t, target)
}

// A restored set is the data directory without what is disposable, with modes and times.
func TestRoundTrip(t *testing.T) {
	s, dir := newFixture(t), t.TempDir()
	elsewhere := t.TempDir()
	put1(t, filepath.Join(elsewhere, "maps.yaml"), "id: maps", false)
	put1(t, filepath.Join(elsewhere, "tokens"), "secret", false)
	s.Elsewhere = map[string]string{"profiles": elsewhere, "tokens": filepath.Join(elsewhere, "tokens")}
	s.Locations = []Location{{"/mnt/a", "storage location"}}
	want := contents(t, s.Data)
	for name := range want {
		if strings.HasPrefix(name, "trash") || name == "stranger" || strings.HasSuffix(name, ".new") {
			delete(want, name)
		}
	}
	m := s.write(dir, "set")
	got := restored(t, filepath.Join(dir, "set"))
	for _, name := range []string{"outside/profiles/maps.yaml", "outside/tokens"} {
		if got[name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
	for name := range got {
		if strings.HasPrefix(name, "outside") {
			delete(got, name)
		}
	}
	got["head"] = want["head"] // its mode is the set's own
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("restored (-was +is):\n%s", diff)
	}
	unknown := []string{".stranger.new", "stranger"}
	if !slices.Equal(m.Unknown, unknown) || m.Installation != "inst1" || len(m.Outside) != 1 {
		t.Errorf("manifest %+v", m)
	}
	for _, left := range []string{filepath.Join(s.Data, SnapshotName)} {
		if _, err := os.Stat(left); err == nil {
			t.Errorf("%s was left", left)
		}
	}
}

// What changes after the moment is not in the set, and what is removed after it is.
func TestOneMoment(t *testing.T) {
	s, dir := newFixture(t), t.TempDir()
	want := contents(t, s.Data)
	s.frozen = func() {
		if err := os.RemoveAll(filepath.Join(s.Data, "work/1/payload")); err != nil {
			t.Error(err)
		}
		f, err := os.OpenFile(filepath.Join(s.Data, "work/1/list"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		_, err = f.WriteString("later\n")
		if err := errors.Join(err, f.Close()); err != nil {
			t.Error(err)
		}
		s.put("head", "8")
		s.put("work/1/lock", "claim 2") // in place
		s.put("a.db", "database a, later")
		s.put("work/2/payload", "second")
	}
	s.write(dir, "set")
	got := restored(t, filepath.Join(dir, "set"))
	for _, name := range []string{"work/1/payload", "work/1/list", "work/1/lock", "a.db"} {
		if got[name] != want[name] {
			t.Errorf("%s: %q, want %q", name, got[name], want[name])
		}
	}
	if !strings.HasSuffix(got["head"], " 7") || got["work/2/payload"] != "" {
		t.Errorf("head %q, work/2 %q", got["head"], got["work/2/payload"])
	}
}

// Parts are left out when asked.
func TestWithout(t *testing.T) {
	s, dir := newFixture(t), t.TempDir()
	s.write(dir, "set", "results")
	if got := restored(t, filepath.Join(dir, "set")); got["results/r"] != "" || got["work/1/payload"] == "" {
		t.Errorf("restored %v", got)
	}
}

// version adds a version to an object of a storage root.
func version(t *testing.T, dir, id, key, text string) {
	t.Helper()
	root, err := ocfl.InitRoot(dir, ocfl.DefaultLayout())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	v := ocfl.Version{Created: time.Now(), Message: "stored",
		Files: []ocfl.File{{Path: "file.txt", Size: int64(len(text)), Open: func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(text)), nil
		}}}}
	if _, err := root.AddVersion(t.Context(), id, v, ocfl.Options{Stage: "stage-" + key, Key: key}); err != nil {
		t.Fatal(err)
	}
}

// Versions that were stored after the moment are left out; what is left is a valid storage root.
func TestLaterVersions(t *testing.T) {
	s, dir := newFixture(t), t.TempDir()
	s.knows = map[string]bool{"j1": true, "j2": true}
	version(t, filepath.Join(s.Data, "storage"), "ark:/1/a", "j1", "one")
	version(t, filepath.Join(s.Data, "storage"), "ark:/1/a", "j2", "two")
	s.after = func() {
		version(t, filepath.Join(s.Data, "storage"), "ark:/1/a", "j3", "three")
		version(t, filepath.Join(s.Data, "storage"), "ark:/1/b", "j4", "other")
	}
	s.write(dir, "set")
	target := filepath.Join(t.TempDir(), "new")
	if _, err := Restore(t.Context(), filepath.Join(dir, "set"), target, reader); err != nil {
		t.Fatal(err)
	}
	report, err := ocfl.Validate(t.Context(), filepath.Join(target, "storage"))
	if err != nil || !report.Valid() || report.Objects != 1 {
		t.Errorf("the restored root: %+v %v", report, err)
	}
	root, err := ocfl.OpenRoot(filepath.Join(target, "storage"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if o, err := root.Object("ark:/1/a"); err != nil || o.Head() != "v2" {
		t.Errorf("head %v, %v", o, err)
	}
}

// Wrong sets are refused before anything is written, each with its message.
func TestRefusals(t *testing.T) {
	s, dir := newFixture(t), t.TempDir()
	s.write(dir, "older")
	s.put("b.db", "database b, later")
	s.write(dir, "good")
	for what, c := range map[string]struct {
		change func(set string) error
		reader Reader
		want   string
	}{
		"missing file": {func(set string) error { return os.Remove(filepath.Join(set, "data/work/1/payload")) },
			reader, "work/1/payload is missing from the backup"},
		"changed file": {func(set string) error {
			return os.WriteFile(filepath.Join(set, "data/work/1/payload"), []byte("FIRST"), 0o600)
		}, reader, "was changed after the backup"},
		"added file": {func(set string) error {
			return os.WriteFile(filepath.Join(set, "data/work/more"), nil,
				0o600)
		}, reader, "work/more is not a file of this backup"},
		"older file": {func(set string) error {
			return replace(filepath.Join(dir, "older/data/b.db"), filepath.Join(set, "data/b.db"))
		}, reader, "b.db was changed after the backup"},
		"no manifest": {func(set string) error { return os.Remove(filepath.Join(set, manifestName)) }, reader,
			"is not a complete backup: it has no manifest.json"},
		"other digest": {func(set string) error {
			return os.WriteFile(filepath.Join(set, digestName), []byte("00"),
				0o600)
		}, reader, "manifest.json was changed after the backup"},
		"other list": {func(set string) error {
			return replace(filepath.Join(dir, "older/files.jsonl"), filepath.Join(set, "files.jsonl"))
		}, reader, "is not the list of this backup"},
		"newer schema": {func(string) error { return nil }, Reader{Schemas: map[string]int{"a.db": 2}},
			"a.db has schema 3, made by stagepost 1.2; this program reads schema 2"},
		"newer format":  {func(set string) error { return newer(set) }, reader, "has format 99"},
		"no directory":  {func(set string) error { return os.RemoveAll(set) }, reader, "backup not found"},
		"nothing wrong": {func(string) error { return nil }, reader, ""},
	} {
		set := filepath.Join(t.TempDir(), "set")
		copyTree(t, filepath.Join(dir, "good"), set)
		if err := c.change(set); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		target := filepath.Join(t.TempDir(), "new")
		_, err := Restore(t.Context(), set, target, c.reader)
		if c.want == "" {
			if err != nil {
				t.Errorf("control: %v", err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
		if _, err := os.Stat(target); err == nil {
			t.Errorf("%s: %s was written", what, target)
		}
	}
}

// replace puts a copy of a file in place of another one.
func replace(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// copyTree copies a set.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := walk(from, ".", func(name string, info fs.FileInfo) error {
		at := filepath.Join(to, name)
		switch {
		case info.IsDir():
			return os.MkdirAll(at, 0o700)
		case info.Mode()&fs.ModeSymlink != 0:
			link, err := os.Readlink(filepath.Join(from, name))
			return errors.Join(err, os.Symlink(link, at))
		}
		return replace(filepath.Join(from, name), at)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// newer changes a manifest as if a later program made it.
func newer(set string) error {
	m, err := ReadManifest(set)
	if err != nil {
		return err
	}
	m.Format = 99
	if err := errors.Join(os.Remove(filepath.Join(set, manifestName)),
		os.Remove(filepath.Join(set, digestName))); err != nil {
		return err
	}
	return m.write(set)
}

// A directory with something in it is left alone; so is one in which a restore did not end.
func TestVacant(t *testing.T) {
	s, dir := newFixture(t), t.TempDir()
	s.write(dir, "set")
	for name, want := range map[string]string{"stagepost.db": "is not empty", RestoringName: "did not end"} {
		target := t.TempDir()
		put1(t, filepath.Join(target, name), "", false)
		_, err := Restore(t.Context(), filepath.Join(dir, "set"), target, reader)
		if job.KindOf(err) != job.Conflict || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Restore(t.Context(), filepath.Join(dir, "set"), t.TempDir(), reader); err != nil {
		t.Errorf("control: an empty directory: %v", err)
	}
}

// A backup that fails leaves neither a set nor links.
func TestFails(t *testing.T) {
	s, dir := newFixture(t), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	s.after = cancel
	if _, err := Write(ctx, &s.Source,
		Options{Dir: dir, Name: "set", Now: time.Now}); job.KindOf(err) != job.Unavailable {
		t.Errorf("with a context that ended: %v", err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("left: %v, %v", names, err)
	}
	s.after = func() {}
	s.write(dir, "set")
	if _, err := Write(t.Context(), &s.Source,
		Options{Dir: dir, Name: "set", Now: time.Now}); job.KindOf(err) != job.Conflict {
		t.Errorf("the same name: %v", err)
	}
}

// Retention removes the oldest scheduled sets of its installation and nothing else.
func TestPrune(t *testing.T) {
	s, other, dir := newFixture(t), newFixture(t), t.TempDir()
	other.Installation = "inst2"
	for _, name := range []string{"scheduled-1", "by-hand", "scheduled-2", "scheduled-3"} {
		s.write(dir, name)
	}
	other.write(dir, "scheduled-0")
	put1(t, filepath.Join(dir, "scheduled-none", "file"), "", false)
	gone, err := Prune(dir, "inst1", 2)
	if err != nil || !slices.Equal(gone, []string{"scheduled-1"}) {
		t.Errorf("removed %v, %v", gone, err)
	}
	var left []string
	names, err := os.ReadDir(dir)
	for _, d := range names {
		left = append(left, d.Name())
	}
	want := []string{"by-hand", "scheduled-0", "scheduled-2", "scheduled-3", "scheduled-none"}
	if diff := cmp.Diff(want, left); diff != "" || err != nil {
		t.Errorf("left (-want +got):\n%s%v", diff, err)
	}
}
