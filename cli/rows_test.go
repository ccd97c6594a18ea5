package cli

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestRowsFitALine: on a terminal each row is one line, whatever its texts; what the others leave is shared by those
// that give.
func TestRowsFitALine(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	heading := []string{"ID", "STATE", "EMPTY", "TITLE", "REASON"}
	rows := [][]string{
		{"7K2M3PQX", "Completed", "", "a map", ""},
		{"7K2M3PQY", "Failed", "", strings.Repeat("long title ", 20),
			"127.0.0.1 is not allowed\nfor profile default, and this goes on and on"},
	}
	for _, width := range []int{40, 80, 120, 500} {
		var b bytes.Buffer
		p := &Printer{Writer: &b, Mode: ModeTable, Terminal: true, Width: width}
		if err := p.Rows(heading, rows, 2, func(int, int) string { return Red }); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if len(lines) != 3 || strings.Contains(b.String(), "EMPTY") || strings.Contains(b.String(), "\x1b") {
			t.Errorf("at %d: %s", width, b.String())
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("%d columns at %d: %s", n, width, line)
			}
		}
		if width == 500 && (!strings.Contains(b.String(), "goes on and on") || strings.Contains(b.String(), "...")) {
			t.Errorf("cut although there is space: %s", b.String())
		}
	}
	// Where the last columns alone cannot give enough, the widest of the others give, but the first.
	wide := [][]string{{"7K2M3PQX", strings.Repeat("a", 60), strings.Repeat("b", 40), "some title", "some reason"}}
	for give := range 3 {
		var b bytes.Buffer
		p := &Printer{Writer: &b, Mode: ModeTable, Terminal: true, Width: 80}
		if err := p.Rows([]string{"ID", "PATH", "FROM", "TITLE", "REASON"}, wide, give, nil); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%d columns: %s", n, line)
			}
		}
		if !strings.Contains(b.String(), "7K2M3PQX  aaaa") || !strings.Contains(b.String(), "bbb...  som") {
			t.Errorf("got %s", b.String())
		}
	}
	// Elsewhere nothing is cut, and on a terminal that has colors they do not count.
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	var b bytes.Buffer
	p := &Printer{Writer: &b, Mode: ModeTable, Terminal: true, Width: 60}
	if err := p.Rows(heading, rows, 2, func(row,
		column int) string {
		return map[bool]string{true: Red}[column == 1]
	}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "\x1b[31mFailed\x1b[0m") {
		t.Errorf("no color: %q", b.String())
	}
	b.Reset()
	p = &Printer{Writer: &b, Mode: ModePlain, Width: 80}
	if err := p.Rows(heading, rows, 2, nil); err != nil ||
		!strings.Contains(b.String(), strings.Repeat("long title ", 19)) {
		t.Errorf("%v: %s", err, b.String())
	}
}
