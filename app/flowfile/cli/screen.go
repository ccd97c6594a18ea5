package flowcli

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/stagepost/stagepost/cli"
)

// screen is a part of a terminal that is drawn over: lines that replace those that were drawn before. The size of the
// terminal may change at any time.
type screen struct {
	out           *cli.Printer
	measure       func() (width, height int)
	width, height int      // when it was last drawn
	drawn         []string // that stand on the terminal
}

// newScreen gives a screen on the terminal of a printer.
func newScreen(out *cli.Printer) *screen {
	return &screen{out: out, measure: func() (int, int) {
		if f, ok := out.Writer.(*os.File); ok {
			if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
				return w, h
			}
		}
		return out.Width, 24
	}}
}

// space is how wide lines may be, and how many can be drawn, so that all of them stay on the terminal. Lines of the
// full width would make some terminals begin another.
func (s *screen) space() (width, lines int) {
	w, h := s.measure()
	return max(w-1, 1), max(h-1, 1)
}

// draw puts lines in the position of the last ones. There must not be more of them than space allows, nor longer ones.
func (s *screen) draw(lines []string) error {
	w, h := s.measure()
	var b strings.Builder
	if len(s.drawn) > 0 && (w != s.width || h != s.height) {
		// terminals break and scroll old lines each in their own way: none of them can be found again
		b.WriteString("\x1b[H\x1b[2J")
		s.drawn = nil
	}
	s.width, s.height = w, h
	if n := len(s.drawn); n > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", n)
	}
	for i, line := range lines {
		if i >= len(s.drawn) || s.drawn[i] != line {
			b.WriteString(line)
			b.WriteString("\x1b[K")
		}
		b.WriteString("\r\n")
	}
	if len(lines) < len(s.drawn) {
		b.WriteString("\x1b[J")
	}
	s.drawn = lines
	return s.out.Own(b.String())
}
