package flowcli

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/cli"
)

// terminal shows what a screen wrote: the few sequences that screens use, and nothing else.
type terminal struct {
	t    *testing.T
	rows []string
	at   int
}

var sequence = regexp.MustCompile(`^\x1b\[([0-9]*)([AHJK])|^\x1b\[2J`)

func (m *terminal) write(text string) {
	m.t.Helper()
	for text != "" {
		for len(m.rows) <= m.at {
			m.rows = append(m.rows, "")
		}
		switch {
		case strings.HasPrefix(text, "\x1b[2J"):
			m.rows, text = nil, text[4:]
		case strings.HasPrefix(text, "\x1b"):
			found := sequence.FindStringSubmatch(text)
			if found == nil {
				m.t.Fatalf("an unknown sequence: %q", text[:min(len(text), 10)])
			}
			n, _ := strconv.Atoi(found[1])
			switch found[2] {
			case "A":
				if n > m.at {
					m.t.Fatalf("it moves up %d lines from line %d", n, m.at)
				}
				m.at -= n
			case "H":
				m.at = 0
			case "J":
				m.rows = m.rows[:m.at]
			}
			text = text[len(found[0]):]
		case strings.HasPrefix(text, "\r\n"):
			m.at, text = m.at+1, text[2:]
		case text[0] == '\r':
			text = text[1:]
		default: // a line is always written from its beginning
			end := strings.IndexAny(text, "\r\x1b")
			if end < 0 {
				end = len(text)
			}
			m.rows[m.at], text = text[:end], text[end:]
		}
	}
}

func TestScreenIsDrawnOver(t *testing.T) {
	var out bytes.Buffer
	w, h := 40, 10
	s := &screen{out: &cli.Printer{Writer: &out}, measure: func() (int, int) { return w, h }}
	m := &terminal{t: t}
	show := func(lines ...string) string {
		t.Helper()
		out.Reset()
		if err := s.draw(lines); err != nil {
			t.Fatal(err)
		}
		wrote := out.String()
		m.write(wrote)
		if got := strings.TrimSuffix(strings.Join(m.rows, "|"), "|"); got != strings.Join(lines, "|") {
			t.Errorf("%q: got %q", lines, got)
		}
		return wrote
	}
	show("one", "two")
	if wrote := show("one", "three"); strings.Contains(wrote, "one") {
		t.Errorf("a line that stands there is written again: %q", wrote)
	}
	show("one", "three", "four")
	show("one")
	show("one", "two", "three")
	w = 30 // what stands there was broken anew by the terminal: it may not be counted
	m.rows, m.at = []string{"one", "two", "th", "ree"}, 4
	show("one", "two")
	show()
	if width, lines := s.space(); width != 29 || lines != 9 {
		t.Errorf("space for %d lines of %d", lines, width)
	}
	w, h = 0, 0
	if width, lines := s.space(); width != 1 || lines != 1 {
		t.Errorf("without a size: space for %d lines of %d", lines, width)
	}
}
