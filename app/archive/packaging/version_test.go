package packaging

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/format/ocfl"
)

// versionFixture is an input of a version, with a storage root of its own.
type versionFixture struct {
	*fixture // its Input is not used
	VersionInput
	dir string // of the storage root
}

func newVersionFixture(t testing.TB) *versionFixture {
	t.Helper()
	f := &versionFixture{fixture: newFixture(t), dir: filepath.Join(t.TempDir(), "root")}
	r, err := ocfl.InitRoot(f.dir, ocfl.DefaultLayout())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	f.VersionInput = VersionInput{Facts: f.Input.Facts, Activity: "12", Files: f.Input.Files,
		Gathered: f.Input.Gathered, Into: f.Input.Into, Root: r, Stage: "archive-01.1"}
	return f
}

func (f *versionFixture) store(t testing.TB) *Version {
	t.Helper()
	v, err := StoreVersion(t.Context(), f.VersionInput)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// read returns the files of a version of an object: name to content.
func (f *versionFixture) read(t testing.TB, id, version string) map[string]string {
	t.Helper()
	o, err := f.Root.Object(id)
	if err != nil {
		t.Fatal(err)
	}
	files, err := o.Files(version)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, one := range files {
		r, err := o.Open(version, one.Path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		all[one.Path] = string(text)
	}
	return all
}

func (f *versionFixture) valid(t testing.TB) {
	t.Helper()
	report, err := ocfl.Validate(t.Context(), f.dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Errors)+len(report.Warnings) > 0 {
		t.Errorf("the storage root has errors %v, warnings %v", report.Errors, report.Warnings)
	}
}

// TestVersions stores two jobs of one activity: unchanged content once, metadata for each.
func TestVersions(t *testing.T) {
	f := newVersionFixture(t)
	first := f.store(t)
	if want := "urn:stagepost:moodle:moodle.example.org%2Fsub:12:cm"; first.Object != want || first.Version != "v1" ||
		!first.Created {
		t.Errorf("got %+v", first)
	}
	got := f.read(t, first.Object, "v1")
	for name, text := range map[string]string{
		"attempts/anna-1/attempt.html": texts["12/attempts/anna-1/attempt.html"],
		"backups/quiz.mbz":             texts["12/backups/quiz.mbz"], "grades.csv": "a,b\n", "empty.txt": "",
	} {
		if got[name] != text {
			t.Errorf("%s has %.40q", name, got[name])
		}
	}
	for _, name := range generated {
		if strings.Contains(got[name], "deadbeef") || got[name] == "" {
			t.Errorf("%s is missing, or has a secret", name)
		}
	}
	if strings.Contains(got[activityFile], "Essay") || !strings.Contains(got[readmeFile], "OCFL 1.1") ||
		strings.Contains(got[premisXML], ">7<") {
		t.Error("the metadata are not those of the one activity")
	}
	again := f.store(t)
	if again.Created || again.Version != "v1" || again.Stored != 0 {
		t.Errorf("the same job again: got %+v", again)
	}

	f.Facts.Job.ID, f.Stage = "archive-02", "archive-02.1"
	f.Facts.Job.Packaged = f.Facts.Job.Packaged.Add(24 * time.Hour)
	changed := slices.IndexFunc(f.Files, func(f File) bool { return f.Path == "12/attempts/anna-1/raw.json" })
	f.write(t, f.Files[changed].Path, `{"more":1}`)
	f.Files[changed] = fileOf(f.Files[changed].Path, `{"more":1}`)
	second := f.store(t)
	if second.Version != "v2" || second.Stored > 1+len(generated) || second.Bytes > 100_000 {
		t.Errorf("unchanged content was stored again: %+v", second)
	}
	if got := f.read(t, second.Object, "v2")["attempts/anna-1/raw.json"]; got != `{"more":1}` {
		t.Errorf("got %q", got)
	}
	f.valid(t)
	if left := tree(t, f.into); len(left) > 0 {
		t.Errorf("%d files remain", len(left))
	}
}

// TestVersionOfEachActivity stores all activities of a job, in objects of their own.
func TestVersionOfEachActivity(t *testing.T) {
	f := newVersionFixture(t)
	quiz := f.store(t)
	f.Activity = "7"
	essay := f.store(t)
	if quiz.Object == essay.Object || essay.Version != "v1" {
		t.Errorf("got %+v and %+v", quiz, essay)
	}
	if _, ok := f.read(t, essay.Object, "v1")["submissions/_con.txt"]; !ok {
		t.Error("a file of the activity is missing")
	}
	f.valid(t)
	f.Activity = "99"
	if _, err := StoreVersion(t.Context(), f.VersionInput); !errors.Is(err, ErrInput) {
		t.Errorf("got %v", err)
	}
}

// TestSameVersion stores the same version in two roots: all bytes are equal.
func TestSameVersion(t *testing.T) {
	a, b := newVersionFixture(t), newVersionFixture(t)
	b.fixture = variant(t)
	b.Facts, b.Files, b.Gathered = b.fixture.Facts, b.fixture.Files, b.fixture.Gathered
	if diff := cmp.Diff(a.store(t), b.store(t)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(tree(t, a.dir), tree(t, b.dir)); diff != "" {
		t.Errorf("the objects differ: %.3000s", diff)
	}
}

// TestVersionOfChangedFile refuses a file that differs from the ledger. The object does not exist then.
func TestVersionOfChangedFile(t *testing.T) {
	for name, text := range map[string]string{"flipped byte": "<p>Answer</p>\n", "longer": "<p>answer</p>\nx"} {
		f := newVersionFixture(t)
		f.write(t, "12/attempts/anna-1/attempt.html", text)
		if v, err := StoreVersion(t.Context(), f.VersionInput); v != nil || !errors.Is(err, ErrChanged) {
			t.Errorf("%s: got %+v, %v", name, v, err)
		}
		if found, err := f.Root.Has(ObjectID(f.Facts.Source, "12")); found || err != nil {
			t.Errorf("%s: the object exists, %v", name, err)
		}
		f.write(t, "12/attempts/anna-1/attempt.html", texts["12/attempts/anna-1/attempt.html"])
		f.store(t)
		f.valid(t)
	}
}

// TestVersionAfterCrash has what a crash leaves: metadata of another attempt, and the stage of one.
func TestVersionAfterCrash(t *testing.T) {
	f := newVersionFixture(t)
	for _, dir := range []string{filepath.Join(f.into, workDir, "metadata"),
		filepath.Join(f.dir, "extensions", "stagepost-staging", f.Stage)} {
		if err := errors.Join(os.MkdirAll(dir, 0o700),
			os.WriteFile(filepath.Join(dir, "job.json"), []byte("half"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	f.store(t)
	f.valid(t)
	if left := tree(t, f.into); len(left) > 0 {
		t.Errorf("%d files remain", len(left))
	}
}

func TestObjectID(t *testing.T) {
	for want, f := range map[string]source.Facts{
		"urn:stagepost:moodle:m.example.org:12%3Aa:cm":        {Kind: "moodle", URL: "https://m.example.org/"},
		"urn:stagepost:directory:file%3A%2F%2F%2Fx:12%3Aa:cm": {Kind: "directory", URL: "file:///x"},
	} {
		if got := ObjectID(f, "12:a"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
