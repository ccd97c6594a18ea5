package printable

import (
	"fmt"
	"strings"
	"testing"
)

func shown(text string) string {
	var b strings.Builder
	for r, ok := range Runes(text) {
		if ok {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "<%x>", r)
		}
	}
	return b.String()
}

// TestShown: a text is as it is spelled, what hides or turns a text is visible in it, and it has an end.
func TestShown(t *testing.T) {
	spelled := "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f468\u200d\U0001f469"
	for text, want := range map[string]string{
		spelled + "ad\u200cmin\u202e": spelled + "ad<U+200C>min<U+202E>",
		"a\nb\x1b[1m\xff":             "a<U+000A>b<U+001B>[1m\ufffd",
		strings.Repeat("é", 300):      strings.Repeat("é", 300),
		strings.Repeat("é", 301):      strings.Repeat("é", 300) + "…",
	} {
		if got := Shown(text); got != want {
			t.Errorf("got %+q, want %+q", got, want)
		}
	}
}

// TestSpelling: texts that are spelled with joiners are as they were.
func TestSpelling(t *testing.T) {
	for what, text := range map[string]string{
		"Persian":                "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
		"Persian with a mark":    "\u0645\u064f\u200c\u062e",
		"Arabic, the first form": "\u0647\u200d 1445",
		"Devanagari":             "\u0930\u094d\u200d\u092f \u0915\u094d\u200c\u0937",
		"Bengali":                "\u09b0\u200d\u09cd\u09af",
		"Sinhala":                "\u0dc1\u0dca\u200d\u0dbb\u0dd3",
		"Malayalam, at the end":  "\u0d05\u0d35\u0d28\u0d4d\u200d",
		"a family":               "\U0001f468\u200d\U0001f469\u200d\U0001f467",
		"a colored astronaut":    "\U0001f469\U0001f3fd\u200d\U0001f680",
		"a heart on fire":        "\u2764\ufe0f\u200d\U0001f525",
		"a head that is shaken":  "\U0001f642\u200d\u2194\ufe0f",
	} {
		if got := shown(text); got != text {
			t.Errorf("%s: got %s", what, got)
		}
	}
}

// TestForgeries: what hides that two texts differ, or turns the direction of writing, is not shown as it is.
func TestForgeries(t *testing.T) {
	for text, want := range map[string]string{
		"ad\u200cmin":                         "ad<200c>min",
		"ad\u200dmin":                         "ad<200d>min",
		"\u200dadmin":                         "<200d>admin",
		"a\u0301\u200cb":                      "a\u0301<200c>b",
		"a\ufe0f\u200db":                      "a\ufe0f<200d>b",
		"\u0430\u200c\u03b1\u200d":            "\u0430<200c>\u03b1<200d>",
		"1\u200c2 \u200d":                     "1<200c>2 <200d>",
		"\u06cc\u200c\u200c\u062e":            "\u06cc\u200c<200c>\u062e",
		"\u06f1\u200c\u06f2":                  "\u06f1<200c>\u06f2", // digits
		"\U0001f468\u200dadmin":               "\U0001f468<200d>admin",
		"\U0001f468\u200c\U0001f469":          "\U0001f468<200c>\U0001f469",
		"\U0001f468\u200d\u200d\U0001f469":    "\U0001f468<200d><200d>\U0001f469",
		"+\u200d+":                            "+<200d>+",
		"\u202eevil\u2066 \u200f\u200b\u00ad": "<202e>evil<2066> <200f><200b><ad>",
		"\x1b[0m\n":                           "<1b>[0m<a>",
	} {
		if got := shown(text); got != want {
			t.Errorf("%+q: got %+q, want %+q", text, got, want)
		}
	}
	for range Runes("stops") {
		break
	}
}
