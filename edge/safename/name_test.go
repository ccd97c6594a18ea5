package safename

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// bad gives names for each rule, many of them generated: a component at each position of a path.
func bad() map[string]Rule {
	names := map[string]Rule{
		"": Empty, ".": Empty, "./": EmptyPart, "./.": Empty, "/": Absolute, "//": Absolute, "/etc/passwd": Absolute,
		"//host/share": Absolute,
		"\\":           Backslash, "\\\\host\\share": Backslash, "C:\\x": Backslash, "..\\x": Backslash,
		"a\\..\\..\\x": Backslash,
		"C:":           Drive, "C:/x": Drive, "c:x": Drive, "z:..": Drive, "./C:/x": Drive,
		"a//b": EmptyPart, "a/": EmptyPart, "a/b//": EmptyPart, "a/./": EmptyPart,
		strings.Repeat("a", 256): TooLong, "d/" + strings.Repeat("a", 256): TooLong, strings.Repeat("é", 128): TooLong,
		strings.Repeat("a/", 2048) + "b": TooLong, strings.Repeat("x", 20000): TooLong,
		"\u2024\u2024/x": Compatibility, "．．/x": Compatibility, "a/．．/．．/x": Compatibility, "．.": Compatibility,
		"／etc/passwd": Compatibility,
		"a／．．／x":      Compatibility, "＼x": Compatibility, "a＼．．＼x": Compatibility, "\u2025/x": Compatibility,
		"﹒﹒": Compatibility,
	}
	inPlaces := func(part string, rule Rule) {
		for _, format := range []string{"%s", "%s/f", "d/%s", "d/e/%s/f", "./%s", "d/./%s"} {
			names[fmt.Sprintf(format, part)] = rule
		}
	}
	for _, part := range []string{"\xff", "a\xc0\xafb", "\xed\xa0\x80", "\xc0\xae\xc0\xae", "a\x80",
		"\xf8\x88\x80\x80\xaf", "caf\ufffd"} {
		inPlaces(part, Encoding)
	}
	inPlaces("..", Parent)
	for _, part := range []string{"...", "....", " ", "  ", ". ", ".. ", " ..", ". .", ".. .."} {
		inPlaces(part, Dots)
	}
	for c := range rune(0xa0) {
		if c < 0x20 || c >= 0x7f {
			names["a"+string(c)+"b"] = Control
			names[string(c)] = Control
		}
	}
	for _, c := range []rune{0x2028, 0x2029, 0xfeff, 0xfffe, 0xffff, 0x1fffe, 0x10ffff, 0xfdd0, 0xfdef} {
		names["a"+string(c)] = Control
	}
	for _, c := range []rune{0x061c, 0x200e, 0x200f, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068,
		0x2069} {
		names["a"+string(c)+"txt.exe"] = Bidi
	}
	for _, dev := range []string{"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "COM0", "COM1", "COM9", "COM¹",
		"COM²", "LPT1", "LPT9", "LPT³"} {
		for _, spelling := range []string{dev, strings.ToLower(dev), dev + ".txt", dev + " ", dev + " .tar.gz",
			dev + "."} {
			names[spelling] = Reserved
			names["d/"+spelling+"/f"] = Reserved
		}
		names[dev+":stream"] = Reserved
	}
	return names
}

func good() map[string]string {
	names := map[string]string{
		"a": "a", "a/b/c.txt": "a/b/c.txt", "./a": "a", "./././a/./b": "a/b", ".hidden": ".hidden", "..a": "..a",
		"a..": "a..", "a..b": "a..b",
		"...a": "...a", "Smith Jr.": "Smith Jr.", "a ": "a ", " a": " a", "ark:/12345/x": "ark:/12345/x",
		"10:30.txt":       "10:30.txt",
		"e\u0301te\u0301": "e\u0301te\u0301",
		"été":             "été", "CONSOLE": "CONSOLE", "COM10": "COM10", "COMET": "COMET", "nulls.txt": "nulls.txt",
		"xCON":     "xCON",
		"日本語/ファイル": "日本語/ファイル", "한글": "한글", "👩‍👩‍👧": "👩‍👩‍👧",
		"℀": "℀", "½": "½", "ﬁle": "ﬁle", "-rf": "-rf", "~root": "~root", "$HOME": "$HOME", "a%2f..%2fb": "a%2f..%2fb",
		"%2e%2e/x": "%2e%2e/x", "a'b\"c": "a'b\"c", "a;b|c&d": "a;b|c&d", "*?": "*?", "é:x": "é:x",
		strings.Repeat("a", 255): strings.Repeat("a", 255), strings.Repeat("é", 127): strings.Repeat("é", 127),
		strings.Repeat("a/", 2047) + "b": strings.Repeat("a/", 2047) + "b",
		strings.Repeat("e\u0301", 85):    strings.Repeat("e\u0301", 85),
	}
	return names
}

func TestBadNames(t *testing.T) {
	names := bad()
	if len(names) < 300 {
		t.Fatalf("%d names, want at least 300", len(names))
	}
	t.Logf("%d bad names", len(names))
	for name, want := range names {
		got, err := Clean(name)
		var e *Error
		if !errors.As(err, &e) || e.Rule != want {
			t.Errorf("%.80q: %q, %v; want rule %q", name, got, err, want)
		}
	}
}

func TestGoodNames(t *testing.T) {
	for name, want := range good() {
		if got, err := Clean(name); err != nil || got != want {
			t.Errorf("%.80q: %.80q, %v; want %.80q", name, got, err, want)
		}
	}
}

func TestErrorIsShort(t *testing.T) {
	_, err := Clean(strings.Repeat("x", 20000))
	if len(err.Error()) > 200 {
		t.Errorf("error has %d bytes", len(err.Error()))
	}
	for _, before := range []string{"", "x", "xx", "xxx"} { // with some of them a character lies across the limit
		_, err := Clean(before + strings.Repeat("\U0001f4dc", 5000))
		if strings.Contains(err.Error(), `\x`) || len(err.Error()) > 200 {
			t.Errorf("got %s", err)
		}
	}
}

func FuzzClean(f *testing.F) {
	for name := range bad() {
		f.Add(name)
	}
	for name := range good() {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, err := Clean(name)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || got != "" {
				t.Fatalf("%q: %q, %v", name, got, err)
			}
			return
		}
		if !filepath.IsLocal(got) || path.Clean(got) != got || !utf8.ValidString(got) ||
			len(got) > MaxPath || strings.ContainsAny(got, "\x00\\\r\n") {
			t.Fatalf("%q passes as %q", name, got)
		}
		if again, err := Clean(got); err != nil || again != got {
			t.Fatalf("%q becomes %q and then %q, %v", name, got, again, err)
		}
		for _, form := range []norm.Form{norm.NFD, norm.NFKC, norm.NFKD} {
			if other := form.String(got); !filepath.IsLocal(other) {
				t.Fatalf("%q passes as %q and is %q in another form", name, got, other)
			}
		}
		if strings.Count(fold(got), "/") != strings.Count(got, "/") {
			t.Fatalf("%q folds to %q", got, fold(got))
		}
		var s Set
		if _, err := s.AddFile(name); err != nil {
			t.Fatalf("%q alone in a set: %v", name, err)
		}
		if _, err := s.AddFile(got); err == nil {
			t.Fatalf("%q twice in a set", got)
		}
	})
}

// As given, what the system of the archive can hold is kept; what leaves its directory on any system is not.
func TestAsGivenNames(t *testing.T) {
	for _, name := range []string{
		"a:b", "C:x", "aux.c", "con",
		"a\u202egpj.exe", "\u05d0\u200f.txt", `a\b`, "...", " ", "x.", "e\u0301", "\ufeffx", "．．/x", "*?", "a\u2028b",
		"..a/b..",
	} {
		if got, err := AsGiven.Clean(name); err != nil || got != name {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]Rule{
		"": Empty, ".": Empty, "a//b": EmptyPart,
		"a/": EmptyPart, "/a": Absolute, "..": Parent, "a/../b": Parent, "C:/x": Drive, `C:\x`: Drive, `..\x`: Parent,
		`a\..\..\x`: Parent, `\x`: Absolute,
		`\\host\x`: Absolute, "a\nb": Control, "a\x00b": Control, "a\x85b": Encoding, "a\u0085b": Control,
		"\xe9":   Encoding,
		"\ufffd": Encoding, strings.Repeat("n", 256): TooLong, strings.Repeat("d/", 2100) + "x": TooLong,
	} {
		got, err := AsGiven.Clean(name)
		var e *Error
		if !errors.As(err, &e) || e.Rule != want {
			t.Errorf("%.80q: %q, %v; want rule %q", name, got, err, want)
		}
	}
}
