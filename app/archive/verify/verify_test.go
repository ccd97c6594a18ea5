package verify_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/sign"
	"github.com/stagepost/stagepost/app/archive/verify"
	"github.com/stagepost/stagepost/edge/timestamp"
	"github.com/stagepost/stagepost/format/rfc3161"
	"github.com/stagepost/stagepost/format/rfc3161/authority"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bag gives the files of a small bag, and its seal.
func bag(content string) (files map[string]string, seal string) {
	sum := func(text string) string {
		s := sha512.Sum512([]byte(text))
		return hex.EncodeToString(s[:])
	}
	files = map[string]string{
		"bagit.txt":           "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n",
		"data/a.txt":          content,
		"manifest-sha512.txt": sum(content) + "  data/a.txt\n",
	}
	for _, name := range []string{"bagit.txt", "manifest-sha512.txt"} {
		seal += sum(files[name]) + "  " + name + "\n"
	}
	files["tagmanifest-sha512.txt"] = seal
	return files, seal
}

// pack writes the files of a bag in a form: tar.gz, zip or none.
func pack(t *testing.T, dir, form string, files map[string]string) {
	t.Helper()
	var out bytes.Buffer
	z, compressed := zip.NewWriter(&out), gzip.NewWriter(&out)
	pack := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		switch form {
		case "none":
			at := filepath.Join(dir, "exam", name)
			must(t, os.MkdirAll(filepath.Dir(at), 0o750))
			must(t, os.WriteFile(at, []byte(text), 0o600))
		case "zip":
			w, err := z.Create("exam/" + name)
			must(t, err)
			_, err = io.WriteString(w, text)
			must(t, err)
		default:
			must(t, pack.WriteHeader(&tar.Header{Name: "exam/" + name, Size: int64(len(text)), Mode: 0o644}))
			_, err := io.WriteString(pack, text)
			must(t, err)
		}
	}
	switch form {
	case "none":
		return
	case "zip":
		must(t, z.Close())
	default:
		must(t, pack.Close())
		must(t, compressed.Close())
	}
	name := "exam." + form
	must(t, os.WriteFile(filepath.Join(dir, name), out.Bytes(), 0o600))
	sum := sha256.Sum256(out.Bytes())
	list := fmt.Sprintf("%x  %s\n", sum, name)
	must(t, os.WriteFile(filepath.Join(dir, name+".sha256"), []byte(list), 0o600))
}

const sealName = "exam.tagmanifest-sha512.txt"

// stamp has the seal in a directory stamped, and gives who is to be trusted.
func stamp(t *testing.T, dir string) *rfc3161.Verifier {
	t.Helper()
	a, err := authority.New("office", time.Now())
	must(t, err)
	web := httptest.NewServer(a)
	defer web.Close()
	root := filepath.Join(t.TempDir(), "root.pem")
	must(t, os.WriteFile(root, a.RootPEM(), 0o600))
	one, err := timestamp.NewAuthority(timestamp.Settings{Name: "office", URL: web.URL, Roots: []string{root}})
	must(t, err)
	c, err := catalog.Open(t.Context(), filepath.Join(t.TempDir(), catalog.Name), catalog.Options{})
	must(t, err)
	defer c.Close()
	must(t, c.Begin(t.Context(), catalog.Archive{Job: "j", Source: "s", Created: time.Now()}))
	s, err := sign.New(sign.Options{Catalog: c, Authorities: []*timestamp.Authority{one}})
	must(t, err)
	d, err := os.OpenRoot(dir)
	must(t, err)
	defer d.Close()
	_, err = s.Sign(t.Context(), sign.Document{
		Job: "j", Path: sealName, Dir: d, Open: func() (io.ReadCloser, error) { return d.Open(sealName) },
	})
	must(t, err)
	return a.Verifier()
}

// retrieved makes a directory as it was retrieved.
func retrieved(t *testing.T, form string) (dir string, trusted *rfc3161.Verifier) {
	t.Helper()
	dir = t.TempDir()
	files, seal := bag("an answer")
	pack(t, dir, form, files)
	must(t, os.WriteFile(filepath.Join(dir, sealName), []byte(seal), 0o600))
	return dir, stamp(t, dir)
}

func report(t *testing.T, dir string, trusted *rfc3161.Verifier) (r verify.Report, faults string) {
	t.Helper()
	r, err := verify.Dir(t.Context(), dir, verify.Options{Trusted: trusted, Now: time.Now()})
	must(t, err)
	for _, c := range r.Checks {
		if c.Fault != "" {
			faults += c.Kind + " " + c.Path + ": " + c.Fault + "\n"
		}
	}
	return r, faults
}

func TestGoodArchives(t *testing.T) {
	for _, form := range []string{"tar.gz", "zip", "none"} {
		t.Run(form, func(t *testing.T) {
			dir, trusted := retrieved(t, form)
			r, faults := report(t, dir, trusted)
			kinds := map[string]int{}
			for _, c := range r.Checks {
				kinds[c.Kind]++
			}
			if r.Faults != 0 || kinds[verify.Bag] != 1 || kinds[verify.Seal] != 1 || kinds[verify.Stamp] != 1 {
				t.Errorf("got %v, %s", kinds, faults)
			}
		})
	}
}

// TestFaults: each change of a good archive is found, by the check that is named.
func TestFaults(t *testing.T) {
	at := func(t *testing.T, dir, name string, change func([]byte) []byte) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, name), change(text), 0o600))
	}
	flip := func(text []byte) []byte { text[len(text)/2] ^= 1; return text }
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		want   string
	}{
		"package":       {func(t *testing.T, dir string) { at(t, dir, "exam.tar.gz", flip) }, "checksum exam.tar.gz"},
		"list":          {func(t *testing.T, dir string) { at(t, dir, "exam.tar.gz.sha256", flip) }, "checksum "},
		"path in list":  {func(t *testing.T, dir string) { list(t, dir, "../x") }, "not a line of a list"},
		"missing":       {func(t *testing.T, dir string) { list(t, dir, "x") }, "no such file"},
		"seal":          {func(t *testing.T, dir string) { at(t, dir, sealName, flip) }, "seal "},
		"stamp of seal": {func(t *testing.T, dir string) { at(t, dir, sealName, flip) }, "time stamp "},
		"other bag": {func(t *testing.T, dir string) { // a valid one, whose seal has no time stamp
			files, _ := bag("another answer")
			pack(t, dir, "tar.gz", files)
		}, "seal exam.tagmanifest-sha512.txt: it is not the tagmanifest-sha512.txt"},
		"no bag": {func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, "exam.tar.gz")))
		}, "is missing"},
		"no seal": {func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, sealName))) }, "is missing"},
		"token":   {func(t *testing.T, dir string) { at(t, dir, sealName+".tsr", flip) }, "time stamp "},
		"link": {func(t *testing.T, dir string) {
			must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link.tar")))
		}, "not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, trusted := retrieved(t, "tar.gz")
			c.change(t, dir)
			if r, faults := report(t, dir, trusted); r.Faults == 0 || !strings.Contains(faults, c.want) {
				t.Errorf("got %q, want %q", faults, c.want)
			}
		})
	}
}

// list replaces the list of checksums by one of another path.
func list(t *testing.T, dir, name string) {
	t.Helper()
	line := strings.Repeat("0", 64) + "  " + name + "\n"
	must(t, os.WriteFile(filepath.Join(dir, "exam.tar.gz.sha256"), []byte(line), 0o600))
}

// TestTrust: a time stamp of an authority that is not trusted is a fault, and so is a directory without an archive.
func TestTrust(t *testing.T) {
	dir, _ := retrieved(t, "zip")
	other, err := authority.New("other", time.Now())
	must(t, err)
	if _, faults := report(t, dir, other.Verifier()); !strings.Contains(faults, "time stamp") {
		t.Errorf("got %q", faults)
	}
	if r, faults := report(t, t.TempDir(), other.Verifier()); r.Faults != 1 {
		t.Errorf("got %q", faults)
	}
	if _, err := verify.Dir(t.Context(), filepath.Join(dir, "nothing"), verify.Options{}); err == nil {
		t.Error("a directory that does not exist was verified")
	}
}
