package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"
)

// The ways to print.
const (
	ModeTable = "table"
	ModePlain = "plain"
	ModeJSON  = "json"
)

// Printer prints tables on a terminal, plain lines in a pipe, JSON if asked. On a terminal it escapes control
// characters of what it prints (terminal.go).
type Printer struct {
	io.Writer
	Mode     string
	Terminal bool
	Width    int

	mu       sync.Mutex // guards the rest: logs and messages come from several goroutines
	rest     []byte     // the begin of a character that a terminal is to show
	returned bool       // the last character was a carriage return

	lost atomic.Pointer[error] // the first error of a write
}

// put writes as it is. All that is printed goes through it.
func (p *Printer) put(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	if err != nil {
		p.lost.CompareAndSwap(nil, &err)
	}
	return n, err
}

// Lost returns the first error of a write, even if the caller of the write ignored it: what was printed is incomplete.
func (p *Printer) Lost() error {
	if err := p.lost.Load(); err != nil {
		return *err
	}
	return nil
}

func NewPrinter(w io.Writer) *Printer {
	p := &Printer{Writer: w, Mode: ModePlain, Width: 80}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.Terminal, p.Mode = true, ModeTable
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 20 {
			p.Width = n
		}
	}
	return p
}

// Use takes the mode that -o names; empty leaves what fits the output.
func (p *Printer) Use(mode string) error {
	switch mode {
	case "":
	case ModeTable, ModePlain, ModeJSON:
		p.Mode = mode
	default:
		return Usagef("-o must be table, plain or json, not %q", mode)
	}
	return nil
}

// JSON prints a value as the API gives it, indented.
func (p *Printer) JSON(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return p.Indent(text)
}

func (p *Printer) Indent(text []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(text), "", "  "); err != nil {
		return err
	}
	return p.lineJSON(b.Bytes())
}

// message prints a value as one line of JSON.
func (p *Printer) message(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return p.lineJSON(text)
}

func (p *Printer) lineJSON(text []byte) error {
	if p.Terminal {
		return p.Own(safeJSON(text) + "\n")
	}
	_, err := fmt.Fprintf(p, "%s\n", text)
	return err
}

// Table prints rows: aligned under a heading, or one line each with tabs and without the heading.
func (p *Printer) Table(heading []string, rows [][]string) error {
	if p.Mode == ModePlain {
		for _, row := range rows {
			for i := range row {
				row[i] = Clean(row[i])
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
			row[i] = Clean(row[i])
		}
		all = append(all, row)
	}
	return p.Lines(layout(all, p.Columns()))
}

// Columns gives the width of the terminal, 0 where lines may have any length.
func (p *Printer) Columns() int {
	if p.Terminal {
		return p.Width
	}
	return 0
}

// Lines prints lines that are clean, but for colors.
func (p *Printer) Lines(lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	return p.Own(strings.Join(lines, "\n") + "\n")
}

// Sheet prints names and values; those without a value are left out.
func (p *Printer) Sheet(pairs [][2]string) error {
	var rows [][]string
	for _, pair := range pairs {
		if pair[1] == "" {
			continue
		}
		rows = append(rows, []string{pair[0], pair[1]})
	}
	if p.Columns() == 0 || p.Mode == ModePlain {
		return p.Table(nil, rows)
	}
	return p.Lines(sheet(rows, p.Width))
}

// Line prints a sentence.
func (p *Printer) Line(format string, args ...any) {
	text := Clean(fmt.Sprintf(format, args...))
	if !p.Terminal || p.Mode == ModePlain {
		fmt.Fprintln(p, text)
		return
	}
	lead := len(text) - len(strings.TrimLeft(text, " "))
	p.Lines(wrap(text, p.Width, lead+2*gap))
}

// None prints on a terminal that a list is empty. A pipe gets no line.
func (p *Printer) None(sentence string) error {
	if p.Mode != ModeTable {
		return nil
	}
	_, err := fmt.Fprintln(p, sentence)
	return err
}

// Clean keeps a text from moving the cursor, faking lines or columns: it may be the name of a file from outside.
func Clean(s string) string {
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

// When writes a time for the mode: how long ago on a terminal, exact in a pipe.
func (p *Printer) When(t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case p.Mode == ModeTable:
		return ago(time.Since(t))
	}
	return t.UTC().Format(time.RFC3339)
}

// Moment writes a time where it may be long: exact, and on a terminal how long ago as well.
func (p *Printer) Moment(t time.Time) string {
	if t.IsZero() || p.Mode != ModeTable {
		return p.When(t)
	}
	past := ago(time.Since(t))
	if !strings.HasPrefix(past, "in ") {
		past += " ago"
	}
	return t.Local().Format(localTime) + " (" + past + ")"
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
