package pg

import (
	"strings"
	"unicode/utf8"
)

// escape begins an escape in a stored text. The character is a noncharacter of Unicode, which no real text has.
const escape = "\U0010FFFE"

const hexadecimal = "0123456789abcdef"

// Stored returns the form in which a text is stored. PostgreSQL refuses the byte 0 and texts that are not UTF-8: such
// bytes have an escape and two digits instead, and the escape itself is followed by two underscores.
func Stored(text string) string {
	if utf8.ValidString(text) && !strings.Contains(text, "\x00") && !strings.Contains(text, escape) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == 0 || r == utf8.RuneError && size == 1:
			b.WriteString(escape)
			b.WriteByte(hexadecimal[text[i]>>4])
			b.WriteByte(hexadecimal[text[i]&15])
		case text[i:i+size] == escape:
			b.WriteString(escape + "__")
		default:
			b.WriteString(text[i : i+size])
		}
		i += size
	}
	return b.String()
}

// Original is the reverse of Stored.
func Original(text string) string {
	if !strings.Contains(text, escape) {
		return text
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, escape)
		b.WriteString(before)
		if !found || len(rest) < 2 {
			return b.String()
		}
		if rest[:2] == "__" {
			b.WriteString(escape)
		} else {
			b.WriteByte(byte(strings.IndexByte(hexadecimal, rest[0])<<4 | strings.IndexByte(hexadecimal, rest[1])))
		}
		text = rest[2:]
	}
}
