package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Write passes on what came from outside: as it is in a pipe or a file, with its control characters escaped on a
// terminal. Sequences of this program go through own.
func (p *Printer) Write(b []byte) (int, error) {
	if !p.Terminal {
		return p.put(b)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(b), p.pass(b, false)
}

// Own writes text whose control characters are this program's: colors, and what moves the cursor.
func (p *Printer) Own(text string) error {
	if err := p.Flush(); err != nil {
		return err
	}
	_, err := p.put([]byte(text))
	return err
}

// Flush writes the begin of a character whose end did not come.
func (p *Printer) Flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.rest) == 0 {
		return nil
	}
	return p.pass(nil, true)
}

// pass writes to the terminal what is whole of rest and b, or with last all of it. The lock is held.
func (p *Printer) pass(b []byte, last bool) error {
	var text strings.Builder
	b = append(p.rest, b...)
	for len(b) > 0 && (last || utf8.FullRune(b)) {
		r, n := utf8.DecodeRune(b)
		switch {
		case p.Mode == ModeJSON:
			text.WriteString(shownJSON(r))
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&text, `\x%02x`, b[0])
		case r == '\n' && p.returned: // \r\n is one end of a line
		default:
			text.WriteString(shown(r))
		}
		p.returned = r == '\r'
		b = b[n:]
	}
	p.rest = append([]byte(nil), b...)
	_, err := p.put([]byte(text.String()))
	return err
}

// hostile reports whether a character can control a terminal or change the order in which text is shown.
func hostile(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r)
}

// shown gives a character as a terminal shows it. A carriage return ends the line, so that no text hides what was
// before it.
func shown(r rune) string {
	switch {
	case r == '\n', r == '\r':
		return "\n"
	case r == '\t' || !hostile(r):
		return string(r)
	case r < utf8.RuneSelf:
		return fmt.Sprintf(`\x%02x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// shownJSON gives a character of JSON as a terminal shows it: outside of strings there are no others than white space,
// and in strings \u means the same.
func shownJSON(r rune) string {
	if r == '\n' || r == '\t' || !hostile(r) {
		return string(r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// safeJSON escapes the control characters of JSON that a terminal is to show.
func safeJSON(text []byte) string {
	var b strings.Builder
	for _, r := range string(text) { // bytes that are no UTF-8 become U+FFFD
		b.WriteString(shownJSON(r))
	}
	return b.String()
}
