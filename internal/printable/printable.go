// Package printable decides which characters of a text of strangers may be shown as they are.
package printable

import (
	"fmt"
	"iter"
	"strings"
	"unicode"
)

// Joiners, which have no width. Spelling needs them in some scripts; elsewhere they would hide that two texts differ.
const (
	nonJoiner = '\u200c'
	joiner    = '\u200d'
	emoji     = '\ufe0f' // the variation selector after a symbol that is an emoji
)

// joining are the scripts whose spelling has joiners: the cursive ones, and those with conjuncts.
var joining = []*unicode.RangeTable{unicode.Arabic, unicode.Syriac, unicode.Mandaic, unicode.Nko, unicode.Mongolian,
	unicode.Phags_Pa, unicode.Adlam, unicode.Hanifi_Rohingya, unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi,
	unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam,
	unicode.Sinhala, unicode.Tibetan, unicode.Myanmar, unicode.Khmer, unicode.Balinese, unicode.Javanese,
	unicode.Sundanese, unicode.Meetei_Mayek, unicode.Chakma, unicode.Newa, unicode.Tirhuta, unicode.Grantha}

// Runes yields the characters of a text, and whether each may be shown as it is: it is printed, or a joiner where
// spelling has it. Those are one joiner after a letter or mark of a script that uses them, and U+200D between two
// symbols (emoji). Other joiners, control characters and what turns the direction of writing are not shown.
func Runes(text string) iter.Seq2[rune, bool] {
	return func(yield func(rune, bool) bool) {
		var base rune // the character before, without marks that all scripts share
		for at, r := range text {
			ok := unicode.IsPrint(r)
			switch {
			case r == nonJoiner:
				ok, base = joins(base), 0
			case r == joiner:
				ok, base = joins(base) || symbol(base) && symbol(first(text[at+len(string(joiner)):])), 0
			case r != emoji && !unicode.Is(unicode.Inherited, r):
				base = r
			}
			if !yield(r, ok) {
				return
			}
		}
	}
}

func joins(r rune) bool {
	return (unicode.IsLetter(r) || unicode.IsMark(r)) && unicode.In(r, joining...)
}

// symbol reports whether a character can be a part of an emoji: a symbol, or the color of a skin.
func symbol(r rune) bool { return r >= 0x2000 && unicode.IsSymbol(r) }

func first(text string) rune {
	for _, r := range text {
		return r
	}
	return 0
}

// mostBlock is how many bytes of a text with several lines are shown.
const mostBlock = 64 << 10

// Lines returns a text with several lines, which may be of strangers, for a page: its lines are kept, and what cannot
// be printed is replaced.
func Lines(text string) string {
	if len(text) > mostBlock {
		text = text[:mostBlock] + "…"
	}
	var b strings.Builder
	for r, ok := range Runes(text) {
		if r != '\n' && r != '\t' && !ok {
			r = '\ufffd'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// mostShown is how many characters of a text are shown. Data (JSON, CSV) has all of it.
const mostShown = 300

// Shown makes a text of strangers harmless where people read it: what could begin a line, turn the direction of writing
// or hide is shown by its number, and a very long text is cut with an ellipsis.
func Shown(text string) string {
	var b strings.Builder
	n := 0
	for r, ok := range Runes(strings.ToValidUTF8(text, "\ufffd")) {
		if n++; n > mostShown {
			b.WriteString("…")
			break
		}
		if ok {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "<U+%04X>", r)
		}
	}
	return b.String()
}
