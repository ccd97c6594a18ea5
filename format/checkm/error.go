package checkm

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Error is a violation of the grammar: its position, what was expected and what was found. Every error of a [Reader]
// is an Error, and so is every refusal of a [Writer]. The position of a refusal is the one that the field would have
// in the file.
type Error struct {
	File     string // name given to NewReader, may be empty
	Line     int    // from 1
	Column   int    // from 1, counts characters (an invalid byte is one); 0 = the line as a whole
	Expected string // noun phrase: "a file size in bytes"
	Got      string // as printed: quoted and shortened text, or a phrase such as "end of file"
	Err      error  // external cause, such as a failed read; nil for a mistake in the text
}

// Error returns file:line:column: expected ..., found ...
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		b.WriteByte(':')
	}
	b.WriteString(strconv.Itoa(e.Line))
	if e.Column > 0 {
		b.WriteByte(':')
		b.WriteString(strconv.Itoa(e.Column))
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
		return b.String()
	}
	fmt.Fprintf(&b, ": expected %s, found %s", e.Expected, e.Got)
	return b.String()
}

// Unwrap returns the external cause, if there is one.
func (e *Error) Unwrap() error { return e.Err }

const quoteRunes = 60 // number of characters of a quoted text that a message shows

// quote formats a piece of a manifest for a message: printable, on one line, of bounded length.
func quote(s string) string {
	if s == "" {
		return "nothing"
	}
	n := 0
	for i := range s {
		if n == quoteRunes {
			return strconv.Quote(s[:i] + "…")
		}
		n++
	}
	return strconv.Quote(s)
}

// quoteURL is quote without the user and password of a URL.
func quoteURL(s string) string {
	if start := strings.Index(s, "//"); start >= 0 {
		start += 2
		end := len(s)
		if i := strings.IndexAny(s[start:], "/?#"); i >= 0 {
			end = start + i
		}
		if at := strings.LastIndexByte(s[start:end], '@'); at >= 0 {
			s = s[:start] + "***" + s[start+at:]
		}
	}
	return quote(s)
}

// column is the number of the character that starts at byte at.
func column(line string, at int) int { return utf8.RuneCountInString(line[:at]) + 1 }
