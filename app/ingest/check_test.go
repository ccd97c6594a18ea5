package ingest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/profile"
)

// TestCheckManifest: the check gives for each manifest of the table the result of its submission, as far as that
// follows from the manifest alone.
func TestCheckManifest(t *testing.T) {
	// What is found only when files are fetched.
	later := []string{CauseBadDigest, CauseBadSize, CauseNotFound, CauseCorruptArchive}
	n := 0
	for _, section := range [][]admission{manifestAdmissions(), batchAdmissions(), sizeAdmissions()} {
		for i := range section {
			c := &section[i]
			if c.zip != nil || slices.Contains(later, c.want) ||
				strings.Contains(c.about, "whose row names a manifest that is cut") {
				continue
			}
			n++
			p, err := ManifestProfile(c.profile == "strict", profile.NamesPortable)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.ReplaceAll(c.text, "URL", "http://127.0.0.1:8080")
			got, err := CheckManifest(strings.NewReader(text), c.s.Filename, c.s.Type, p)
			switch {
			case err != nil:
				t.Errorf("%s: %v", c.about, err)
			case c.want == admitted || c.want == warned:
				if len(got.Problems) > 0 || c.want == warned &&
					strings.Contains(c.says, "found") != (len(got.Warnings) > 0) {
					t.Errorf("%s: %+v", c.about, got)
				}
			case len(got.Problems) == 0 || got.Problems[0].Cause != c.want ||
				!strings.Contains(got.Problems[0].Text, c.says):
				t.Errorf("%s: %+v, want %s, %q", c.about, got, c.want, c.says)
			}
		}
	}
	if n < 70 {
		t.Errorf("%d cases", n)
	}
}
