package draw

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/width"
)

// clean keeps a text on its line: no control characters, none that turn the direction of writing, none that XML does
// not know. Names and messages come from outside.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r' || r == '\u2028' || r == '\u2029':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r&0xfffe == 0xfffe, r >= 0xfdd0 && r <= 0xfdef:
			return -1
		case unicode.Is(unicode.Co, r): // private: no one can determine how wide it is
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// ascii replaces what is not ASCII.
func ascii(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '…':
			return '~'
		case r > unicode.MaxASCII:
			return '?'
		}
		return r
	}, s)
}

// columns reports how many columns of a terminal a rune takes: 2 for wide ones, 0 for those that go on top of the one
// before.
func columns(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// columnsOf reports how many columns a clean text takes.
func columnsOf(s string) int {
	n := 0
	for _, r := range s {
		n += columns(r)
	}
	return n
}

// cut shortens a clean text to a number of columns; that something is missing is shown by an ellipsis. Marks without
// width are bounded as well.
func cut(s string, most int) string {
	if most <= 0 {
		return ""
	}
	n, keep, marks := 0, 0, 0
	for i, r := range s {
		w := columns(r)
		if w == 0 {
			marks++
		}
		if n+w > most || marks > 2*most {
			return s[:keep] + "…"
		}
		n += w
		if n <= most-1 {
			keep = i + len(string(r))
		}
	}
	return s
}

// took writes a duration with two units at most: "320ms", "1.2s", "45s", "3m12s", "5h03m", "4d06h".
func took(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// moment writes a time: of the day if it is within a day of now, else with the date.
func moment(t, now time.Time) string {
	if d := t.Sub(now); !now.IsZero() && d > -24*time.Hour && d < 24*time.Hour {
		return t.UTC().Format("15:04:05 UTC")
	}
	return t.UTC().Format("2006-01-02 15:04 UTC")
}
