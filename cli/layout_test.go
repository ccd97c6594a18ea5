package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestLayout(t *testing.T) {
	rows := [][]string{
		{"ID", "STATE", "OUTCOME", "GROUP", "MESSAGE"},
		{"ing_01J9", "Failed", "failed", "", "sheet-1.svg: not found, and search shows where it has gone"},
		{"ing_01J8", "Estimating"},
	}
	for _, c := range []struct {
		width int
		want  string
	}{
		{0, `
ID        STATE       OUTCOME  GROUP  MESSAGE
ing_01J9  Failed      failed          sheet-1.svg: not found, and search shows where it has gone
ing_01J8  Estimating`},
		{80, `
ID        STATE       OUTCOME  GROUP  MESSAGE
ing_01J9  Failed      failed          sheet-1.svg: not found, and search shows
                                      where it has gone
ing_01J8  Estimating`},
		{45, `
ID        STATE       OUTCOME  GROUP
  MESSAGE
ing_01J9  Failed      failed
  sheet-1.svg: not found, and search shows
  where it has gone
ing_01J8  Estimating`},
		{24, `
ID        STATE
  OUTCOME  GROUP
  MESSAGE
ing_01J9  Failed
  failed
  sheet-1.svg: not
  found, and search
  shows where it has
  gone
ing_01J8  Estimating`},
	} {
		if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), strings.Join(layout(rows, c.width), "\n")); diff != "" {
			t.Errorf("%d columns (-want +got):\n%s", c.width, diff)
		}
	}
	pairs := [][]string{{"token", "01m7x10xrxdede0w5f6f5x36xzrgp5zakeh5kezq26pawjktlf4u"},
		{"message", "queued with the small ones; it is the next"}}
	want := []string{"token    01m7x10xrxdede0w5f6f5x36xzrgp5zakeh5kezq26pawjktlf4u",
		"message  queued with the small ones; it", "         is the next"}
	if diff := cmp.Diff(want, layout(pairs, 40)); diff != "" {
		t.Errorf("names and values (-want +got):\n%s", diff)
	}
	if got := layout(nil, 80); len(got) != 0 {
		t.Errorf("an empty table: got %q", got)
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text          string
		width, indent int
		want          []string
	}{
		{"", 10, 0, []string{""}},
		{"exactly 10", 10, 4, []string{"exactly 10"}},
		{"one two three", 8, 2, []string{"one two", "  three"}},
		{"  - a reason that is long", 12, 4, []string{"  - a reason", "    that is", "    long"}},
		{"http://example.org/a", 10, 0, []string{"http://example.org/a"}},
		{"at http://example.org/a it is", 10, 2, []string{"at", "  http://example.org/a", "  it is"}},
		{"größere Häuser", 8, 0, []string{"größere", "Häuser"}},
		{"one" + strings.Repeat(" ", 20) + "two", 8, 2, []string{"one", "  two"}},
		{strings.Repeat(" ", 20) + "one two", 8, 2, []string{"one two"}},
		{"ended   ", 6, 2, []string{"ended"}},
	} {
		if diff := cmp.Diff(c.want, wrap(c.text, c.width, c.indent)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.text, diff)
		}
	}
}

// FuzzLayout: no line is too long but for a long word, and nothing is lost.
func FuzzLayout(f *testing.F) {
	f.Add("ing_01J9", "Failed", "sheet-1.svg: not found", 40)
	f.Add("größe", " ", "x  y", 41)
	f.Add("0", "1", "x"+strings.Repeat("\n", 500)+"y", 157)
	f.Fuzz(func(t *testing.T, a, b, text string, width int) {
		if width < 21 || width > 200 || !utf8.ValidString(a) || !utf8.ValidString(b) || !utf8.ValidString(text) {
			return
		}
		row := []string{Clean(a), Clean(b), Clean(text)}
		got := layout([][]string{{"A", "B", "C"}, row}, width)
		for _, line := range got {
			words := strings.Fields(line)
			if n := utf8.RuneCountInString(line); n > max(width, gap+narrow/2) &&
				utf8.RuneCountInString(words[len(words)-1]) <= narrow/2 {
				t.Errorf("%d runes in %d columns: %q", n, width, line)
			}
		}
		blank := strings.NewReplacer(" ", "")
		if all, want := blank.Replace(strings.Join(got, "")),
			blank.Replace("ABC"+strings.Join(row, "")); len(all) != len(want) {
			t.Errorf("got %q, want %q", all, want)
		}
	})
}

func TestWrapHelp(t *testing.T) {
	got := wrapHelp("A paragraph that was broken\nelsewhere.\n\nFlags:\n"+
		"  -m, --note string   why; stands in the history\n      --all           everything\n", 44)
	want := `A paragraph that was broken elsewhere.

Flags:
  -m, --note string   why; stands in the
                      history
      --all           everything
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
