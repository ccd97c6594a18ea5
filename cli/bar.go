package cli

import (
	"fmt"
	"strings"
)

// Bar shows how far something is: one line that is drawn over on a terminal, a line per change elsewhere.
type Bar struct {
	Out  *Printer
	last string
	on   bool // the line stands on the terminal
}

// Show draws the state; total 0 means that the end is not known.
func (b *Bar) Show(done, total int64, text string) error {
	text = Clean(text)
	if !b.Out.Terminal || b.Out.Mode != ModeTable {
		line := fmt.Sprintf("progress\t%d\t%d\t%s", done, total, text)
		if line == b.last {
			return nil
		}
		b.last = line
		_, err := fmt.Fprintln(b.Out, line)
		return err
	}
	const room = 24
	line := text
	if total > 0 {
		n := int(min(done, total) * room / total)
		line = fmt.Sprintf("[%s%s] %3d%% %s", strings.Repeat("#", n), strings.Repeat(".", room-n),
			min(done, total)*100/total, text)
	}
	if runes := []rune(line); len(runes) >= b.Out.Width {
		line = string(runes[:b.Out.Width-1])
	}
	b.Clear()
	b.on = true
	return b.Out.Own(line)
}

// Clear erases the line, so that another can be printed there.
func (b *Bar) Clear() {
	if b.on {
		_ = b.Out.Own("\r\x1b[K") // it is only decoration
		b.on = false
	}
}

// End leaves the line standing.
func (b *Bar) End() {
	if b.on {
		fmt.Fprintln(b.Out)
		b.on = false
	}
}
