package cli

import (
	"os"
	"strings"
	"unicode/utf8"
)

// Colors of text on a terminal.
const (
	Red    = "31"
	Green  = "32"
	Yellow = "33"
	Faint  = "2"
	Bold   = "1"
)

// Paint colors clean text on a terminal (no-color.org).
func (p *Printer) Paint(color, text string) string {
	if !p.Terminal || p.Mode != ModeTable || color == "" || strings.TrimSpace(text) == "" ||
		os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// Rows prints a table with one line a row: on a terminal that is too narrow the last columns, as many as give, are cut,
// and then the widest of the others; the first keeps half of the line. color gives the color of a cell; nil: none has
// one. Elsewhere nothing is cut.
func (p *Printer) Rows(heading []string, rows [][]string, give int, color func(row, column int) string) error {
	if p.Mode != ModeTable || !p.Terminal {
		return p.Table(heading, rows)
	}
	all := [][]string{heading}
	for _, row := range rows {
		clean := make([]string, len(row))
		for i := range row {
			clean[i] = Clean(row[i])
		}
		all = append(all, clean)
	}
	widths := narrowed(all, give, p.Width)
	lines := make([]string, len(all))
	for n, row := range all {
		var b strings.Builder
		left := p.Width
		for i, cell := range row {
			if widths[i] == 0 {
				continue
			}
			width := widths[i]
			if strings.Join(row[i+1:], "") == "" { // the rest of the line is free
				width = max(width, left)
			}
			text := Cut(cell, width)
			pad := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(text))+gap)
			left -= widths[i] + gap
			switch {
			case n == 0:
				text = p.Paint(Bold, text)
			case color != nil:
				text = p.Paint(color(n-1, i), text)
			}
			b.WriteString(text + pad)
		}
		lines[n] = strings.TrimRight(b.String(), " ")
	}
	return p.Lines(lines)
}

// narrowest is the width below which a column is cut only if all others are as narrow.
const narrowest = 6

// narrowed gives the widths of columns so that a row fits a line. A column without any text has none; the last columns
// that give share what the others leave.
func narrowed(rows [][]string, give, width int) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows[1:] {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	first := len(widths) - give
	room, open, least := width, 0, 0
	for i := range widths {
		if widths[i] == 0 {
			continue
		}
		widths[i] = max(widths[i], utf8.RuneCountInString(rows[0][i]))
		if i < first {
			room -= widths[i] + gap
		} else {
			room -= gap
			least += min(widths[i], narrowest)
			open++
		}
	}
	room += gap                  // none stands behind the last
	for ; room < least; room++ { // the others leave too little
		widest := 0
		for i := 1; i < first; i++ {
			if widths[i] > narrowest && (widest == 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widths[0] > width/2 && widths[0] > widths[widest] {
			widest = 0
		}
		if widest == 0 && widths[0] <= width/2 {
			break
		}
		widths[widest]--
	}
	for i := first; i < len(widths); i++ {
		if widths[i] == 0 {
			continue
		}
		later := 0 // what the columns behind it need
		for _, w := range widths[i+1:] {
			later += w
		}
		widths[i] = max(min(widths[i], max(room/open, room-later)), 1)
		room -= widths[i]
		open--
	}
	return widths
}

// Cut shortens text to a number of characters, with dots where it was cut.
func Cut(text string, n int) string {
	runes := []rune(text)
	switch {
	case len(runes) <= n:
		return text
	case n <= 3:
		return string(runes[:n])
	}
	return string(runes[:n-3]) + "..."
}
