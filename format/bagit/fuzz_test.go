package bagit_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/format/bagit"
)

// FuzzManifest checks that each line of a manifest is read or is an error. A line that is read can be written and
// read again without change, unless its path has a beginning that the writer refuses (TestWriterRefuses).
func FuzzManifest(f *testing.F) {
	f.Add(sha256Of("a")+"  data/a.txt\n", false)
	f.Add(sha256Of("a")+" \t*./data/100%25%0a%0D%zz\r\n"+strings.ToUpper(sha256Of("b"))+"  ~/x\r", true)
	f.Add("\n\n \x00 x\n", false)
	f.Add(sha256Of("a")+"  ./\n"+sha256Of("b")+"  *\n"+sha256Of("c")+"  *./\n", false)
	f.Add(sha256Of("a")+"  * \n"+sha256Of("b")+"  *\tx\n", false)
	f.Fuzz(func(t *testing.T, text string, old bool) {
		for line, err := range bagit.Manifest(strings.NewReader(text), bagit.SHA256, old) {
			if err != nil {
				if !errors.Is(err, bagit.ErrLine) {
					t.Errorf("got %v", err)
				}
				continue
			}
			if old || strings.ContainsAny(line.Path[:1], " \t*") || strings.HasPrefix(line.Path, "./") {
				continue
			}
			for again, err := range bagit.Manifest(strings.NewReader(line.Digest+"  "+bagit.EncodePath(line.Path)+"\n"),
				bagit.SHA256, false) {
				if err != nil || again.Path != line.Path || again.Digest != line.Digest {
					t.Errorf("%q is read as %q again, %v", line.Path, again.Path, err)
				}
			}
		}
	})
}

// FuzzBag checks that no file makes the validator panic or run indefinitely.
func FuzzBag(f *testing.F) {
	for _, form := range forms[1:] {
		text, err := os.ReadFile(save(f, form, write(f, bag{"a": "alpha"})))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	name := filepath.Join(f.TempDir(), "bag")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := bagit.Validate(t.Context(), name, bagit.Options{MaxFiles: 1000, MaxTag: 1 << 16})
		if err == nil && r.Valid() && len(r.Algorithms) == 0 {
			t.Error("a bag without a manifest is valid")
		}
	})
}
