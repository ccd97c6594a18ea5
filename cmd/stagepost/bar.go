package main

import (
	"fmt"
	"strings"
)

// bar shows how far something is: one line that is drawn over on a terminal, a line per change elsewhere.
type bar struct {
	out  *printer
	last string
	on   bool // the line stands on the terminal
}

// show draws the state; total 0 means that the end is not known.
func (b *bar) show(done, total int64, text string) error {
	text = clean(text)
	if !b.out.terminal || b.out.mode != modeTable {
		line := fmt.Sprintf("progress\t%d\t%d\t%s", done, total, text)
		if line == b.last {
			return nil
		}
		b.last = line
		_, err := fmt.Fprintln(b.out, line)
		return err
	}
	const room = 24
	line := text
	if total > 0 {
		n := int(min(done, total) * room / total)
		line = fmt.Sprintf("[%s%s] %3d%% %s", strings.Repeat("#", n), strings.Repeat(".", room-n), min(done, total)*100/total, text)
	}
	if runes := []rune(line); len(runes) >= b.out.width {
		line = string(runes[:b.out.width-1])
	}
	b.clear()
	b.on = true
	return b.out.own(line)
}

// clear takes the line away, so that another can be printed in its place.
func (b *bar) clear() {
	if b.on {
		_ = b.out.own("\r\x1b[K") // it is only decoration
		b.on = false
	}
}

// end leaves the line standing.
func (b *bar) end() {
	if b.on {
		fmt.Fprintln(b.out)
		b.on = false
	}
}
