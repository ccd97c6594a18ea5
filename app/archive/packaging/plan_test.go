package packaging

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/format/bagit"
)

// TestPlan has names that need care, in one activity.
func TestPlan(t *testing.T) {
	var files []File
	for i, name := range []string{"a", "a", "A", "a/b", "metadata/job.json", "README.txt", "readme.TXT",
		"gr\u00f6\u00dfe", "gro\u0308\u00dfe", "100%25", "trailing. ", "NUL", "com1.txt", "com0.txt",
		"~", "x\r\ny", "a:b", "a_b"} {
		files = append(files, File{Path: fmt.Sprint(i + 10), Name: name})
	}
	var got []string
	for _, e := range plan([]Activity{{}}, files) {
		got = append(got, e.name)
	}
	want := []string{"100_25", "A-3", "README-2.txt", "_", "_NUL", "_com1.txt", "a", "a-2", "a-4/b", "a_b", "a_b-2",
		"com0.txt", "gr\u00f6\u00dfe", "gr\u00f6\u00dfe-2", "metadata/job-2.json", "readme-3.TXT", "trailing", "x__y"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	deep := File{Path: strings.Repeat("deep folder/", 90) + "x.txt"}
	if e := plan([]Activity{{}}, []File{deep}); e[0].name != "long-names/c09d92c6d0d11706/x.txt" {
		t.Errorf("got %q", e[0].name)
	}
	slices.Reverse(files)
	var again []string
	for _, e := range plan([]Activity{{}}, files) {
		again = append(again, e.name)
	}
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("another order has other names: %s", diff)
	}
}

// FuzzPlan gives names of other people to files: all names of the package are different on every file system, and can
// be in a manifest as they are.
func FuzzPlan(f *testing.F) {
	f.Add("a\nA\na/b\n\xff\nCON\n~\n%", true)
	f.Add("metadata/x\nMETADATA\nmetadata/job.json", false)
	f.Fuzz(func(t *testing.T, text string, two bool) {
		activities := []Activity{{Activity: source.Activity{ID: "1", Module: "quiz"}}}
		if two {
			activities = append(activities, Activity{Activity: source.Activity{ID: "2", Module: "metadata"}})
		}
		var files []File
		for i, name := range strings.Split(text, "\n") {
			if fs.ValidPath(name) && name != "." {
				files = append(files, File{Path: fmt.Sprint(i), Name: name, Activity: activities[i%len(activities)].ID})
			}
		}
		w, err := bagit.NewWriter(func(string) (io.WriteCloser, error) { return discard{}, nil }, bagit.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		seen, dirs := map[string]bool{}, map[string]bool{}
		for _, name := range generated {
			seen[strings.ToLower(name)] = true
		}
		for _, e := range plan(activities, files) {
			folded := strings.ToLower(e.name)
			if seen[folded] || bagit.EncodePath(e.name) != e.name || !fs.ValidPath(e.name) {
				t.Errorf("the name %q", e.name)
			}
			seen[folded] = true
			if err := w.Add(e.name, 0, strings.Repeat("0", 64)); err != nil {
				t.Error(err)
			}
			for i, r := range folded {
				if r == '/' {
					dirs[folded[:i]] = true
				}
			}
		}
		for dir := range dirs {
			if seen[dir] {
				t.Errorf("%q is a file and a directory", dir)
			}
		}
	})
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) Close() error                { return nil }

// TestRedact has settings with secrets, and those whose names resemble them.
func TestRedact(t *testing.T) {
	r := newRedactor([]string{"s3cr3t", ""})
	got, err := r.value(map[string]any{
		"password": "x", "smtp_password": "y", "Api-Key": "z", "AccessKeyID": "k", "wsToken": 17, "secret": nil,
		"secret_file": "/run/secret", "token_enabled": true, "empty_token": "", "credentials": map[string]any{"a": 1},
		"text": "a s3cr3t b",
		"list": []any{"https://u:p@h/x", "https://h/?a=1&token=abc&b=2", "mailto:a@b", "user:p@h"},
		"keep": "https://h:8080/p@th", "number": 1.5,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"password": "***", "smtp_password": "***", "Api-Key": "***", "AccessKeyID": "***", "wsToken": "***",
		"secret":      nil,
		"secret_file": "/run/secret", "token_enabled": true, "empty_token": "", "credentials": "***",
		"text": "a *** b", "list": []any{"https://u:***@h/x", "https://h/?a=1&token=***&b=2", "mailto:a@b", "user:p@h"},
		"keep": "https://h:8080/p@th",
	}
	delete(got.(map[string]any), "number")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// FuzzRedact puts a secret anywhere in a text.
func FuzzRedact(f *testing.F) {
	f.Add("before ", " after")
	f.Add("https://user:", "@host?token=")
	f.Fuzz(func(t *testing.T, before, after string) {
		const secret = "0123456789abcdef"
		if strings.Contains(before+after, secret) {
			return
		}
		if got := newRedactor([]string{secret}).text(before + secret + after); strings.Contains(got, secret) {
			t.Errorf("got %q", got)
		}
	})
}

// TestJobURN makes UUIDs of ids (defect B22: archives need an id that is unique everywhere).
func TestJobURN(t *testing.T) {
	for id, want := range map[string]string{
		"archive_01ARZ3NDEKTSV4RRFFQ69G5FAV": "urn:uuid:01563e3a-b5d3-7676-8c61-efb99302bd5b",
		"archive_01ARZ3NDEKTSV4RRFFQ69G5FAW": "urn:uuid:01563e3a-b5d3-7676-8c61-efb99302bd5c",
		"7":                                  "urn:uuid:7902699b-e42c-8a8e-86fb-bb4501726517",
		"":                                   "urn:uuid:e3b0c442-98fc-8c14-9afb-f4c8996fb924",
	} {
		if got := JobURN(id); got != want {
			t.Errorf("%q: got %s, want %s", id, got, want)
		}
	}
}
