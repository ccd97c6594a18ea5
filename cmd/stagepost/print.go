package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// The ways to print.
const (
	modeTable = "table"
	modePlain = "plain"
	modeJSON  = "json"
)

// printer prints tables on a terminal, plain lines in a pipe, JSON if asked. On a terminal it escapes control characters of what it
// prints (terminal.go).
type printer struct {
	io.Writer
	mode     string
	terminal bool
	width    int

	mu       sync.Mutex // guards the rest: logs and messages come from several goroutines
	rest     []byte     // the begin of a character that a terminal is to show
	returned bool       // the last character was a carriage return
}

func newPrinter(w io.Writer) *printer {
	p := &printer{Writer: w, mode: modePlain, width: 80}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.terminal, p.mode = true, modeTable
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 20 {
			p.width = n
		}
	}
	return p
}

// use takes the mode that -o names; empty leaves what fits the output.
func (p *printer) use(mode string) error {
	switch mode {
	case "":
	case modeTable, modePlain, modeJSON:
		p.mode = mode
	default:
		return usagef("-o must be table, plain or json, not %q", mode)
	}
	return nil
}

// json prints a value as the API gives it, indented.
func (p *printer) json(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return p.indent(text)
}

func (p *printer) indent(text []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(text), "", "  "); err != nil {
		return err
	}
	return p.lineJSON(b.Bytes())
}

// message prints a value as one line of JSON.
func (p *printer) message(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return p.lineJSON(text)
}

func (p *printer) lineJSON(text []byte) error {
	if p.terminal {
		return p.own(safeJSON(text) + "\n")
	}
	_, err := fmt.Fprintf(p, "%s\n", text)
	return err
}

// table prints rows: aligned under a heading, or one line each with tabs and without the heading.
func (p *printer) table(heading []string, rows [][]string) error {
	if p.mode == modePlain {
		for _, row := range rows {
			for i := range row {
				row[i] = clean(row[i])
			}
			if _, err := fmt.Fprintln(p, strings.Join(row, "\t")); err != nil {
				return err
			}
		}
		return nil
	}
	all := make([][]string, 0, len(rows)+1)
	if len(heading) > 0 {
		all = append(all, heading)
	}
	for _, row := range rows {
		for i := range row {
			row[i] = clean(row[i])
		}
		all = append(all, row)
	}
	return p.lines(layout(all, p.columns()))
}

// columns gives the width of the terminal, 0 where lines may have any length.
func (p *printer) columns() int {
	if p.terminal {
		return p.width
	}
	return 0
}

// lines prints lines that are clean, but for colors.
func (p *printer) lines(lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	return p.own(strings.Join(lines, "\n") + "\n")
}

// sheet prints names and values; those without a value are left out.
func (p *printer) sheet(pairs [][2]string) error {
	var rows [][]string
	for _, pair := range pairs {
		if pair[1] == "" {
			continue
		}
		rows = append(rows, []string{pair[0], pair[1]})
	}
	return p.table(nil, rows)
}

// line prints a sentence.
func (p *printer) line(format string, args ...any) {
	text := clean(fmt.Sprintf(format, args...))
	if !p.terminal || p.mode == modePlain {
		fmt.Fprintln(p, text)
		return
	}
	lead := len(text) - len(strings.TrimLeft(text, " "))
	p.lines(wrap(text, p.width, lead+2*gap))
}

// none says on a terminal that a list is empty, where a pipe gets no line.
func (p *printer) none(sentence string) error {
	if p.mode != modeTable {
		return nil
	}
	_, err := fmt.Fprintln(p, sentence)
	return err
}

// clean keeps a text from moving the cursor, faking lines or columns: it comes from whoever named a file.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r' || r == '\u2028' || r == '\u2029':
			return ' '
		case hostile(r):
			return -1
		}
		return r
	}, s)
}

// when writes a time for the mode: how long ago on a terminal, exact in a pipe.
func (p *printer) when(t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case p.mode == modeTable:
		return ago(time.Since(t))
	}
	return t.UTC().Format(time.RFC3339)
}

// moment writes a time where there is room: exact, and on a terminal how long ago as well.
func (p *printer) moment(t time.Time) string {
	if t.IsZero() || p.mode != modeTable {
		return p.when(t)
	}
	past := ago(time.Since(t))
	if !strings.HasPrefix(past, "in ") {
		past += " ago"
	}
	return t.Local().Format("2006-01-02 15:04:05") + " (" + past + ")"
}

// ago writes a duration with one unit: "3s", "12m", "5h", "4d"; "in 3s" when it is negative.
func ago(d time.Duration) string {
	prefix := ""
	if d < 0 {
		prefix, d = "in ", -d
	}
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%s%ds", prefix, int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%s%dm", prefix, int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%s%dh", prefix, int(d.Hours()))
	}
	return fmt.Sprintf("%s%dd", prefix, int(d.Hours()/24))
}
