package bagit_test

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/md5"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/format/bagit"
)

// bag is a bag as its files: path to text.
type bag map[string]string

type sink struct {
	strings.Builder
	close func(string)
}

func (s *sink) Close() error { s.close(s.String()); return nil }

func sha256Of(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func sha512Of(text string) string {
	sum := sha512.Sum512([]byte(text))
	return hex.EncodeToString(sum[:])
}

func md5Of(text string) string { sum := md5.Sum([]byte(text)); return hex.EncodeToString(sum[:]) }

// payload has names that need care.
var payload = bag{"a.txt": "alpha", "dir/b.bin": "beta", "größe %41.txt": "100 %", "line\nend\r.txt": "odd",
	"empty": ""}

// write makes a bag of a payload with the package's own writer.
func write(t testing.TB, payload bag) bag {
	t.Helper()
	b := bag{}
	w, err := bagit.NewWriter(func(name string) (io.WriteCloser, error) {
		return &sink{close: func(text string) { b[name] = text }}, nil
	}, bagit.SHA512, bagit.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(payload)) {
		text := payload[name]
		b["data/"+name] = text
		if err := w.Add(name, int64(len(text)), sha512Of(text), sha256Of(text)); err != nil {
			t.Fatal(err)
		}
	}
	b["notes/README.txt"] = "read me"
	if err := w.AddTag("notes/README.txt", 7, sha512Of("read me"), sha256Of("read me")); err != nil {
		t.Fatal(err)
	}
	tags, err := w.Close(bagit.Field{Label: "Source-Organization", Value: "A\nlibrary: ours"},
		bagit.Field{Label: "Empty"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range tags {
		if text := b[tag.Name]; int64(len(text)) != tag.Size || tag.Digests[1] != sha256Of(text) ||
			tag.Digests[0] != sha512Of(text) {
			t.Errorf("%s differs from the writer's tag: %+v", tag.Name, tag)
		}
	}
	return b
}

// save writes a bag as a directory, a ZIP, a TAR or a tar.gz, and gives its path.
func save(t testing.TB, form string, b bag) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "bag")
	if form == "dir" {
		if err := os.MkdirAll(filepath.Join(name, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		for path, text := range b {
			if err := os.MkdirAll(filepath.Join(name, filepath.Dir(path)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(name, path), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return name
	}
	var entries [][2]string
	for _, path := range slices.Sorted(maps.Keys(b)) {
		entries = append(entries, [2]string{"bag/" + path, b[path]})
	}
	archive(t, form, name, entries)
	return name
}

func archive(t testing.TB, form, name string, entries [][2]string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var to io.WriteCloser = f
	if form == "tar.gz" {
		to = gzip.NewWriter(f)
		defer to.Close()
	}
	if form == "zip" {
		z := zip.NewWriter(f)
		for _, e := range entries {
			w, err := z.Create(e[0])
			if err == nil {
				_, err = io.WriteString(w, e[1])
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		err = z.Close()
	} else {
		w := tar.NewWriter(to)
		for _, e := range entries {
			err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e[0], Size: int64(len(e[1])), Mode: 0o600})
			if err == nil {
				_, err = io.WriteString(w, e[1])
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func validate(t testing.TB, name string) *bagit.Report {
	t.Helper()
	r, err := bagit.Validate(t.Context(), name, bagit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var forms = []string{"dir", "zip", "tar", "tar.gz"}

// edit gives a copy of a bag with changes; an empty text takes a file away.
func (b bag) edit(changes bag) bag {
	c := maps.Clone(b)
	for name, text := range changes {
		if text == "" {
			delete(c, name)
		} else {
			c[name] = text
		}
	}
	return c
}

// sealed renews the tag manifests, so that only the fault that was planted is found.
func (b bag) sealed() bag {
	var s256, s512 strings.Builder
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if strings.HasPrefix(name, "data/") || strings.HasPrefix(name, "tagmanifest") {
			continue
		}
		fmt.Fprintf(&s256, "%s  %s\n", sha256Of(b[name]), name)
		fmt.Fprintf(&s512, "%s  %s\n", sha512Of(b[name]), name)
	}
	return b.edit(bag{"tagmanifest-sha256.txt": s256.String(), "tagmanifest-sha512.txt": s512.String()})
}
