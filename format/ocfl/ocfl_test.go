package ocfl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var testTime = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

const testID = "ark:/99999/fk4test1"

func text(path, content string) File {
	return File{Path: path, Size: int64(len(content)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(content)), nil
	}}
}

func version(message string, files ...File) Version {
	return Version{Created: testTime, User: User{Name: "Ingest", Address: "mailto:ingest@example.org"},
		Message: message, Files: files}
}

func newRoot(t testing.TB) (*Root, string) {
	t.Helper()
	dir := t.TempDir()
	r, err := InitRoot(dir, Layout{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r, dir
}

func add(t testing.TB, r *Root, id string, v Version, o Options) Added {
	t.Helper()
	if o.Stage == "" {
		o.Stage = "job1.1"
	}
	added, err := r.AddVersion(t.Context(), id, v, o)
	if err != nil {
		t.Fatalf("AddVersion: %v", err)
	}
	return added
}

// mustValidate requires no errors, no warnings and no leftovers.
func mustValidate(t testing.TB, dir string) *Report {
	t.Helper()
	report, err := Validate(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range append(report.Errors, report.Warnings...) {
		t.Errorf("validate: %s", p)
	}
	if _, err := os.Lstat(filepath.Join(dir, stagingDir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("staging directory is left over (%v)", err)
	}
	return report
}

func read(t testing.TB, o *Object, version, logical string) string {
	t.Helper()
	f, err := o.Open(version, logical)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestLayoutPath(t *testing.T) {
	// The first two are the examples of the extension's own text.
	short := Layout{LayoutExtension, MD5, 2, 15, true}
	flat := Layout{LayoutExtension, SHA256, 0, 0, false}
	for _, test := range []struct {
		layout   Layout
		id, want string
	}{
		{DefaultLayout(), "object-01", "3c0/ff4/240/3c0ff4240c1e116dba14c7627f2319b58aa3d77606d0d90dfc6161608ac987d4"},
		{DefaultLayout(), "..hor/rib:le-$id",
			"487/326/d8c/487326d8c2a3c0b885e23da1469b4d6671fd4e76978924b4443e9e3c316cda6d"},
		{short, "object-01", "ff/75/53/44/92/48/5e/ab/b3/9f/86/35/67/28/88"},
		{flat, "object-01", "3c0ff4240c1e116dba14c7627f2319b58aa3d77606d0d90dfc6161608ac987d4"},
	} {
		if err := test.layout.validate(); err != nil {
			t.Errorf("%+v: %v", test.layout, err)
		}
		got := test.layout.Path(test.id)
		if !strings.HasPrefix(got, test.want) {
			t.Errorf("Path(%q) = %q, want %q", test.id, got, test.want)
		}
	}
}

func TestLayoutRefused(t *testing.T) {
	for _, l := range []Layout{
		{"0002-flat-direct-storage-layout", SHA256, 3, 3, false},
		{LayoutExtension, "crc32", 3, 3, false},
		{LayoutExtension, SHA256, 3, 0, false},
		{LayoutExtension, SHA256, 33, 1, false},
		{LayoutExtension, SHA256, 22, 3, false},
		{LayoutExtension, MD5, 4, 8, true},
	} {
		if err := l.validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: got %v, want ErrInvalid", l, err)
		}
	}
}

func TestInitRoot(t *testing.T) {
	r, dir := newRoot(t)
	mustValidate(t, dir)
	again, err := InitRoot(dir, DefaultLayout())
	if err != nil {
		t.Fatalf("InitRoot of a root: %v", err)
	}
	again.Close()
	if _, err := InitRoot(dir, Layout{DigestAlgorithm: SHA512, TupleSize: 2, NumberOfTuples: 2}); !errors.Is(err,
		ErrConflict) {
		t.Errorf("another layout: got %v, want ErrConflict", err)
	}
	if got := r.Layout(); got != DefaultLayout() {
		t.Errorf("layout %+v", got)
	}

	full := t.TempDir()
	write(t, full, "letter.txt", "x")
	if _, err := InitRoot(full, Layout{}); !errors.Is(err, ErrConflict) {
		t.Errorf("a directory with other files: got %v, want ErrConflict", err)
	}

	// A crash before the declaration leaves the rest; the next call completes it.
	half := t.TempDir()
	write(t, half, layoutFile, "{")
	write(t, half, "ocfl_1.1.part", "oc")
	r, err = InitRoot(half, Layout{})
	if err != nil {
		t.Fatalf("half root: %v", err)
	}
	r.Close()
	mustValidate(t, half)
}

func TestOpenRootRefuses(t *testing.T) {
	for name, change := range map[string]func(dir string){
		"no declaration":    func(dir string) { os.Remove(filepath.Join(dir, "0=ocfl_1.1")) },
		"wrong declaration": func(dir string) { write(t, dir, "0=ocfl_1.1", "ocfl_1.1") },
		"other layout": func(dir string) {
			write(t, dir, layoutFile,
				`{"extension":"0002-flat-direct-storage-layout"}`)
		},
		"no layout": func(dir string) { os.Remove(filepath.Join(dir, layoutFile)) },
		"bad config": func(dir string) {
			write(t, dir, "extensions/"+LayoutExtension+"/config.json", `{"tupleSize":99}`)
		},
	} {
		_, dir := newRoot(t)
		change(dir)
		if r, err := OpenRoot(dir); err == nil {
			r.Close()
			t.Errorf("%s: opened", name)
		}
	}
}

func write(t testing.TB, dir, name, content string) {
	t.Helper()
	full := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestAddVersions(t *testing.T) {
	r, dir := newRoot(t)
	got := add(t, r, testID, version("first", text("a.txt", "A"), text("sub/b.txt", "B"), text("copy/of/a.txt", "A")),
		Options{Fixity: []string{MD5, SHA256}})
	want := Added{Version: "v1", Created: true, Stored: 2, Bytes: 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("first (-want +got):\n%s", diff)
	}
	mustValidate(t, dir)

	got = add(t, r, testID, version("second", text("renamed.txt", "A"), text("c.txt", "C")),
		Options{Fixity: []string{MD5}})
	want = Added{Version: "v2", Created: true, Stored: 1, Bytes: 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("second (-want +got):\n%s", diff)
	}
	add(t, r, testID, version("nothing is left"), Options{})
	report := mustValidate(t, dir)
	if report.Objects != 1 || report.Files != 3 {
		t.Errorf("report: %+v", report)
	}

	o, err := r.Object(testID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"v1", "v2", "v3"}, o.Versions()); diff != "" {
		t.Error(diff)
	}
	if got := read(t, o, "v2", "renamed.txt") + read(t, o, "v1", "sub/b.txt") +
		read(t, o, "v1", "copy/of/a.txt"); got != "ABA" {
		t.Errorf("contents %q", got)
	}
	files, err := o.Files("v2")
	if err != nil {
		t.Fatal(err)
	}
	wantFiles := []StoredFile{
		{"c.txt", digestOf(SHA512, []byte("C")), "v2/content/c.txt"},
		{"renamed.txt", digestOf(SHA512, []byte("A")), "v1/content/a.txt"},
	}
	if diff := cmp.Diff(wantFiles, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	block := o.Inventory().Versions["v2"]
	if block.Created != "2026-03-04T05:06:07Z" || block.Message != "second" || *block.User != version("").User {
		t.Errorf("block %+v", block)
	}
	if _, err := o.Open("", "c.txt"); !errors.Is(err, ErrNotFound) {
		t.Errorf("file that v3 does not have: %v", err)
	}
	if _, err := o.Files("v9"); !errors.Is(err, ErrNotFound) {
		t.Errorf("an unknown version: %v", err)
	}
	if _, err := r.Object("other"); !errors.Is(err, ErrNotFound) {
		t.Errorf("an unknown object: %v", err)
	}
}

func TestStatedDigestSkipsReading(t *testing.T) {
	r, dir := newRoot(t)
	add(t, r, testID, version("1", text("a", "A")), Options{})
	known := File{Path: "b", Digest: strings.ToUpper(digestOf(SHA512, []byte("A"))),
		Open: func() (io.ReadCloser, error) {
			return nil, errors.New("was opened")
		}}
	got := add(t, r, testID, version("2", known), Options{})
	if got.Stored != 0 {
		t.Errorf("stored %d", got.Stored)
	}
	mustValidate(t, dir)
	// Control: content the object does not have is opened.
	known.Digest = digestOf(SHA512, []byte("Z"))
	if _, err := r.AddVersion(t.Context(), testID, version("3", known), Options{Stage: "s"}); err == nil ||
		!strings.Contains(err.Error(), "was opened") {
		t.Errorf("got %v, want the error of Open", err)
	}
	mustValidate(t, dir)
}

func TestAddVersionRefuses(t *testing.T) {
	r, dir := newRoot(t)
	add(t, r, testID, version("1", text("a", "A")), Options{})
	wrongSize, wrongDigest := text("f", "four"), text("f", "four")
	wrongSize.Size = 5
	wrongDigest.Digest = digestOf(SHA512, []byte("five"))
	badForm := text("f", "four")
	badForm.Digest = "abc"
	noOpen := File{Path: "f"}
	other := "v7"
	for name, test := range map[string]struct {
		id   string
		v    Version
		o    Options
		want error
	}{
		"dots":         {testID, version("", text("a/../../b", "")), Options{Stage: "s"}, ErrInvalid},
		"absolute":     {testID, version("", text("/etc/passwd", "")), Options{Stage: "s"}, ErrInvalid},
		"empty path":   {testID, version("", text("", "")), Options{Stage: "s"}, ErrInvalid},
		"NUL":          {testID, version("", text("a\x00b", "")), Options{Stage: "s"}, ErrInvalid},
		"not UTF-8":    {testID, version("", text("a\xff", "")), Options{Stage: "s"}, ErrInvalid},
		"twice":        {testID, version("", text("a", ""), text("a", "")), Options{Stage: "s"}, ErrInvalid},
		"file and dir": {testID, version("", text("a/b", ""), text("a", "")), Options{Stage: "s"}, ErrInvalid},
		"dir and file": {testID, version("", text("a", ""), text("a/b/c", "")), Options{Stage: "s"}, ErrInvalid},
		"no open":      {testID, version("", noOpen), Options{Stage: "s"}, ErrInvalid},
		"digest form":  {testID, version("", badForm), Options{Stage: "s"}, ErrInvalid},
		"empty id":     {"", version(""), Options{Stage: "s"}, ErrInvalid},
		"stage path":   {testID, version(""), Options{Stage: "../x"}, ErrInvalid},
		"no stage":     {testID, version(""), Options{}, ErrInvalid},
		"key of lines": {testID, version(""), Options{Stage: "s", Key: "a\nb"}, ErrInvalid},
		"fixity":       {testID, version(""), Options{Stage: "s", Fixity: []string{"crc"}}, ErrInvalid},
		"no time":      {testID, Version{}, Options{Stage: "s"}, ErrInvalid},
		"size":         {testID, version("", wrongSize), Options{Stage: "s"}, ErrDigest},
		"digest":       {testID, version("", wrongDigest), Options{Stage: "s"}, ErrDigest},
		"head":         {testID, version("", text("x", "y")), Options{Stage: "s", ExpectHead: &other}, ErrConflict},
		"new head":     {"new", version("", text("x", "y")), Options{Stage: "s", ExpectHead: &other}, ErrConflict},
	} {
		if _, err := r.AddVersion(t.Context(), test.id, test.v, test.o); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
	report := mustValidate(t, dir)
	if report.Objects != 1 {
		t.Errorf("%d objects", report.Objects)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.AddVersion(cancelled, "new", version("", text("x", "y")), Options{Stage: "s"}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	mustValidate(t, dir)
}

func TestExpectHead(t *testing.T) {
	r, _ := newRoot(t)
	none, v1 := "", "v1"
	add(t, r, testID, version("1", text("a", "A")), Options{ExpectHead: &none})
	if _, err := r.AddVersion(t.Context(), testID, version("1", text("a", "A")),
		Options{Stage: "s", ExpectHead: &none}); !errors.Is(err, ErrConflict) {
		t.Errorf("object exists: got %v, want ErrConflict", err)
	}
	if got := add(t, r, testID, version("2", text("a", "B")), Options{ExpectHead: &v1}); got.Version != "v2" {
		t.Errorf("got %s", got.Version)
	}
}

func TestKeyMakesIdempotent(t *testing.T) {
	r, dir := newRoot(t)
	o := Options{Stage: "s1", Key: "ing_01J/store"}
	first := add(t, r, testID, version("load", text("a", "A")), o)
	add(t, r, testID, version("another", text("a", "B")), Options{Stage: "s2", Key: "ing_02"})
	none := ""
	again := add(t, r, testID, version("load", text("a", "A")), Options{Stage: "s3", Key: o.Key, ExpectHead: &none})
	if again.Version != first.Version || again.Created || !first.Created {
		t.Errorf("first %+v, again %+v", first, again)
	}
	obj, err := r.Object(testID)
	if err != nil {
		t.Fatal(err)
	}
	if obj.Head() != "v2" {
		t.Errorf("head %s, want v2", obj.Head())
	}
	block := obj.Inventory().Versions["v1"]
	if block.Key() != o.Key || block.Text() != "load" {
		t.Errorf("key %q, text %q", block.Key(), block.Text())
	}
	for name, v := range map[string]Version{
		"other path":  version("load", text("b", "A")),
		"more files":  version("load", text("a", "A"), text("b", "A")),
		"other bytes": version("load", File{Path: "a", Digest: digestOf(SHA512, []byte("X")), Open: text("", "").Open}),
	} {
		if _, err := r.AddVersion(t.Context(), testID, v, o); !errors.Is(err, ErrConflict) {
			t.Errorf("%s: got %v, want ErrConflict", name, err)
		}
	}
	// Control: without a key the same call adds a version.
	if got := add(t, r, testID, version("load", text("a", "A")), Options{}); got.Version != "v3" {
		t.Errorf("without key: %s", got.Version)
	}
	mustValidate(t, dir)
}

func TestAwkwardPaths(t *testing.T) {
	r, dir := newRoot(t)
	long := strings.Repeat("x", 250)
	names := []string{"100% Ä/ö ü.txt", "new\nline", "dot.", "con:trol", `back\slash`, long, "_by-digest/x", "~tilde",
		"a/-rf", "🐎"}
	var files []File
	for i, name := range names {
		files = append(files, text(name, fmt.Sprint("content", i)))
	}
	add(t, r, "..hor/rib:le-$id\t", version("x", files...), Options{})
	report, err := Validate(t.Context(), dir)
	if err != nil || !report.Valid() {
		t.Fatalf("%v %v", err, report.Err())
	}
	o, err := r.Object("..hor/rib:le-$id\t")
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		if got, want := read(t, o, "", name), fmt.Sprint("content", i); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestVerifyVersion(t *testing.T) {
	r, dir := newRoot(t)
	add(t, r, testID, version("1", text("a", "AAAA"), text("b", "BBBB"), text("c", "AAAA")),
		Options{Fixity: []string{MD5}})
	got, err := r.VerifyVersion(t.Context(), testID, "")
	if want := (Verified{Files: 3, Read: 2, Bytes: 8}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	write(t, dir, r.Path(testID)+"/v1/content/a", "AAAB")
	if _, err := r.VerifyVersion(t.Context(), testID, "v1"); !errors.Is(err, ErrDigest) {
		t.Errorf("flipped: got %v, want ErrDigest", err)
	}
	os.Remove(filepath.Join(dir, r.Path(testID), "v1/content/b"))
	if _, err := r.VerifyVersion(t.Context(), testID, "v1"); !errors.Is(err, ErrCorrupt) || !errors.Is(err, ErrDigest) {
		t.Errorf("missing: got %v, want ErrCorrupt beside ErrDigest", err)
	}
	if _, err := r.VerifyVersion(t.Context(), testID, "v2"); !errors.Is(err, ErrNotFound) {
		t.Errorf("no version: %v", err)
	}
}

// TestOnlyRegularFilesAreOpened: a named pipe instead of a file would block a reader indefinitely.
func TestOnlyRegularFilesAreOpened(t *testing.T) {
	r, dir := newRoot(t)
	add(t, r, testID, version("1", text("a", "A")), Options{})
	content := filepath.Join(dir, r.Path(testID), "v1/content/a")
	target := filepath.Join(dir, r.Path(testID), "v1/content/b")
	if err := os.Rename(content, target); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("b", content); err != nil {
		t.Fatal(err)
	}
	if _, err := r.VerifyVersion(t.Context(), testID, ""); !errors.Is(err, ErrCorrupt) {
		t.Errorf("symbolic link: got %v, want ErrCorrupt", err)
	}
	o, err := r.Object(testID)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := o.Open("", "a"); err == nil {
		f.Close()
		t.Error("symbolic link was opened")
	}
}

func TestSourceError(t *testing.T) {
	r, dir := newRoot(t)
	broken := errors.New("connection reset")
	files := []File{text("a", "A"), {Path: "b", Size: -1, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), errReader{broken})), nil
	}}}
	if _, err := r.AddVersion(t.Context(), testID, version("", files...), Options{Stage: "s"}); !errors.Is(err,
		broken) {
		t.Errorf("got %v", err)
	}
	report := mustValidate(t, dir)
	if report.Objects != 0 {
		t.Errorf("%d objects", report.Objects)
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestPaddedObjectKeepsItsStyle(t *testing.T) {
	inv := &Inventory{Head: "v009"}
	if got, err := inv.nextVersion(); got != "v010" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	inv.Head = "v099"
	if got, err := inv.nextVersion(); err == nil {
		t.Errorf("after v099: %q", got)
	}
}
