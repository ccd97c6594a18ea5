package safename

import (
	"errors"
	"fmt"
	"testing"
)

// tree adds names; those that end with a slash are directories. It gives the rule that refused the last one.
func tree(t *testing.T, names ...string) Rule {
	t.Helper()
	var s Set
	var err error
	for i, name := range names {
		if err != nil {
			t.Fatalf("%q refused before the last of %q: %v", names[i-1], names, err)
		}
		if dir := name[len(name)-1] == '/'; dir {
			_, err = s.AddDir(name[:len(name)-1])
		} else {
			_, err = s.AddFile(name)
		}
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Rule
	}
	return ""
}

func TestSet(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  Rule
	}{
		{[]string{"a", "b"}, ""},
		{[]string{"a", "a"}, Duplicate},
		{[]string{"a", "./a"}, Duplicate},
		{[]string{"é", "e\u0301"}, Collision},
		{[]string{"d/a", "d/b", "e/a"}, ""},
		{[]string{"a", "A"}, Collision},
		{[]string{"d/a", "D/b"}, Collision},
		{[]string{"d/", "D/"}, Collision},
		{[]string{"d/", "d/"}, ""},
		{[]string{"d/", "d/a", "d/"}, ""},
		{[]string{"ﬁle", "file"}, Collision},
		{[]string{"Å", "\u212b"}, Collision},
		{[]string{"ſ", "S"}, Collision},
		{[]string{"K", "\u212a"}, Collision},
		{[]string{"straße", "STRASSE"}, Collision},
		{[]string{"Σ", "ς"}, Collision},
		{[]string{"ａ", "a"}, Collision},
		{[]string{"a", "a."}, Collision},
		{[]string{"a", "a "}, Collision},
		{[]string{"d./a", "d/b"}, Collision},
		{[]string{"a", "a/b"}, Conflict},
		{[]string{"a/b", "a"}, Conflict},
		{[]string{"a/", "a"}, Conflict},
		{[]string{"a", "a/"}, Conflict},
		{[]string{"a/b/c", "A/B"}, Collision},
		{[]string{"a", "A/b"}, Conflict},
		{[]string{"a℀", "aa/c"}, ""},
		{[]string{"a", "../a"}, Parent},
	} {
		if got := tree(t, c.names...); got != c.want {
			t.Errorf("%q: rule %q, want %q", c.names, got, c.want)
		}
	}
}

func TestSetOfEveryCase(t *testing.T) {
	var s Set
	for i := range 1000 {
		if _, err := s.AddFile(fmt.Sprintf("dir%d/File%d", i%10, i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1000 {
		if _, err := s.AddFile(fmt.Sprintf("dir%d/file%d", i%10, i)); err == nil {
			t.Fatalf("file%d passes beside File%d", i, i)
		}
	}
	if got := s.Len(); got != 1010 {
		t.Errorf("%d names, want 1010", got)
	}
}

func BenchmarkSet(b *testing.B) {
	var s Set
	for i := range b.N {
		s.AddFile(fmt.Sprintf("data/objects/file-%09d.tif", i))
	}
}

func TestAsGivenSet(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  Rule
	}{
		{[]string{"README", "readme"}, ""}, {[]string{"é", "e\u0301"}, ""}, {[]string{"a", "a."}, ""},
		{[]string{"D/a", "d/b"}, ""},
		{[]string{"a", "./a"}, Duplicate}, {[]string{"a", "a/b"}, Conflict}, {[]string{"a/b", "a"}, Conflict},
	} {
		s := Set{Rules: AsGiven}
		var err error
		for _, name := range c.names {
			_, err = s.AddFile(name)
		}
		var got Rule
		if e := (*Error)(nil); errors.As(err, &e) {
			got = e.Rule
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.names, got, c.want)
		}
	}
}

// Beside compares without adding, and checks no name by itself.
func TestBeside(t *testing.T) {
	for _, c := range []struct {
		rules Rules
		own   string
		other string
		want  Rule
	}{
		{Portable, "readme", "README", Collision},
		{Portable, "docs/a", "Docs/b", Collision}, {Portable, "a", "a/b", Conflict}, {Portable, "a/b", "a", Conflict},
		{Portable, "a", "b", ""}, {Portable, "a", "aux.c", ""}, {Portable, "d/a", "d/b", ""},
		{Portable, "a", "a", Duplicate},
		{AsGiven, "readme", "README", ""}, {AsGiven, "a", "a/b", Conflict},
	} {
		s := Set{Rules: c.rules}
		if _, err := s.AddFile(c.own); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			var got Rule
			if e := (*Error)(nil); errors.As(s.Beside(c.other), &e) {
				got = e.Rule
			}
			if got != c.want {
				t.Errorf("%q beside %q: %q, want %q", c.other, c.own, got, c.want)
			}
		}
	}
}
