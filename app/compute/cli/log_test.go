package computecli

import (
	"strings"
	"testing"
)

// TestLastLines: the last lines of a stream that comes in pieces of any size, at most those in its last bytes.
func TestLastLines(t *testing.T) {
	const most = 20
	for _, test := range []struct {
		text string
		n    int
		want string
	}{
		{"", 1, ""},
		{"a", 1, "a"},
		{"a\n", 1, "a\n"},
		{"a\nb", 1, "b"},
		{"a\nb\n", 1, "b\n"},
		{"a\nb\n", 2, "a\nb\n"},
		{"a\nb\n", 3, "a\nb\n"},
		{"a\n\n\n", 2, "\n\n"},
		{"\n", 1, "\n"},
		{strings.Repeat("1234\n", 100), 2, "1234\n1234\n"},
		{strings.Repeat("1234\n", 100), 4, "1234\n1234\n1234\n"}, // the first of the 20 bytes may be within a line
		{strings.Repeat("1234\n", 100) + "x", 4, "1234\n1234\n1234\nx"},
		{strings.Repeat("1234567\n", 100), 50, "1234567\n1234567\n"}, // the line that begins before is left out
		{strings.Repeat("x", 100), 3, strings.Repeat("x", most)},
		{strings.Repeat("x", 100) + "\n", 3, strings.Repeat("x", most-1) + "\n"},
		{strings.Repeat("x", 100) + "\nlast\n", 3, "last\n"},
	} {
		for size := 1; size <= len(test.text)+1; size++ {
			l := lastLines{most: most}
			for at := 0; at < len(test.text); at += size {
				l.add([]byte(test.text[at:min(at+size, len(test.text))]))
			}
			if len(l.end) > 2*most {
				t.Fatalf("%d bytes are kept", len(l.end))
			}
			if got := string(l.lines(test.n)); got != test.want {
				t.Fatalf("%d of %.30q... in pieces of %d bytes: got %q, want %q", test.n, test.text, size, got,
					test.want)
			}
		}
	}
}
