package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestHostileTextStaysOnItsLine prints what an attacker may have put into a name: no escape, no new line, no new column.
func TestHostileTextStaysOnItsLine(t *testing.T) {
	hostile := "a\x1b[2J\nfake\tline\r\u202egnp.exe\u2028\x00\u009b31m"
	for _, mode := range []string{modePlain, modeTable} {
		var b bytes.Buffer
		p := newPrinter(&b)
		p.mode = mode
		if err := p.table([]string{"A", "B"}, [][]string{{"x", hostile}}); err != nil {
			t.Fatal(err)
		}
		p.line("%s", hostile)
		if err := p.sheet([][2]string{{"name", hostile}, {"empty", ""}}); err != nil {
			t.Fatal(err)
		}
		want := map[string]int{modePlain: 3, modeTable: 4}[mode]
		if got := b.String(); strings.Count(got, "\n") != want || strings.ContainsAny(got, "\x1b\r\x00\u202e\u2028\u009b") {
			t.Errorf("%s: got %q", mode, got)
		}
	}
}

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 59 * time.Second: "59s", 90 * time.Second: "1m", 3 * time.Hour: "3h", 47 * time.Hour: "47h", 49 * time.Hour: "2d", -2 * time.Minute: "in 2m",
	} {
		if got := ago(d); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
}

func TestMoment(t *testing.T) {
	p := &printer{mode: modeTable}
	then := time.Now().Add(-90 * time.Minute)
	if got, want := p.moment(then), then.Local().Format("2006-01-02 15:04:05")+" (1h ago)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.mode = modePlain
	if got, want := p.moment(then), then.UTC().Format(time.RFC3339); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := p.moment(time.Time{}); got != "" {
		t.Errorf("got %q", got)
	}
}

// TestBar draws on something that says it is a terminal.
func TestBar(t *testing.T) {
	var b bytes.Buffer
	p := &printer{Writer: &b, mode: modeTable, terminal: true, width: 60}
	bar := &bar{out: p}
	for _, done := range []int64{0, 5, 10} {
		if err := bar.show(done, 10, "Processing \x1b[2J"+strings.Repeat("x", 100)); err != nil {
			t.Fatal(err)
		}
	}
	bar.end()
	got := b.String()
	if strings.Count(got, "\r\x1b[K") != 2 || strings.Count(got, "\n") != 1 || !strings.Contains(got, "[############............]  50%") {
		t.Errorf("got %q", got)
	}
	for line := range strings.SplitSeq(strings.ReplaceAll(got, "\r\x1b[K", "\n"), "\n") {
		if len([]rune(line)) >= p.width {
			t.Errorf("a line of %d runes on a terminal of %d", len([]rune(line)), p.width)
		}
	}
	b.Reset()
	bar.out = &printer{Writer: &b, mode: modePlain}
	for range 3 {
		if err := bar.show(5, 10, "Processing"); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.String(); got != "progress\t5\t10\tProcessing\n" {
		t.Errorf("in a pipe: got %q", got)
	}
}
