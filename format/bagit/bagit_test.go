package bagit_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/format/bagit"
)

func TestWrittenBagIsValid(t *testing.T) {
	b := write(t, payload)
	for _, form := range forms {
		r := validate(t, save(t, form, b))
		if !r.Valid() || len(r.Warnings) > 0 || r.Version != "1.0" || r.Files != 5 || r.Bytes != 17 {
			t.Errorf("%s: got %+v", form, r)
		}
	}
	want := "Source-Organization: A library: ours\nPayload-Oxum: 17.5\n"
	if diff := cmp.Diff(want, b["bag-info.txt"]); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(b["tagmanifest-sha256.txt"], sha256Of("read me")+"  notes/README.txt\n") {
		t.Errorf("got %s", b["tagmanifest-sha256.txt"])
	}
	if !strings.Contains(b["manifest-sha256.txt"], sha256Of("odd")+"  data/line%0Aend%0D.txt\n") ||
		!strings.Contains(b["manifest-sha256.txt"], "  data/größe %2541.txt\n") {
		t.Errorf("got %s", b["manifest-sha256.txt"])
	}
	empty := write(t, nil)
	for _, form := range forms {
		if r := validate(t, save(t, form, empty)); !r.Valid() {
			t.Errorf("empty, %s: got %v", form, r.Errors)
		}
	}
}

// TestManifestsByCommand lets the checksum commands of the system read the manifests: they do not depend on this
// package.
func TestManifestsByCommand(t *testing.T) {
	dir := save(t, "dir", write(t, bag{"a.txt": "alpha", "dir/größe.txt": "beta"}))
	for _, c := range [][2]string{
		{"sha256sum", "manifest-sha256.txt"},
		{"sha512sum", "manifest-sha512.txt"}, {"sha256sum", "tagmanifest-sha256.txt"},
		{"sha512sum", "tagmanifest-sha512.txt"},
	} {
		if _, err := exec.LookPath(c[0]); err != nil {
			t.Logf("there is no %s here: %s was checked by this package alone", c[0], c[1])
			continue
		}
		cmd := exec.Command(c[0], "--strict", "--check", c[1])
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}

// TestPlantedFaults plants one fault after the other in a bag that is valid, as a directory, a ZIP and a TAR.
func TestPlantedFaults(t *testing.T) {
	good := write(t, bag{"a.txt": "alpha", "b.txt": "beta"})
	m256, m512, info := good["manifest-sha256.txt"], good["manifest-sha512.txt"], good["bag-info.txt"]
	add := func(to, line string) bag { return bag{to: good[to] + line + "\n"} }
	for name, c := range map[string]struct {
		change bag
		code   bagit.Code
		warns  bool
	}{
		"control":                      {bag{}, "", false},
		"no declaration":               {bag{"bagit.txt": ""}, bagit.CodeDeclaration, false},
		"declaration with three lines": {add("bagit.txt", "More: 1"), bagit.CodeDeclaration, false},
		"declaration with a mark": {bag{"bagit.txt": "\ufeff" + good["bagit.txt"]}, bagit.CodeDeclaration,
			false},
		"declaration without a version": {bag{"bagit.txt": "BagIt: 1.0\nTag-File-Character-Encoding: UTF-8\n"},
			bagit.CodeDeclaration, false},
		"declaration with a space": {bag{"bagit.txt": "BagIt-Version : 1.0\nTag-File-Character-Encoding: UTF-8\n"},
			bagit.CodeDeclaration, false},
		"another encoding": {bag{"bagit.txt": "BagIt-Version: 1.0\nTag-File-Character-Encoding: ISO-2022-JP\n"},
			bagit.CodeDeclaration, false},
		"an encoding of older bags": {bag{"bagit.txt": "BagIt-Version: 1.0\nTag-File-Character-Encoding: ISO-8859-1\n"},
			bagit.CodeDeclaration, true},
		"an encoding that the tag files do not have": {
			bag{"bagit.txt": "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-16\n"}, bagit.CodeManifest, false},
		"a version to come": {bag{"bagit.txt": "BagIt-Version: 7.3\nTag-File-Character-Encoding: UTF-8\n"},
			bagit.CodeDeclaration, true},
		"line ends of Windows": {bag{"bagit.txt": strings.ReplaceAll(good["bagit.txt"], "\n", "\r\n"),
			"manifest-sha256.txt": strings.ReplaceAll(m256, "\n", "\r")}, "", false},
		"no manifest": {bag{"manifest-sha256.txt": "", "manifest-sha512.txt": ""},
			bagit.CodeManifest, false},
		"an unknown algorithm besides": {bag{"manifest-whirlpool.txt": "00 data/a.txt\n"}, bagit.CodeAlgorithm, true},
		"unknown algorithms alone": {bag{"manifest-sha256.txt": "", "manifest-sha512.txt": "",
			"manifest-whirlpool.txt": "00 data/a.txt\n"}, bagit.CodeAlgorithm, false},
		"a file is missing":    {bag{"data/a.txt": ""}, bagit.CodeMissing, false},
		"a file is not listed": {bag{"data/c.txt": "gamma"}, bagit.CodeUnlisted, false},
		"a file is listed in one only": {bag{"manifest-sha512.txt": m512[strings.IndexByte(m512, '\n')+1:]},
			bagit.CodeUnlisted, false},
		"other bytes":               {bag{"data/a.txt": "ALPHA"}, bagit.CodeDigest, false},
		"other bytes in a tag file": {add("bag-info.txt", "Note: later"), bagit.CodeDigest, false},
		"a longer file":             {bag{"data/a.txt": "alphaa"}, bagit.CodeOxum, false},
		"oxum": {bag{"bag-info.txt": strings.Replace(info, "9.2", "9.3", 1)}, bagit.CodeOxum,
			false},
		"oxum that is none": {bag{"bag-info.txt": strings.Replace(info, "9.2", "many", 1)}, bagit.CodeOxum,
			false},
		"oxum twice":     {add("bag-info.txt", "payload-oxum: 9.2"), bagit.CodeInfo, true},
		"no label":       {add("bag-info.txt", "just words"), bagit.CodeInfo, false},
		"a line goes on": {add("bag-info.txt", "Note: one\n\ttwo"), "", false},
		"a path twice": {add("manifest-sha256.txt", sha256Of("alpha")+"  data/a.txt"),
			bagit.CodeDuplicate, false},
		"a path up": {add("manifest-sha256.txt", sha256Of("alpha")+"  data/../../a.txt"),
			bagit.CodeUnsafe, false},
		"an absolute path": {add("manifest-sha256.txt", sha256Of("alpha")+"  /etc/passwd"),
			bagit.CodeUnsafe, false},
		"a drive": {add("manifest-sha256.txt", sha256Of("alpha")+"  C:/a.txt"), bagit.CodeUnsafe,
			false},
		"a home": {add("tagmanifest-sha256.txt", sha256Of("alpha")+"  ~/.profile"),
			bagit.CodeUnsafe, false},
		"a backslash": {add("manifest-sha256.txt", sha256Of("alpha")+`  data\a.txt`),
			bagit.CodeUnsafe, false},
		"a tag file in a manifest": {add("manifest-sha256.txt", sha256Of(good["bagit.txt"])+"  bagit.txt"),
			bagit.CodeManifest, false},
		"payload in a tag manifest": {add("tagmanifest-sha256.txt", sha256Of("alpha")+"  data/a.txt"),
			bagit.CodeTagManifest, false},
		"a tag manifest in another": {add("tagmanifest-sha256.txt", sha256Of("x")+"  tagmanifest-sha512.txt"),
			bagit.CodeTagManifest, false},
		"a tag manifest lacks one": {bag{"tagmanifest-sha256.txt": sha256Of(good["bagit.txt"]) + "  bagit.txt\n"},
			bagit.CodeTagManifest, false},
		"a line without a path":   {add("manifest-sha256.txt", sha256Of("alpha")), bagit.CodeManifest, false},
		"a checksum that is none": {add("manifest-sha256.txt", "xyz  data/a.txt"), bagit.CodeManifest, false},
		"a checksum of another length": {add("manifest-sha256.txt", md5Of("alpha")+"  data/a.txt"),
			bagit.CodeManifest, false},
		"a line without end": {add("manifest-sha256.txt", strings.Repeat("0", 100_000)), bagit.CodeManifest,
			false},
		"upper case": {bag{"manifest-sha256.txt": strings.ToUpper(m256[:64]) + m256[64:]},
			"", false},
		"tabs": {bag{"manifest-sha256.txt": strings.ReplaceAll(m256, "  ", " \t ")},
			"", false},
		"an asterisk": {bag{"manifest-sha256.txt": strings.ReplaceAll(m256, "  ", " *")},
			bagit.CodeManifest, true},
		"not fetched": {bag{"data/a.txt": "", "fetch.txt": "http://example.org/a 5 data/a.txt\n"},
			bagit.CodeFetch, false},
		"fetched": {bag{"fetch.txt": "http://example.org/a 5 data/a.txt\n"}, "", false},
		"fetched with another size": {bag{"fetch.txt": "http://example.org/a 6 data/a.txt\n"}, bagit.CodeFetch,
			false},
		"to be fetched, and not listed": {bag{"fetch.txt": "http://example.org/z - data/z.txt\n"}, bagit.CodeFetch,
			false},
		"to be fetched to outside": {bag{"fetch.txt": "http://example.org/a - ../a.txt\n"}, bagit.CodeUnsafe,
			false},
		"to be fetched over a tag file": {bag{"fetch.txt": "http://example.org/a - bagit.txt\n"}, bagit.CodeFetch,
			false},
		"fetch with a length of nothing": {bag{"fetch.txt": "http://example.org/a many data/a.txt\n"}, bagit.CodeFetch,
			false},
		"fetch without a path": {bag{"fetch.txt": "http://example.org/a 5\n"}, bagit.CodeFetch, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := good.edit(c.change)
			if c.code != bagit.CodeDigest && c.change["tagmanifest-sha256.txt"] == "" {
				b = b.sealed()
			}
			for _, form := range forms {
				r := validate(t, save(t, form, b))
				found := r.Errors
				if c.warns {
					found = r.Warnings
				}
				has := slices.ContainsFunc(found, func(f bagit.Fault) bool { return f.Code == c.code })
				if has != (c.code != "") || r.Valid() != (c.code == "" || c.warns) {
					t.Errorf("%s: want %q, got errors %v, warnings %v", form, c.code, r.Errors, r.Warnings)
				}
			}
		})
	}
}

// TestOldBags are read by the rules of their time: a percent sign is itself, and one manifest that names a file is
// enough.
func TestOldBags(t *testing.T) {
	b := bag{
		"bagit.txt": "BagIt-Version: 0.97\nTag-File-Character-Encoding: UTF-8\n", "data/100%25": "x", "data/b": "y",
		"manifest-md5.txt":    md5Of("x") + "  data/100%25\n",
		"manifest-sha256.txt": sha256Of("y") + "  data/b\n" + sha256Of("y") + "  data/b\n",
	}
	for _, form := range forms {
		r := validate(t, save(t, form, b))
		if !r.Valid() || len(r.Warnings) != 1 || r.Version != "0.97" {
			t.Errorf("%s: got %+v", form, r)
		}
	}
	b["bagit.txt"] = strings.Replace(b["bagit.txt"], "0.97", "1.0", 1)
	if r := validate(t, save(t, "dir", b)); r.Valid() {
		t.Error("the control: by the rules of 1.0 it is not valid")
	}
}

func TestCollisions(t *testing.T) {
	nfc, nfd := "gr\u00f6\u00dfe.txt", "gro\u0308\u00dfe.txt"
	b := write(t, bag{"A.txt": "1", "a.txt": "2", nfc: "3", nfd: "4"})
	for _, form := range forms {
		r := validate(t, save(t, form, b))
		if !r.Valid() || len(r.Warnings) != 2 || r.Warnings[0].Code != bagit.CodeCollision {
			t.Errorf("%s: got %+v", form, r)
		}
	}
	other := write(t, bag{nfc: "3"})
	other["data/"+nfd] = other["data/"+nfc]
	delete(other, "data/"+nfc)
	r := validate(t, save(t, "zip", other))
	if !r.Valid() || !strings.Contains(fmt.Sprint(r.Warnings), "another Unicode form") {
		t.Errorf("got %+v", r)
	}
	other["data/"+nfd] = "4"
	if r := validate(t, save(t, "zip", other)); r.Valid() || r.Errors[0].Code != bagit.CodeDigest {
		t.Errorf("the control: other bytes under the other form: got %+v", r)
	}
}

// TestArchives plants what only an archive can have.
func TestArchives(t *testing.T) {
	var good [][2]string
	b := write(t, bag{"a.txt": "alpha"})
	for _, name := range slices.Sorted(maps.Keys(b)) {
		good = append(good, [2]string{"bag/" + name, b[name]})
	}
	flat := slices.Clone(good)
	for i := range flat {
		flat[i][0] = strings.TrimPrefix(flat[i][0], "bag/")
	}
	for name, c := range map[string]struct {
		entries [][2]string
		code    bagit.Code
	}{
		"control": {good, ""},
		"twice": {append(good[:len(good):len(good)], [2]string{"bag/data/a.txt", "other"}),
			bagit.CodeDuplicate},
		"up":              {append(good[:len(good):len(good)], [2]string{"bag/../../evil", "x"}), bagit.CodeUnsafe},
		"absolute":        {append(good[:len(good):len(good)], [2]string{"/evil", "x"}), bagit.CodeUnsafe},
		"two directories": {append(good[:len(good):len(good)], [2]string{"other/file", "x"}), bagit.CodeLayout},
		"beside":          {append(good[:len(good):len(good)], [2]string{"file", "x"}), bagit.CodeLayout},
		"flat":            {flat, bagit.CodeLayout},
		"empty":           {nil, bagit.CodeLayout},
	} {
		for _, form := range []string{"zip", "tar", "tar.gz"} {
			file := filepath.Join(t.TempDir(), "bag")
			archive(t, form, file, c.entries)
			r := validate(t, file)
			has := slices.ContainsFunc(r.Errors, func(f bagit.Fault) bool { return f.Code == c.code })
			if has != (c.code != "") || r.Valid() != (c.code == "") {
				t.Errorf("%s, %s: got %v", form, name, r.Errors)
			}
		}
	}
}

func TestWhatIsNoFile(t *testing.T) {
	dir := save(t, "dir", write(t, payload))
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "data", "link")); err != nil {
		t.Fatal(err)
	}
	r := validate(t, dir)
	if r.Valid() || r.Errors[0].Code != bagit.CodeType {
		t.Errorf("got %v", r.Errors)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no archive ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := bagit.Validate(t.Context(), text, bagit.Options{}); !errors.Is(err, bagit.ErrFormat) {
		t.Errorf("got %v", err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := io.WriteString(z, strings.Repeat("no archive ", 100)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(z.Close(), os.WriteFile(text, packed.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := bagit.Validate(t.Context(), text, bagit.Options{}); !errors.Is(err, bagit.ErrFormat) {
		t.Errorf("compressed: got %v", err)
	}
	if err := os.WriteFile(text, packed.Bytes()[:8], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := bagit.Validate(t.Context(), text, bagit.Options{}); !errors.Is(err, bagit.ErrFormat) {
		t.Errorf("cut: got %v", err)
	}
	if _, err := bagit.Validate(t.Context(), filepath.Join(dir, "nothing"), bagit.Options{}); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := bagit.Validate(t.Context(), dir, bagit.Options{MaxFiles: 3}); err == nil {
		t.Error("more files than allowed were taken")
	}
	if r, err := bagit.Validate(t.Context(), dir, bagit.Options{MaxTag: 10}); err != nil || r.Valid() {
		t.Errorf("a tag file larger than allowed was taken: %v", err)
	}
	var all int64
	for name, text := range write(t, payload) {
		if !strings.Contains(name, "/") { // other tag files are not read
			all += int64(len(text))
		}
	}
	good := save(t, "dir", write(t, payload))
	for most, valid := range map[int64]bool{all: true, all - 1: false} { // each of them alone is smaller
		if r, err := bagit.Validate(t.Context(), good, bagit.Options{MaxTag: most}); err != nil || r.Valid() != valid {
			t.Errorf("at most %d bytes of tag files: got %+v, %v", most, r, err)
		}
	}
	unknown := filepath.Join(good, "manifest-new.txt")
	// the second is the control
	for name, read := range map[string]bool{unknown: false, filepath.Join(good, "manifest-md5.txt"): true} {
		if err := os.WriteFile(name, make([]byte, 2*all), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := bagit.Validate(t.Context(), good, bagit.Options{MaxTag: all})
		if err != nil || read != slices.ContainsFunc(r.Errors,
			func(f bagit.Fault) bool { return f.Code == bagit.CodeRead }) {
			t.Errorf("%s: got %+v, %v", name, r, err)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if r := validate(t, t.TempDir()); r.Valid() || r.Algorithms == nil || r.Warnings == nil {
		t.Errorf("an empty directory: got %+v", r)
	}
}

func TestWriterRefuses(t *testing.T) {
	discard := func(string) (io.WriteCloser, error) { return &sink{close: func(string) {}}, nil }
	if _, err := bagit.NewWriter(discard); err == nil {
		t.Error("no algorithm")
	}
	if _, err := bagit.NewWriter(discard, "crc32"); err == nil {
		t.Error("an unknown algorithm")
	}
	w, err := bagit.NewWriter(discard, bagit.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		w.Add("../a", 1, sha256Of("a")), w.Add("", 1, sha256Of("a")), w.Add("a", 1), w.Add("a", 1, "xyz"),
		w.Add(`a\b`, 1, sha256Of("a")),
	} {
		if err == nil {
			t.Error("it was taken")
		}
	}
	if err := w.Add("a", 1, sha256Of("a")); err != nil {
		t.Errorf("the control: %v", err)
	}
	for _, name := range []string{"data/a", "../a", "bagit.txt", "manifest-md5.txt", "tagmanifest-md5.txt", " a", "\ta",
		"*a"} {
		if err := w.AddTag(name, 1, sha256Of("a")); err == nil {
			t.Errorf("the tag file %q was taken", name)
		}
	}
	if w.AddTag("b", 1) == nil || w.AddTag("b", 1, "xyz") == nil {
		t.Error("a tag file without its checksum was taken")
	}
	if _, err := w.Close(bagit.Field{Label: "A: B\nC", Value: "x"}); !errors.Is(err, bagit.ErrLine) {
		t.Errorf("got %v", err)
	}
}
