package audit_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive/audit"
	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/edge/storage"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/internal/ziptest"
)

// one is an object of many.
const one = "urn:stagepost:moodle:m:7:cm"

// objects is a fixture with versions of OCFL objects in storage roots.
type objects struct {
	*fixture
	roots map[string]*ocfl.Root
	dirs  map[string]string
}

func newObjects(t *testing.T, roots ...string) *objects {
	t.Helper()
	o := &objects{fixture: newFixture(t, 1, storage.Local), roots: map[string]*ocfl.Root{}, dirs: map[string]string{}}
	for _, name := range roots {
		o.dirs[name] = filepath.Join(t.TempDir(), name)
		root, err := ocfl.InitRoot(o.dirs[name], ocfl.DefaultLayout())
		must(t, err)
		t.Cleanup(func() { _ = root.Close() })
		o.roots[name] = root
	}
	o.options.Objects = func() map[string]*ocfl.Root { return o.roots }
	o.restart()
	return o
}

// version stores a version of an object in every root, for a job that is in the catalog.
func (o *objects) version(id, jobID string, files map[string]string) {
	o.t.Helper()
	for name, root := range o.roots {
		v := ocfl.Version{Created: o.now, User: ocfl.User{Name: "x"}, Message: "m"}
		for file, text := range files {
			open := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
			v.Files = append(v.Files, ocfl.File{Path: file, Size: int64(len(text)), Open: open})
		}
		added, err := root.AddVersion(o.t.Context(), id, v, ocfl.Options{Stage: jobID, Key: jobID})
		must(o.t, err)
		row, err := audit.Stored(root, name, id, added.Version, jobID, o.now)
		must(o.t, err)
		must(o.t, o.cat.PutVersion(o.t.Context(), row))
	}
}

// file gives the path of a file of an object.
func (o *objects) file(root, id, name string) string {
	return filepath.Join(o.dirs[root], filepath.FromSlash(o.roots[root].Path(id)), filepath.FromSlash(name))
}

func (o *objects) flip(root, id, name string) {
	o.t.Helper()
	b, err := os.ReadFile(o.file(root, id, name))
	must(o.t, err)
	must(o.t, os.WriteFile(o.file(root, id, name), flip(b), 0o600))
}

func (o *objects) status() api.Fixity {
	o.t.Helper()
	s, err := o.checker.Status(o.t.Context())
	must(o.t, err)
	return s
}

// check requests a check of everything and does it, a second later.
func (o *objects) check() (audit.Result, error) {
	o.t.Helper()
	o.now = o.now.Add(time.Second)
	must(o.t, o.checker.Start(o.t.Context(), nil))
	return o.checker.Pass(o.t.Context())
}

// TestFlippedByteOfObject: one flipped byte in a file of an OCFL object is found in one pass over all objects, reported
// and, with a good source, healed: from another root, from a file that a location has, from a package. Without a good
// source it stays, also over a restart, until a user restores the file.
func TestFlippedByteOfObject(t *testing.T) {
	const text = "answers of a student"
	packed := map[string]string{"bag/data/quiz-8/page.html": "another activity", "bag/data/quiz-7/page.html": text}
	for _, c := range []struct {
		name  string
		roots []string
		store func(*objects)
		heals bool
	}{
		{"no good copy", []string{"one"}, nil, false},
		{"damaged package", []string{"one"}, func(o *objects) {
			o.artifact("bag.tar.gz", tarred(t, map[string]string{"bag/data/quiz-7/page.html": "wrong bytes"}))
		}, false},
		{"another root", []string{"one", "two"}, nil, true},
		{"a file in the locations", []string{"one"}, func(o *objects) { o.artifact("bag/data/page.html", text) }, true},
		{"a tar.gz in the locations", []string{"one"}, func(o *objects) {
			o.artifact("bag.tar.gz", tarred(t, packed))
		}, true},
		{"a zip in the locations", []string{"one"}, func(o *objects) {
			o.artifact("bag.zip", string(ziptest.Zip(packed)))
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newObjects(t, c.roots...)
			for i := range 8 {
				o.version(fmt.Sprintf("urn:%d", i), job, map[string]string{"page.html": fmt.Sprint("content ", i)})
			}
			o.version(one, job, map[string]string{"page.html": text, "README.txt": "read me"})
			if c.store != nil {
				c.store(o)
			}
			if r, err := o.check(); err != nil || r.Faults != 0 || r.Copies < 9*int64(len(c.roots)) {
				t.Fatalf("control: got %+v, %v", r, err)
			}
			o.flip("one", one, "v1/content/page.html")
			r, err := o.check()
			if r.Faults != 1 || (err == nil) != c.heals || (r.Healed == 1) != c.heals {
				t.Fatalf("got %+v, %v", r, err)
			}
			got, err := os.ReadFile(o.file("one", one, "v1/content/page.html"))
			if err != nil || (string(got) == text) != c.heals {
				t.Errorf("the file is %q, %v", got, err)
			}
			o.reports(c.heals)
			o.stays(c.heals, text)
		})
	}
}

// reports checks what was reported of a flipped byte.
func (o *objects) reports(healed bool) {
	o.t.Helper()
	object := audit.RootPrefix + "one " + one + " v1"
	want := []string{audit.EventFault + " " + object + " v1/content/page.html", audit.EventLost + " " + object}
	if healed {
		want[1] = audit.EventHealed + " " + object
	}
	if !slices.Equal(o.reported, want) {
		o.t.Errorf("got reports %v, want %v", o.reported, want)
	}
	events, err := o.cat.Events(o.t.Context(), job, "", 0)
	must(o.t, err)
	n := 0
	for _, e := range events {
		if e.Type == "fixity check" && e.Outcome == "failure" && strings.Contains(e.Detail, one) {
			n++
		}
	}
	if n != 1 {
		o.t.Errorf("got %d events of a failed check", n)
	}
}

// stays checks the state after a flipped byte: a fault that is not healed ends when the file was restored.
func (o *objects) stays(healed bool, text string) {
	o.t.Helper()
	o.restart()
	s := o.status()
	if healed {
		if s.Count != 0 || len(s.Faults) != 0 || o.location(s, "objects/one").Healed != 1 {
			o.t.Errorf("got %+v", s)
		}
		return
	}
	if s.Count != 1 || len(s.Faults) != 1 || o.location(s, "objects/one").Damaged != 1 {
		o.t.Fatalf("got %+v", s)
	}
	f := s.Faults[0]
	if f.Object != one || f.Version != 1 || f.Path != "v1/content/page.html" || f.Kind != "changed" || f.Found == "" {
		o.t.Errorf("got %+v", f)
	}
	report, err := o.checker.Objects(o.t.Context(), api.FixityQuery{Damaged: true, Limit: 10})
	if err != nil || len(report) != 1 || report[0].Object != job || report[0].Damaged != 1 ||
		!slices.Contains(report[0].Locations, "objects/one") {
		o.t.Errorf("got report %+v, %v", report, err)
	}
	must(o.t, os.WriteFile(o.file("one", one, "v1/content/page.html"), []byte(text), 0o600))
	if r, err := o.check(); err != nil || r.Faults != 0 || o.status().Count != 0 {
		o.t.Errorf("after it was restored: got %+v, %v", r, err)
	}
	if !slices.Contains(o.reported, audit.EventSound+" objects/one "+one+" v1") {
		o.t.Errorf("got reports %v", o.reported)
	}
}

func (o *objects) location(s api.Fixity, name string) api.FixityLocation {
	o.t.Helper()
	for _, l := range s.Locations {
		if l.Location == name {
			return l
		}
	}
	o.t.Fatalf("no location %s in %+v", name, s.Locations)
	return api.FixityLocation{}
}

// artifact stores a file of another job record in the locations.
func (o *objects) artifact(path, content string) {
	o.t.Helper()
	a, b := sha256.Sum256([]byte(content)), sha512.Sum512([]byte(content))
	must(o.t, o.cat.PutArtifacts(o.t.Context(), job, []catalog.Artifact{{Path: path, Size: int64(len(content)),
		Role: catalog.Payload, SHA256: hex.EncodeToString(a[:]), SHA512: hex.EncodeToString(b[:])}}))
	_, err := o.copies.Save(o.t.Context(), copies.Request{Job: job, Open: func(name string) (copies.Source, error) {
		if name != path {
			return source{bytes.NewReader([]byte("content of " + name))}, nil
		}
		return source{bytes.NewReader([]byte(content))}, nil
	}})
	must(o.t, err)
}

func tarred(t *testing.T, files map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	packed := gzip.NewWriter(&b)
	w := tar.NewWriter(packed)
	for name, text := range files {
		must(t, w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Typeflag: tar.TypeReg}))
		_, err := io.WriteString(w, text)
		must(t, err)
	}
	must(t, w.Close())
	must(t, packed.Close())
	return b.String()
}

// TestDamagedObjects: an object that is gone, a damaged inventory, and one that was exchanged together with its digests
// are found, and replaced by the sound object of another root. Control: without that root they stay.
func TestDamagedObjects(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(*testing.T, *objects)
		kind   string
	}{
		{"gone", func(t *testing.T, o *objects) { must(t, os.RemoveAll(o.file("one", one, "."))) }, "missing"},
		{"inventory", func(_ *testing.T, o *objects) { o.flip("one", one, "inventory.json") }, "changed"},
		{"exchanged", func(t *testing.T, o *objects) {
			must(t, os.RemoveAll(o.file("one", one, ".")))
			v := ocfl.Version{Created: o.now, Message: "m", Files: []ocfl.File{{Path: "page.html", Size: 5,
				Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("false")), nil }}}}
			_, err := o.roots["one"].AddVersion(t.Context(), one, v, ocfl.Options{Stage: "x", Key: job})
			must(t, err)
		}, "changed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, roots := range [][]string{{"one"}, {"one", "two"}} {
				o := newObjects(t, roots...)
				o.version(one, job, map[string]string{"page.html": "true"})
				c.damage(t, o)
				r, err := o.check()
				heals := len(roots) == 2
				if r.Faults != 1 || (err == nil) != heals || (o.status().Count == 0) != heals {
					t.Fatalf("%v: got %+v, %v: %+v", roots, r, err, o.status().Faults)
				}
				if len(roots) == 1 {
					if f := o.status().Faults; f[0].Kind != c.kind || f[0].Path != "." {
						t.Errorf("got %+v", f)
					}
					continue
				}
				if b, err := os.ReadFile(o.file("one", one, "v1/content/page.html")); string(b) != "true" {
					t.Errorf("got %q, %v", b, err)
				}
			}
		})
	}
}

// TestObjectsResume: a pass that is interrupted continues with the versions that were not read, the oldest check first.
// The bytes are paced. What a root cannot give now is no fault.
func TestObjectsResume(t *testing.T) {
	o := newObjects(t, "one")
	for i := range 5 {
		o.now = o.now.Add(time.Second)
		o.version(fmt.Sprintf("urn:%d", i), job, map[string]string{"page.html": fmt.Sprint("content ", i)})
	}
	o.now = o.now.Add(time.Second)
	must(t, o.checker.Start(t.Context(), []string{"objects/one"}))
	ctx, cancel := context.WithCancel(t.Context())
	paced := 0
	o.options.Pace = func(_ context.Context, n int) error {
		if paced += n; paced > 1000 { // in the middle of the versions
			cancel()
		}
		return ctx.Err()
	}
	o.restart()
	if _, err := o.checker.Pass(ctx); err == nil {
		t.Fatal("the pass was not interrupted")
	}
	l := o.location(o.status(), "objects/one")
	if l.Check == nil || !l.Check.Ended.IsZero() || l.Overdue == 0 || l.Overdue == 5 {
		t.Fatalf("got %+v, check %+v", l, l.Check)
	}
	left, err := o.cat.DueVersions(t.Context(), "objects/one", o.now, 0)
	if err != nil || left[len(left)-1].Object != "urn:4" || left[0].Object == "urn:0" {
		t.Errorf("got %v, %v", left, err)
	}
	o.options.Pace = nil
	o.restart()
	declaration := filepath.Join(o.dirs["one"], "0=ocfl_1.1")
	text, err := os.ReadFile(declaration)
	must(t, err)
	must(t, os.Remove(declaration))
	if _, err := o.checker.Pass(t.Context()); err == nil || o.status().Count != 0 ||
		o.location(o.status(), "objects/one").Reason == "" {
		t.Errorf("an unreadable root: got %v, %+v", err, o.status())
	}
	must(t, os.WriteFile(declaration, text, fs.FileMode(0o600)))
	must(t, o.checker.Start(t.Context(), []string{"objects/one"}))
	if r, err := o.checker.Pass(t.Context()); err != nil || r.Copies != l.Overdue {
		t.Errorf("got %+v, %v, want %d copies", r, err, l.Overdue)
	}
	if l := o.location(o.status(), "objects/one"); l.Check.Ended.IsZero() || l.Overdue != 0 {
		t.Errorf("got %+v, check %+v", l, l.Check)
	}
}

// TestReportOfArchives: the report has an archive without versions, and one with copies and versions.
func TestReportOfArchives(t *testing.T) {
	o := newObjects(t, "one")
	report := func(q api.FixityQuery) []api.FixityObject {
		q.Limit = 10
		all, err := o.checker.Objects(t.Context(), q)
		must(t, err)
		return all
	}
	all := report(api.FixityQuery{})
	if len(all) != 1 || all[0].Copies != 2 || !slices.Equal(all[0].Locations, []string{"a", "b"}) ||
		!all[0].Checked.Equal(start) || all[0].Overdue != 0 {
		t.Errorf("got %+v", all)
	}
	o.now = o.now.Add(time.Hour)
	o.version(one, job, map[string]string{"page.html": "text"})
	all = report(api.FixityQuery{})
	if len(all) != 1 || all[0].Copies != 3 || !slices.Equal(all[0].Locations, []string{"a", "b", "objects/one"}) ||
		!all[0].Checked.Equal(start) {
		t.Errorf("got %+v", all)
	}
	all = report(api.FixityQuery{Location: "objects/one"})
	if len(all) != 1 || all[0].Copies != 1 || !all[0].Checked.Equal(o.now) {
		t.Errorf("got %+v", all)
	}
	if all = report(api.FixityQuery{Damaged: true}); len(all) != 0 {
		t.Errorf("got %+v", all)
	}
	o.now = o.now.AddDate(0, 0, 31)
	if all = report(api.FixityQuery{Overdue: true}); len(all) != 1 || all[0].Overdue != 3 {
		t.Errorf("got %+v", all)
	}
}
