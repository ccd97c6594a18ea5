package cli

import (
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	gap = 2 // blanks between columns
	// the last column is a sentence: it is wrapped, but goes on a line of its own rather than into less than this
	narrow = 40
)

// layout aligns a table of clean cells, the heading first, for a terminal of a width. Nothing is cut off: columns that
// do not fit follow on lines of their own, aligned as well, and the last column of a line is wrapped below itself.
// Width 0 is endless.
func layout(rows [][]string, width int) []string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	bands := fold(widths, least(rows, len(widths)-1, width), width)
	var lines []string
	for _, row := range rows {
		first := 0
		for n, end := range bands {
			if n == 0 || slices.ContainsFunc(row[min(first, len(row)):min(end, len(row))],
				func(s string) bool { return s != "" }) {
				lines = append(lines, band(row, widths, first, end, width)...)
			}
			first = end
		}
	}
	return lines
}

// least returns the columns that the last column needs: its sentences are wrapped, but no word that can stand on a line
// is broken.
func least(rows [][]string, last, width int) int {
	if last < 2 {
		return narrow / 2 // names and values stay side by side
	}
	n := narrow
	for _, row := range rows {
		if len(row) != last+1 {
			continue
		}
		for word := range strings.FieldsSeq(row[last]) {
			if k := utf8.RuneCountInString(word); k <= width-gap {
				n = max(n, k)
			}
		}
	}
	return n
}

// fold spreads columns over lines: it gives for each line the column after its last. The last one can do with less than
// its width.
func fold(widths []int, least, width int) []int {
	var ends []int
	at := 0
	for i, w := range widths {
		if i == len(widths)-1 {
			w = min(w, least)
		}
		if at > 0 && width > 0 && at+gap+w > width {
			ends = append(ends, i)
			at = gap
		} else if at > 0 {
			at += gap
		}
		at += w
	}
	return append(ends, len(widths))
}

// band gives the lines of the columns from first to end of a row.
func band(row []string, widths []int, first, end, width int) []string {
	var b strings.Builder
	at := 0
	if first > 0 {
		at = gap
		b.WriteString(strings.Repeat(" ", gap))
	}
	for i := first; i < end && i < len(row); i++ {
		if i == end-1 && width > 0 {
			text := wrap(row[i], max(width-at, narrow/2), 0)
			b.WriteString(text[0])
			lines := []string{strings.TrimRight(b.String(), " ")}
			for _, more := range text[1:] {
				lines = append(lines, strings.Repeat(" ", at)+more)
			}
			return lines
		}
		b.WriteString(row[i])
		b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(row[i])+gap))
		at += widths[i] + gap
	}
	return []string{strings.TrimRight(b.String(), " ")}
}

// mostName is the width of the column of names in a sheet. A longer name, and a word that does not fit beside its name,
// has a line of its own.
const mostName = 24

// sheet gives the lines of names and values. Values are wrapped in their column.
func sheet(rows [][]string, width int) (lines []string) {
	column := 0
	for _, row := range rows {
		if n := utf8.RuneCountInString(row[0]); n <= mostName {
			column = max(column, n)
		}
	}
	for _, row := range rows {
		name, value := Clean(row[0]), Clean(row[1])
		n := max(column, utf8.RuneCountInString(name))
		fits := n+gap+utf8.RuneCountInString(value) <= width
		if !fits && (n > column || !strings.Contains(value, " ")) {
			lead := len(name) - len(strings.TrimLeft(name, " ")) + 2*gap
			lines = append(lines, name)
			lines = append(lines, wrap(strings.Repeat(" ", lead)+value, width, lead)...)
			continue
		}
		pad := strings.Repeat(" ", n+gap-utf8.RuneCountInString(name))
		for i, line := range wrap(value, width-n-gap, 0) {
			if i > 0 {
				name, pad = "", strings.Repeat(" ", n+gap)
			}
			lines = append(lines, name+pad+line)
		}
	}
	return lines
}

// wrap breaks a text into lines of at most a width; all but the first are indented. Blanks at the beginning stay,
// unless they fill a line; where a line is broken they go. A word that is longer (an address, a token) stays in one
// piece, so that it can be copied: the terminal breaks it.
func wrap(text string, width, indent int) []string {
	var lines []string
	text = strings.TrimRight(text, " ")
	if first := strings.TrimLeft(text, " "); len(text)-len(first) >= width {
		text = first
	}
	rest := []rune(text)
	for room := width; len(rest) > room; room = width - indent {
		cut, lead := room, 0
		for lead < len(rest) && rest[lead] == ' ' {
			lead++
		}
		for cut > lead && rest[cut] != ' ' {
			cut--
		}
		if cut <= lead {
			for cut = max(lead, room); cut < len(rest) && rest[cut] != ' '; cut++ {
			}
		}
		if cut == len(rest) {
			break
		}
		lines = append(lines, strings.TrimRight(string(rest[:cut]), " "))
		for rest = rest[cut:]; rest[0] == ' '; { // a word follows
			rest = rest[1:]
		}
	}
	lines = append(lines, string(rest))
	for i := 1; i < len(lines); i++ {
		lines[i] = strings.Repeat(" ", indent) + lines[i]
	}
	return lines
}

// wrapHelp breaks help for a terminal: paragraphs anew, what is indented below itself, descriptions in their column.
func wrapHelp(text string, width int) string {
	var out []string
	paragraph := ""
	end := func() {
		if paragraph != "" {
			out = append(out, wrap(paragraph, width, 0)...)
			paragraph = ""
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "", line[0] == ' ':
			end()
			out = append(out, wrap(line, width, min(description(line), width/2))...)
		case strings.HasSuffix(line, ":") && paragraph == "" && len(line) < width:
			out = append(out, line)
		default:
			paragraph = strings.TrimSpace(paragraph + " " + line)
		}
	}
	end()
	return strings.Join(out, "\n") + "\n"
}

// description gives the column in which an indented line's second part begins, or where to go on if it has none.
func description(line string) int {
	text := strings.TrimLeft(line, " ")
	lead := len(line) - len(text)
	i := strings.Index(text, "  ")
	if i < 0 {
		return lead + 2*gap
	}
	return lead + len(text) - len(strings.TrimLeft(text[i:], " "))
}
