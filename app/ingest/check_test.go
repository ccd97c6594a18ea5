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

// TestCheckManifestRows: a row that can never be ingested is a problem of the check. Good rows are the control.
func TestCheckManifestRows(t *testing.T) {
	p, err := ManifestProfile(false, profile.NamesPortable)
	if err != nil {
		t.Fatal(err)
	}
	const ok = "0123456789abcdefABCDEF0123456789"
	for _, of := range []string{"mrt-ingest-manifest", "mrt-single-file-batch-manifest"} {
		for row, says := range map[string]string{
			"http://h.example/a | md5 | " + ok:                          "",
			"http://h.example/a |  |":                                   "",
			"http://h.example/a b |  |":                                 "white space",
			"https://h.example/a |  |":                                  "",
			"ftp://h.example/a |  |":                                    "",
			"ftp://h.example/a;type=a |  |":                             "only ;type=i is allowed",
			"ftp://h.example/a%0d%0ab |  |":                             "ftp URL has a control character",
			"ftp://h.example/a;type=i |  |":                             "",
			"FILE:///etc/passwd |  |":                                   "scheme is not http or https",
			"file:///etc/passwd |  |":                                   "line 3: fetch file:///etc/passwd",
			"http:///a |  |":                                            "no host",
			"http://h.example:25/a |  |":                                "port 25 is not allowed",
			"http://0x7f.1/a |  |":                                      "unusual spelling",
			"http://h.example/a\\b |  |":                                "backslash",
			"http://h.example/a | md5 | abc":                            "md5 has 32 hexadecimal digits",
			"http://h.example/a | md5 | " + strings.Repeat("z", 32):     "md5 has 32 hexadecimal digits",
			"http://h.example/a | sha-256 | " + ok:                      "sha256 has 64 hexadecimal digits",
			"http://h.example/a | md2 | " + strings.Repeat("0", 32):     `digest type "md2"`,
			"http://h.example/a | crc32 | 1":                            "crc32 has 8 hexadecimal digits",
			"http://h.example/a | adler-32 | " + strings.Repeat("0", 8): "",
		} {
			text := "#%checkm_0.7\n#%profile | http://uc3.cdlib.org/registry/ingest/manifest/" + of + "\n" + row +
				" |  |  | a.txt\n#%eof\n"
			got, err := CheckManifest(strings.NewReader(text), "x.checkm", "", p)
			switch {
			case err != nil:
				t.Errorf("%s: %v", row, err)
			case says == "" && len(got.Problems) > 0:
				t.Errorf("%s: %+v", row, got.Problems)
			case says != "" && (len(got.Problems) != 1 || got.Problems[0].Row != 3 ||
				!strings.Contains(got.Problems[0].Text, says)):
				t.Errorf("%s: %+v, want %q", row, got.Problems, says)
			}
		}
	}
}
