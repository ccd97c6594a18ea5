package packaging

import (
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
)

// fixture is an input whose directories are new for each test.
type fixture struct {
	Input
	gathered, into string
}

// texts are the gathered files: path to content.
var texts = map[string]string{
	"12/attempts/anna-1/attempt.html":    "<p>answer</p>\n",
	"12/attempts/anna-1/raw.json":        "{}",
	"12/backups/quiz.mbz":                strings.Repeat("backup", 100_000),
	"12/empty.txt":                       "",
	"7/submissions/Grüße 100%.txt":       "text",
	"7/submissions/grüße 100_.TXT":       "other text",
	"7/submissions/con.txt":              "a device on Windows",
	"7/submissions/~home /line\nend.txt": "strange",
	"course/metadata/people.csv":         "not ours",
	"course/grades.csv":                  "a,b\n",
}

func fileOf(path, text string) File {
	s256, s512 := sha256.Sum256([]byte(text)), sha512.Sum512([]byte(text))
	activity, name, _ := strings.Cut(path, "/")
	f := File{Path: path, Name: name, Size: int64(len(text)), SHA256: hex.EncodeToString(s256[:]),
		SHA512: hex.EncodeToString(s512[:]), Activity: activity, Role: Payload,
		Origin: source.Origin{URL: "https://moodle.example.org/x?token=deadbeef&id=1", Type: "text/plain", Person: "2",
			Modified: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}
	if activity == "course" {
		f.Activity, f.Role = "", Metadata
	}
	if strings.Contains(path, "backups/") {
		f.Role = Backup
	}
	return f
}

func facts() Facts {
	at := time.Date(2026, 5, 4, 12, 30, 0, 0, time.UTC)
	return Facts{
		Job: Job{ID: "archive-01", Identifier: "urn:uuid:0190b2c3-0000-7000-8000-000000000001", Owner: "ops",
			OwnerURI: "mailto:ops@example.org", Trigger: "manual", Organization: "A university",
			Requested: at.Add(-time.Hour), Started: at.Add(-time.Minute),
			Packaged: at, RetainUntil: at.AddDate(3, 0, 0),
			Settings: map[string]any{"backup": true, "ws_token": "deadbeef", "password_file": "/etc/pw",
				"nested": []any{map[string]any{"Secret": "x", "large": int64(9007199254740993)}},
				"url":    "https://user:geheim@host/path?wstoken=abc&x=1"}},
		Source: source.Facts{Kind: "moodle", Name: "Our Moodle", URL: "https://moodle.example.org/sub/",
			Version: "4.3"},
		Course: source.Course{ID: "5", Name: "Biology\nI", ShortName: "BIO101", Start: at.AddDate(0, -3, 0)},
		Activities: []Activity{
			{Activity: source.Activity{Course: "5", ID: "12", Module: "quiz", Name: "Final exam: part 1"},
				Fingerprint: strings.Repeat("ab", 32)},
			{Activity: source.Activity{Course: "5", ID: "7", Module: "assign", Name: "Essay", Modified: at},
				Fingerprint: strings.Repeat("cd", 32), Drift: true,
				Warnings: []string{"no grades: a right is missing"}},
		},
		People: []source.Person{{ID: "3", Name: "Zoë, \"Z\"", Roles: []string{"student"}},
			{ID: "2", Name: "Anna", Username: "anna", Groups: []string{"A", "B"}}},
		Locations: []Location{{Name: "s3-a", Kind: "s3", Address: "https://s3.example.org/bucket"},
			{Name: "disk", Kind: "directory"}},
		Software: Software{Name: "Stagepost", Version: "1.0.0", Go: "go1.26"},
		Events: []Event{{Type: "capture", Time: at.Add(-time.Minute), Activity: "7", Outcome: "warning"},
			{Type: "capture", Time: at.Add(-time.Minute), Activity: "12", Outcome: "success",
				Note: "the token deadbeef was used"}},
		Secrets: []string{"deadbeef"},
	}
}

func root(t testing.TB, dir string) *os.Root {
	t.Helper()
	r, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// scratch makes a directory, in memory if the system has such a directory: tests make tens of thousands of files.
func scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "stagepost-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { remove(t, dir) })
	return dir
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{gathered: scratch(t), into: scratch(t)}
	f.Input = Input{Name: "archive-BIO101-5_2026-05-04", Facts: facts(), Gathered: root(t, f.gathered),
		Into: root(t, f.into), Containers: []Container{TarGzip, Tar, Zip}}
	for _, path := range slices.Sorted(maps.Keys(texts)) {
		f.write(t, path, texts[path])
		f.Files = append(f.Files, fileOf(path, texts[path]))
	}
	return f
}

func (f *fixture) write(t testing.TB, path, text string) {
	t.Helper()
	name := filepath.Join(f.gathered, filepath.FromSlash(path))
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) build(t testing.TB) *Package {
	t.Helper()
	p, err := Build(t.Context(), f.Input)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// tree reads all files below a directory.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		all[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func unzip(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func command(t testing.TB, dir string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(args[0]); err != nil {
		t.Skipf("there is no %s here", args[0])
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", args, err, out)
	}
}
