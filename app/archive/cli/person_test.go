package archivecli

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// packageOf makes a package of files in a directory: tar.gz, tar or zip by its name. Names are in the order given.
func packageOf(t *testing.T, name string, files [][2]string) {
	t.Helper()
	var out bytes.Buffer
	if strings.HasSuffix(name, ".zip") {
		z := zip.NewWriter(&out)
		for _, f := range files {
			w, err := z.Create(f[0])
			must(t, err)
			_, err = io.WriteString(w, f[1])
			must(t, err)
		}
		must(t, z.Close())
	} else {
		var to io.WriteCloser = nopCloser{&out}
		if strings.HasSuffix(name, ".gz") {
			to = gzip.NewWriter(&out)
		}
		w := tar.NewWriter(to)
		for _, f := range files {
			must(t, w.WriteHeader(&tar.Header{Name: f[0], Size: int64(len(f[1])), Mode: 0o644}))
			_, err := io.WriteString(w, f[1])
			must(t, err)
		}
		must(t, w.Close())
		must(t, to.Close())
	}
	must(t, os.WriteFile(name, out.Bytes(), 0o600))
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// TestPersonExport: the files of the person, and only these, are taken out of each kind of package, with a manifest;
// what is not of one person is named, if the person took part in its activity. A file that is damaged or missing is an
// error.
func TestPersonExport(t *testing.T) {
	sum := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	list := "path,original_name,role,activity,person,size,sha256\n" +
		"quiz/a.html,,payload,1,19,4," + sum("mine") + "\n" +
		"quiz/b.html,,payload,1,20,6," + sum("others") + "\n" +
		"quiz/c.html,,payload,1,,3," + sum("all") + "\n"
	good := [][2]string{
		{"exam/data/quiz/a.html", "mine"}, {"exam/data/quiz/b.html", "others"}, {"exam/data/quiz/c.html", "all"},
		{"exam/data/metadata/files.csv", list},
	}
	for _, name := range []string{"exam.tar.gz", "exam.tar", "exam.zip"} {
		dir := t.TempDir()
		packageOf(t, filepath.Join(dir, name), good)
		root, err := os.OpenRoot(dir)
		must(t, err)
		t.Cleanup(func() { _ = root.Close() })
		x := &personExport{root: root, packages: root, person: "19", job: "arc_1", took: map[string]bool{"1": true}}
		must(t, x.takeOut(name))
		text, err := os.ReadFile(filepath.Join(dir, "arc_1/exam/quiz/a.html"))
		if err != nil || string(text) != "mine" || x.files != 1 ||
			x.manifest.String() != sum("mine")+"  arc_1/exam/quiz/a.html\n" {
			t.Errorf("%s: %q, %d files, %q, %v", name, text, x.files, x.manifest.String(), err)
		}
		if len(x.left) != 1 || x.left[0] != (leftOut{"arc_1", "exam", "quiz/c.html", "1", 3, sum("all"), notOfOne}) {
			t.Errorf("%s: left out: %+v", name, x.left)
		}
		none := &personExport{root: root, packages: root, person: "21", job: "arc_2"}
		if err := none.takeOut(name); err != nil || none.files != 0 || len(none.left) != 0 {
			t.Errorf("%s: another person: %d files, %+v, %v", name, none.files, none.left, err)
		}
	}
	for what, files := range map[string][][2]string{
		"damaged": {{"exam/data/quiz/a.html", "other"}, good[3]},
		"missing": {good[1], good[3]},
		"no list": {{"exam/data/metadata/files.csv", ""}},
		"columns": {{"exam/data/metadata/files.csv", "name\nx\n"}},
	} {
		dir := t.TempDir()
		packageOf(t, filepath.Join(dir, "exam.zip"), files)
		root, err := os.OpenRoot(dir)
		must(t, err)
		t.Cleanup(func() { _ = root.Close() })
		x := &personExport{root: root, packages: root, person: "19", job: "arc_1"}
		if err := x.takeOut("exam.zip"); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}
