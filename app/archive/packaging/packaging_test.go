package packaging

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/format/bagit"
)

// TestPackage makes all containers. Each is a valid bag for our validator, and for the programs that README.txt names.
func TestPackage(t *testing.T) {
	f := newFixture(t)
	var at, total int64
	f.Progress = func(done, all int64) {
		if done < at || done > all {
			t.Errorf("progress went from %d to %d of %d", at, done, all)
		}
		at, total = done, all
	}
	p := f.build(t)
	if at != total || at < p.Bytes {
		t.Errorf("progress ended at %d of %d", at, total)
	}
	var names []string
	for _, product := range append(p.Products, p.Seal) {
		names = append(names, product.Name)
		text, err := os.ReadFile(filepath.Join(f.into, product.Name))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		long := sha512.Sum512(text)
		if hex.EncodeToString(sum[:]) != product.SHA256 || hex.EncodeToString(long[:]) != product.SHA512 ||
			int64(len(text)) != product.Size {
			t.Errorf("%s differs from its product %+v", product.Name, product)
		}
		if strings.HasSuffix(product.Name, ".sha256") {
			command(t, f.into, "sha256sum", "--strict", "-c", product.Name)
		}
	}
	base := f.Name + "."
	want := []string{base + "tar.gz", base + "tar.gz.sha256", base + "tar", base + "tar.sha256", base + "zip",
		base + "zip.sha256", base + "tagmanifest-sha512.txt"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	if got := slices.Sorted(maps.Keys(tree(t, f.into))); len(got) != len(want)+1 {
		t.Errorf("the directory has %v", got)
	}
	tar, err := os.ReadFile(filepath.Join(f.into, base+"tar"))
	if err != nil {
		t.Fatal(err)
	}
	if packed := unzip(t, filepath.Join(f.into, base+"tar.gz")); !bytes.Equal(packed, tar) {
		t.Error("the compressed tar differs from the other")
	}
	if sum := sha256.Sum256([]byte(tree(t, f.into)[base+tagManifest])); hex.EncodeToString(sum[:]) != p.Digest {
		t.Errorf("the digest of the package is %s", p.Digest)
	}
	for _, name := range []string{base + "tar", base + "zip", base + "tar.gz"} {
		r, err := bagit.Validate(t.Context(), filepath.Join(f.into, name), bagit.Options{})
		if err != nil || !r.Valid() || len(r.Warnings) > 0 || r.Files != p.Files || r.Bytes != p.Bytes {
			t.Errorf("%s: got %+v, %v", name, r, err)
		}
	}
}

// TestUnpacked unpacks by the programs of the system and follows README.txt.
func TestUnpacked(t *testing.T) {
	f := newFixture(t)
	f.build(t)
	var trees []map[string]string
	for _, args := range [][]string{{"tar", "-xzf", f.Name + ".tar.gz"}, {"unzip", "-q", f.Name + ".zip"}} {
		if _, err := exec.LookPath(args[0]); err != nil {
			t.Logf("there is no %s here", args[0])
			continue
		}
		command(t, f.into, args...)
		bag := filepath.Join(f.into, f.Name)
		for _, manifest := range []string{"manifest-sha256.txt", "tagmanifest-sha256.txt"} {
			command(t, bag, "sha256sum", "--strict", "--quiet", "-c", manifest)
		}
		command(t, bag, "sha512sum", "--strict", "--quiet", "-c", "manifest-sha512.txt")
		trees = append(trees, tree(t, bag))
		r, err := bagit.Validate(t.Context(), bag, bagit.Options{})
		if err != nil || !r.Valid() || len(r.Warnings) > 0 {
			t.Errorf("%s: got %+v, %v", args[0], r, err)
		}
		if err := os.RemoveAll(bag); err != nil {
			t.Fatal(err)
		}
	}
	if len(trees) == 2 {
		if diff := cmp.Diff(trees[0], trees[1]); diff != "" {
			t.Errorf("the containers differ: %s", diff)
		}
	}
	if len(trees) > 0 {
		checkContent(t, trees[0], f)
	}
}

func contentNames() []string {
	return []string{
		"README.txt", "bag-info.txt", "bagit.txt",
		"data/assign-7/submissions/Grüße 100_.txt", "data/assign-7/submissions/_con.txt",
		"data/assign-7/submissions/_home/line_end.txt", "data/assign-7/submissions/grüße 100_-2.TXT",
		"data/grades.csv", "data/metadata/activity.json", "data/metadata/course.json", "data/metadata/files.csv",
		"data/metadata/job.json", "data/metadata/people-2.csv", "data/metadata/people.csv",
		"data/metadata/premis.json", "data/metadata/premis.xml",
		"data/quiz-12/attempts/anna-1/attempt.html", "data/quiz-12/attempts/anna-1/raw.json",
		"data/quiz-12/backups/quiz.mbz", "data/quiz-12/empty.txt",
		"manifest-sha256.txt", "manifest-sha512.txt", "tagmanifest-sha256.txt", "tagmanifest-sha512.txt",
	}
}

// checkContent checks names and metadata.
func checkContent(t *testing.T, got map[string]string, f *fixture) {
	t.Helper()
	if diff := cmp.Diff(contentNames(), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Error(diff)
	}
	if got["data/quiz-12/backups/quiz.mbz"] != texts["12/backups/quiz.mbz"] {
		t.Error("the content of a file differs")
	}
	for name, parts := range map[string][]string{
		"bag-info.txt": {"Source-Organization: A university\n", "External-Identifier: urn:uuid:0190b2c3-",
			"External-Description: Biology I (BIO101): Final exam: part 1; Essay\n", "Bagging-Date: 2026-05-04\n",
			"Bag-Software-Agent: Stagepost 1.0.0\n", "Bag-Group-Identifier: 5\n", "Retention-Until: 2029-05-04\n",
			"Internal-Sender-Identifier: https://moodle.example.org/sub/ 12\n",
			"Fingerprint-SHA256: " + strings.Repeat("cd", 32) + "\n", "Payload-Oxum: "},
		"data/metadata/job.json": {`"ws_token": "***"`, `"password_file": "/etc/pw"`, `"Secret": "***"`,
			"9007199254740993", "https://user:***@host/path?wstoken=***&x=1", `"backup": true`, `"name": "disk"`},
		"data/metadata/activity.json": {`"folder": "quiz-12"`, `"drift": true`, "a right is missing"},
		"data/metadata/course.json":   {`"short_name": "BIO101"`},
		"data/metadata/people.csv":    {"2,anna,,,,Anna,,,A; B\n3,,,,,\"Zoë, \"\"Z\"\"\",,student,\n"},
		"data/metadata/files.csv":     {"submissions/_con.txt,submissions/con.txt,payload,7,2,19,", "token=***&id=1"},
		"data/metadata/premis.xml":    {"<eventType>capture</eventType>", "<agentName>Our Moodle</agentName>"},
		"README.txt": {"Activity:   Essay (assign, id 7)", "Not archived: no grades", "Keep until: 2029-05-04",
			"sha256sum -c manifest-sha256.txt", "bagit.py --validate", "openssl ts -verify"},
	} {
		for _, part := range parts {
			if !strings.Contains(got[name], part) {
				t.Errorf("%s lacks %q:\n%.3000s", name, part, got[name])
			}
		}
	}
	for name, text := range got {
		if strings.Contains(text, "deadbeef") || strings.Contains(text, "geheim") {
			t.Errorf("%s has a secret", name)
		}
	}
}

// TestDirectory copies the products of a bag that is no single file, and validates the copy.
func TestDirectory(t *testing.T) {
	f := newFixture(t)
	f.Containers = []Container{Directory}
	p := f.build(t)
	open, err := Opener(f.Into, f.Gathered)
	if err != nil {
		t.Fatal(err)
	}
	copied := t.TempDir()
	for _, product := range p.Products {
		r, err := open(product.Name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		sum, long := sha256.Sum256(text), sha512.Sum512(text)
		if hex.EncodeToString(sum[:]) != product.SHA256 || hex.EncodeToString(long[:]) != product.SHA512 ||
			int64(len(text)) != product.Size {
			t.Errorf("%s differs from its product", product.Name)
		}
		name := filepath.Join(copied, product.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := bagit.Validate(t.Context(), filepath.Join(copied, f.Name), bagit.Options{})
	if err != nil || !r.Valid() || len(r.Warnings) > 0 || r.Files != p.Files {
		t.Errorf("got %+v, %v", r, err)
	}
	checkContent(t, tree(t, filepath.Join(copied, f.Name)), f)
	for name := range tree(t, f.into) {
		if strings.HasSuffix(name, ".mbz") {
			t.Errorf("the gathered file %s was copied", name)
		}
	}
	tar := newFixture(t)
	tar.Containers = []Container{Tar}
	if got := tar.build(t); got.Digest != p.Digest {
		t.Error("the digest of the package depends on the container")
	}
	if diff := cmp.Diff(p, f.build(t)); diff != "" {
		t.Errorf("again: %s", diff)
	}
	if text, err := json.Marshal(p); err != nil || len(text) > 1000 {
		t.Errorf("the JSON has %d bytes, %v", len(text), err)
	}
	if _, err := Opener(root(t, t.TempDir()), f.Gathered); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no package: got %v", err)
	}
}

// TestOneActivity has its files in data/ itself.
func TestOneActivity(t *testing.T) {
	f := newFixture(t)
	f.Facts.Activities = f.Facts.Activities[:1]
	f.Facts.Events = nil
	f.Files = slices.DeleteFunc(f.Files, func(f File) bool { return f.Activity == "7" })
	f.Containers = []Container{Tar}
	f.build(t)
	command(t, f.into, "tar", "-xf", f.Name+".tar")
	if _, err := os.Stat(filepath.Join(f.into, f.Name, "data", "backups", "quiz.mbz")); err != nil {
		t.Error(err)
	}
}

// TestManyActivities has so many that their names would not fit a line of bag-info.txt.
func TestManyActivities(t *testing.T) {
	f := newFixture(t)
	f.Files, f.Facts.Events, f.Facts.Activities = nil, nil, nil
	for i := range 1000 {
		f.Facts.Activities = append(f.Facts.Activities, Activity{Activity: source.Activity{ID: fmt.Sprintf("%04d", i),
			Module: "quiz", Name: strings.Repeat("long name ", 20)}})
	}
	f.Containers = []Container{Zip}
	f.build(t)
	r, err := bagit.Validate(t.Context(), filepath.Join(f.into, f.Name+".zip"), bagit.Options{})
	if err != nil || !r.Valid() || len(r.Warnings) > 0 {
		t.Errorf("got %+v, %v", r, err)
	}
	if got := description(&f.Facts); !strings.HasSuffix(got, "; and 980 more") {
		t.Errorf("got %.200q", got)
	}
}

// TestChangedFiles has gathered files that differ from the ledger. Nothing is finished then.
func TestChangedFiles(t *testing.T) {
	const path = "12/attempts/anna-1/attempt.html"
	for name, change := range map[string]func(t *testing.T, f *fixture){
		"control":      func(*testing.T, *fixture) {},
		"flipped byte": func(t *testing.T, f *fixture) { f.write(t, path, "<p>Answer</p>\n") },
		"longer":       func(t *testing.T, f *fixture) { f.write(t, path, texts[path]+"x") },
		"shorter":      func(t *testing.T, f *fixture) { f.write(t, path, "<") },
		"missing":      func(t *testing.T, f *fixture) { remove(t, filepath.Join(f.gathered, path)) },
		"link": func(t *testing.T, f *fixture) {
			name := filepath.Join(f.gathered, path)
			if err := errors.Join(os.Rename(name, name+"2"), os.Symlink("attempt.html2", name)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			change(t, f)
			p, err := Build(t.Context(), f.Input)
			if name == "control" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if p != nil || !errors.Is(err, ErrChanged) {
				t.Errorf("got %+v, %v", p, err)
			}
			if left := tree(t, f.into); len(left) > 0 {
				t.Errorf("%d files remain", len(left))
			}
			remove(t, filepath.Join(f.gathered, path))
			f.write(t, path, texts[path]) // it is gathered again
			if _, err := Build(t.Context(), f.Input); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestZipHeaders has sizes and checksums before the content, as readers of streams need them.
func TestZipHeaders(t *testing.T) {
	f := newFixture(t)
	f.Containers = []Container{Zip}
	f.build(t)
	z, err := zip.OpenReader(filepath.Join(f.into, f.Name+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for _, one := range z.File {
		if one.Flags != 0x800 || one.Method != zip.Store || !one.Modified.Equal(epoch) || one.Mode() != 0o644 {
			t.Errorf("%s: flags %x, method %d, %v, %v", one.Name, one.Flags, one.Method, one.Modified, one.Mode())
		}
	}
	if h := zipHeader(member{size: 5 << 30}); h.Flags != 0x808 || h.ReaderVersion != 45 {
		t.Errorf("5 GiB: got %+v", h)
	}
	command(t, f.into, "unzip", "-tq", f.Name+".zip")
}

func remove(t testing.TB, name string) {
	t.Helper()
	if err := os.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
}

// TestInvalidInput refuses what no package can be made of.
func TestInvalidInput(t *testing.T) {
	for name, spoil := range map[string]func(*Input){
		"no name":            func(in *Input) { in.Name = "" },
		"a path":             func(in *Input) { in.Name = "a/b" },
		"a hidden name":      func(in *Input) { in.Name = ".a" },
		"a long name":        func(in *Input) { in.Name = strings.Repeat("a", 171) },
		"no container":       func(in *Input) { in.Containers = nil },
		"unknown container":  func(in *Input) { in.Containers = []Container{"rar"} },
		"container twice":    func(in *Input) { in.Containers = []Container{Tar, Tar} },
		"no job":             func(in *Input) { in.Facts.Job.ID = "" },
		"no time":            func(in *Input) { in.Facts.Job.Packaged = time.Time{} },
		"no software":        func(in *Input) { in.Facts.Software.Name = "" },
		"activity twice":     func(in *Input) { in.Facts.Activities[0].ID = "7" },
		"file twice":         func(in *Input) { in.Files[1].Path = in.Files[0].Path },
		"unknown activity":   func(in *Input) { in.Files[0].Activity = "99" },
		"unknown role":       func(in *Input) { in.Files[0].Role = "" },
		"a path that leaves": func(in *Input) { in.Files[0].Path = "../x" },
		"a name that leaves": func(in *Input) { in.Files[0].Name = "/x" },
		"upper case digest":  func(in *Input) { in.Files[0].SHA256 = strings.ToUpper(in.Files[0].SHA256) },
		"no digest":          func(in *Input) { in.Files[0].SHA512 = "" },
		"event without time": func(in *Input) { in.Facts.Events[0].Time = time.Time{} },
		"event of none":      func(in *Input) { in.Facts.Events[0].Activity = "99" },
		"settings":           func(in *Input) { in.Facts.Job.Settings = func() {} },
	} {
		f := newFixture(t)
		spoil(&f.Input)
		if p, err := Build(t.Context(), f.Input); p != nil || !errors.Is(err, ErrInput) {
			t.Errorf("%s: got %+v, %v", name, p, err)
		}
	}
}

// TestAgain returns the finished package, makes it again if a product is missing, and replaces that of another input.
func TestAgain(t *testing.T) {
	f := newFixture(t)
	first := f.build(t)
	before := tree(t, f.into)
	remove(t, f.gathered) // the control: nothing is read again
	if diff := cmp.Diff(first, f.build(t)); diff != "" {
		t.Error(diff)
	}
	for path, text := range texts {
		f.write(t, path, text)
	}
	remove(t, filepath.Join(f.into, f.Name+".zip"))
	f.Gathered = root(t, f.gathered)
	if diff := cmp.Diff(first, f.build(t)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, tree(t, f.into)); diff != "" {
		t.Error(diff)
	}
	f.Name = "another"
	if p := f.build(t); p.Digest == first.Digest {
		t.Error("another name has the same digest")
	}
	for name := range tree(t, f.into) {
		if !strings.HasPrefix(name, "another.") && name != packageFile {
			t.Errorf("%s remained", name)
		}
	}
}

func TestCancelled(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Build(ctx, f.Input); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	f.build(t)
}
