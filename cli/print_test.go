package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestHostileTextStaysOnItsLine prints what an attacker may have put into a name: no escape, no new line, no new
// column.
func TestHostileTextStaysOnItsLine(t *testing.T) {
	hostile := "a\x1b[2J\nfake\tline\r\u202egnp.exe\u2028\x00\u009b31m"
	for _, mode := range []string{ModePlain, ModeTable} {
		var b bytes.Buffer
		p := NewPrinter(&b)
		p.Mode = mode
		if err := p.Table([]string{"A", "B"}, [][]string{{"x", hostile}}); err != nil {
			t.Fatal(err)
		}
		p.Line("%s", hostile)
		if err := p.Sheet([][2]string{{"name", hostile}, {"empty", ""}}); err != nil {
			t.Fatal(err)
		}
		want := map[string]int{ModePlain: 3, ModeTable: 4}[mode]
		if got := b.String(); strings.Count(got, "\n") != want ||
			strings.ContainsAny(got, "\x1b\r\x00\u202e\u2028\u009b") {
			t.Errorf("%s: got %q", mode, got)
		}
	}
}

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 59 * time.Second: "59s", 90 * time.Second: "1m", 3 * time.Hour: "3h", 47 * time.Hour: "47h",
		49 * time.Hour: "2d", -2 * time.Minute: "in 2m",
	} {
		if got := ago(d); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
}

func TestMoment(t *testing.T) {
	p := &Printer{Mode: ModeTable}
	then := time.Now().Add(-90 * time.Minute)
	if got, want := p.Moment(then), then.Local().Format("2006-01-02 15:04:05 MST")+" (1h ago)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.Mode = ModePlain
	if got, want := p.Moment(then), then.UTC().Format(time.RFC3339); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := p.Moment(time.Time{}); got != "" {
		t.Errorf("got %q", got)
	}
}

// TestBar draws on a simulated terminal.
func TestBar(t *testing.T) {
	var b bytes.Buffer
	p := &Printer{Writer: &b, Mode: ModeTable, Terminal: true, Width: 60}
	bar := &Bar{Out: p}
	for _, done := range []int64{0, 5, 10} {
		if err := bar.Show(done, 10, "Processing \x1b[2J"+strings.Repeat("x", 100)); err != nil {
			t.Fatal(err)
		}
	}
	bar.End()
	got := b.String()
	if strings.Count(got, "\r\x1b[K") != 2 || strings.Count(got, "\n") != 1 ||
		!strings.Contains(got, "[############............]  50%") {
		t.Errorf("got %q", got)
	}
	for line := range strings.SplitSeq(strings.ReplaceAll(got, "\r\x1b[K", "\n"), "\n") {
		if len([]rune(line)) >= p.Width {
			t.Errorf("a line of %d runes on a terminal of %d", len([]rune(line)), p.Width)
		}
	}
	b.Reset()
	bar.Out = &Printer{Writer: &b, Mode: ModePlain}
	for range 3 {
		if err := bar.Show(5, 10, "Processing"); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.String(); got != "progress\t5\t10\tProcessing\n" {
		t.Errorf("in a pipe: got %q", got)
	}
}
