package profile

import (
	"strings"
	"testing"
)

// FuzzParse checks that no text makes Parse panic, that a refusal names a line, and that what it takes is complete.
func FuzzParse(f *testing.F) {
	f.Add(maps)
	f.Add("id: a\nminter:\n  url: http://x.org\n")
	f.Add("id: [\n")
	f.Add("id: &a a\nowner: *a\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parse("", []byte(text))
		if err != nil {
			line, _, ok := strings.Cut(err.Error(), ":")
			if !ok || strings.Trim(line, "0123456789") != "" {
				t.Errorf("no line in %q", err)
			}
			return
		}
		if p.ID == "" || p.Collection == "" || len(p.Storage) == 0 || p.Limits.Files <= 0 ||
			(p.Minter.URL == "") == (p.Minter.NOID() == nil) {
			t.Errorf("incomplete: %+v", p)
		}
	})
}
