package nearest

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestWord(t *testing.T) {
	long := strings.Repeat("x", longest)
	for _, c := range []struct {
		word, known, want string
	}{
		{"ownr", "owner id", "owner"}, {"slep", "sleep steep", "sleep"}, {"PATHC", "PUT PATCH", "PATCH"},
		{"post", "GET POST past", "POST"}, {"ab", "cd", ""}, {"a", "b", ""}, {"", "a", ""}, {"ab", "ac", "ac"},
		{"abc", "xyc", "xyc"}, {"something", "sxmxthxng", "sxmxthxng"}, {"something", "xxmxthxng", ""},
		{long, long[1:], long[1:]}, {long + "x", long, ""}, {"x", "", ""},
	} {
		if got := Word(c.word, strings.Fields(c.known)); got != c.want {
			t.Errorf("%.20q among %.30q: got %.20q, want %.20q", c.word, c.known, got, c.want)
		}
	}
}

// TestDistance holds the distance against its definition.
func TestDistance(t *testing.T) {
	var slow func(a, b string) int
	slow = func(a, b string) int {
		switch {
		case a == "" || b == "":
			return len(a) + len(b)
		case a[0] == b[0]:
			return slow(a[1:], b[1:])
		}
		return 1 + min(slow(a[1:], b), slow(a, b[1:]), slow(a[1:], b[1:]))
	}
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching("[abc]{0,6}")
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		if got, want := distance(a, b), slow(a, b); got != want {
			t.Errorf("%q to %q: got %d, want %d", a, b, got, want)
		}
	})
}
