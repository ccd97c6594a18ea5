package pg

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzText stores texts and reads them again: any bytes come back, and PostgreSQL accepts what is stored.
func FuzzText(f *testing.F) {
	for _, text := range []string{"", "maps", "ümlaut", "\x00", "\xff\xfe", escape, escape + "00",
		"a\x00b" + escape + "__", "\xf4\x8f\xbf"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		in := Stored(text)
		if !utf8.ValidString(in) || strings.Contains(in, "\x00") {
			t.Errorf("%q is stored as %q, which PostgreSQL refuses", text, in)
		}
		if got := Original(in); got != text {
			t.Errorf("%q is stored as %q and read as %q", text, in, got)
		}
		if other := text + "x"; Stored(other) == in {
			t.Errorf("%q and %q are stored alike", text, other)
		}
	})
}
