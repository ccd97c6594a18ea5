package source_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stagepost/stagepost/app/archive/source"
)

// TestSafeName has names of other systems, and the names of files that they become.
func TestSafeName(t *testing.T) {
	for name, want := range map[string]string{
		"":                               "_",
		".":                              "_",
		"..":                             "_",
		" . ":                            "_",
		"a/b\\c":                         "a_b_c",
		"a:b*?\"<>|%~":                   "a_b________",
		"..hidden.":                      "hidden",
		"$1 ${name}":                     "$1 ${name}",
		"line\nbreak\x00":                "line_break_",
		"no\xffutf8":                     "no_utf8",
		"u\u0308ber":                     "über",
		"\xff\u0340a":                    "_\u0300a",
		strings.Repeat("ü", 100):         strings.Repeat("ü", 60),
		strings.Repeat("a", 119) + " b":  strings.Repeat("a", 119),
		strings.Repeat("a", 119) + "ü":   strings.Repeat("a", 119),
		"right\u202eleft":                "right_left",
		"Aufgabe 1: Grüße, 100 % (neu)?": "Aufgabe 1_ Grüße, 100 _ (neu)_",
	} {
		if got := source.SafeName(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func FuzzSafeName(f *testing.F) {
	f.Add("a:b")
	f.Add("..\\..\xff/")
	f.Add("\xf2\u0340")
	f.Fuzz(func(t *testing.T, name string) {
		got := source.SafeName(name)
		switch {
		case got == "" || len(got) > 120 || !utf8.ValidString(got):
			t.Errorf("%q: got %q", name, got)
		case strings.ContainsAny(got, "/\\\x00\r\n:%") || got == "." || got == "..":
			t.Errorf("%q: got %q", name, got)
		case source.SafeName(got) != got:
			t.Errorf("%q: again %q", got, source.SafeName(got))
		}
	})
}

// TestNames has files whose names become equal (B17). The control is the first name of each pair.
func TestNames(t *testing.T) {
	n := source.Names{}
	for _, c := range []struct{ key, name, want string }{
		{"1", "files/a_b.txt", "files/a_b.txt"},
		{"2", "files/a_b.txt", "files/a_b-2.txt"},
		{"3", "files/a_b.txt", "files/a_b-3.txt"},
		{"4", "files/A_B.TXT", "files/A_B-4.TXT"},
		{"2", "files/a_b.txt", "files/a_b-2.txt"},
		{"5", "files/a_b-2.txt", "files/a_b-2-2.txt"},
		{"6", "files/a_b.txt/inner", "files/a_b-5.txt/inner"},
		{"7", "files/dir/one", "files/dir/one"},
		{"8", "files/dir", "files/dir-2"},
		{"9", "files/dir/two", "files/dir/two"},
		{"10", ".hidden", ".hidden"},
		{"11", ".hidden", ".hidden-2"},
		{"12", "Chapter 1. The begin", "Chapter 1. The begin"},
		{"13", "Chapter 1. The begin", "Chapter 1. The begin-2"},
		{"14", "STRASSE", "STRASSE"},
		{"15", "straße", "straße-2"},
	} {
		if got := n.For(c.key, c.name); got != c.want {
			t.Errorf("%s, %s: got %q, want %q", c.key, c.name, got, c.want)
		}
	}
	text, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	var again source.Names
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if got := again.For("3", "files/a_b.txt"); got != "files/a_b-3.txt" {
		t.Errorf("saved and read: got %q", got)
	}
}

// FuzzNames: no two files have one name, and no file has the name of a directory.
func FuzzNames(f *testing.F) {
	f.Add("a:b|a_b|A_B|a/b|a|a-2")
	f.Fuzz(func(t *testing.T, text string) {
		n, seen, all := source.Names{}, map[string]string{}, strings.Split(text, "|")
		for i, name := range all {
			var parts []string
			for part := range strings.SplitSeq(name, "/") {
				parts = append(parts, source.SafeName(part))
			}
			key, safe := fmt.Sprint(i), path.Join(parts...)
			got := n.For(key, safe)
			if other, taken := seen[strings.ToLower(got)]; taken {
				t.Fatalf("%q and %q are both %q", name, other, got)
			}
			if n.For(key, safe) != got {
				t.Fatalf("%q: got %q, then %q", name, got, n.For(key, safe))
			}
			seen[strings.ToLower(got)] = name
		}
		for file := range seen {
			for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
				if _, taken := seen[dir]; taken {
					t.Fatalf("%q is a file and a directory", dir)
				}
			}
		}
	})
}

func TestError(t *testing.T) {
	err := error(&source.Error{Op: "read", Code: "x", Err: io.ErrUnexpectedEOF, Transient: true})
	var temporary interface{ Temporary() bool }
	if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.As(err, &temporary) || !temporary.Temporary() ||
		err.Error() != "read: unexpected EOF (x)" {
		t.Errorf("got %v", err)
	}
	if got := (&source.Error{Op: "read", Err: io.EOF}).Error(); got != "read: EOF" {
		t.Errorf("got %s", got)
	}
	if !slices.Equal([]bool{(&source.Error{}).Temporary()}, []bool{false}) {
		t.Error("an error is temporary by default")
	}
}
