package draw_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/draw"
	"github.com/stagepost/stagepost/lifecycle"
)

const evil = "x\x1b[31m\x1b]0;title\x07\"]; </text><script>alert(1)</script>\r\n\u202eback\u2066 \x00\xff\ufffe & `#59; | {{ }} --> end\u009b"

// hostile is a flow all of whose texts try to leave their boxes.
func hostile() (*flow.Outline, []flow.Record) {
	names := []string{evil, evil + "2", strings.Repeat("漢字", 300), strings.Repeat("e\u0301\u0302\u0303", 2000),
		"- item", "1. item", "end", ""}
	o := &flow.Outline{Kind: flow.KindFlow, Name: evil, Pattern: flow.Pattern("graph"),
		Retry: &flow.Outline{Kind: flow.KindRetry, Name: evil + "r"}}
	records := []flow.Record{{Name: evil + "gone", State: lifecycle.State(evil)}}
	for i, name := range names {
		o.Items = append(o.Items, &flow.Outline{Kind: flow.KindTask, Name: name})
		r := flow.Record{Name: name, Kind: flow.KindTask, State: flow.FailureState, Began: began, Ended: now,
			Failure: &flow.Failure{Type: evil, Message: evil + strings.Repeat("long ", 5000)}}
		switch i {
		case 1:
			r.State, r.Waits, r.Awaits = flow.Running, true, evil
		case 2:
			r.State, r.Progress = lifecycle.State(evil), -3
		case 3:
			r.State, r.Progress = flow.Running, 1e9
		}
		records = append(records, r)
	}
	o.Items = append(o.Items, nil, &flow.Outline{Kind: flow.KindFlow, Name: evil, Pattern: flow.Pattern(evil)})
	o.Links = []flow.OutlinedLink{{From: 0, To: 1, Depth: flow.Depth(evil)}, {From: 3, To: 1}, {From: -1, To: 99},
		{From: 2, To: 2}, {From: 1, To: 4}}
	return o, records
}

// TestHostileTextsStayInPlace: no picture lets a text change what is around it.
func TestHostileTextsStayInPlace(t *testing.T) {
	o, recs := hostile()
	opts := draw.Options{State: lifecycle.State(evil), Now: now, ID: `a" onload="x`}
	svg := drawn(t, draw.SVG, o, recs, opts)
	var line bytes.Buffer
	if err := draw.Timeline(&line, draw.SpansOf(recs, now), draw.TimelineOptions{ID: opts.ID}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"graph": svg, "timeline": line.String()} {
		elements := map[string]bool{}
		for d := xml.NewDecoder(strings.NewReader(text)); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if e, ok := token.(xml.StartElement); ok {
				elements[e.Name.Local] = true
				if slices.ContainsFunc(e.Attr, func(a xml.Attr) bool { return strings.HasPrefix(a.Name.Local, "on") }) {
					t.Errorf("%s: an element got a handler: %v", name, e)
				}
			}
		}
		if elements["script"] || !elements["svg"] {
			t.Errorf("%s has the elements %v", name, elements)
		}
		printable(t, name, text)
	}
	dot, mermaid := drawn(t, draw.DOT, o, recs, opts), drawn(t, draw.Mermaid, o, recs, opts)
	printable(t, "DOT", dot)
	printable(t, "Mermaid", mermaid)
	for line := range strings.Lines(dot) { // quotes that are not escaped come in pairs, so no text ends early
		bare := strings.ReplaceAll(strings.ReplaceAll(line, `\\`, ""), `\"`, "")
		if strings.Count(bare, `"`)%2 != 0 {
			t.Errorf("DOT: a text leaves its quotes: %s", line)
		}
	}
	for _, bad := range []string{"<script", "`", "&", "\"\"]", "end\""} {
		if strings.Contains(strings.ReplaceAll(mermaid, `["end`, ""), bad) {
			t.Errorf("Mermaid has %q: %s", bad, mermaid)
		}
	}
}

// TestTreesReachTerminalsClean: nothing in names and messages moves the cursor; the only escapes are those of colours.
func TestTreesReachTerminalsClean(t *testing.T) {
	o, recs := hostile()
	for _, wide := range []bool{false, true} {
		for _, colour := range []bool{false, true} {
			name := fmt.Sprintf("unicode=%v colour=%v", wide, colour)
			lines := draw.Tree(o, recs, draw.TreeOptions{State: lifecycle.State(evil), Now: now, Width: 70,
				Unicode: wide, Color: colour})
			lines = append(lines, draw.TimelineText(draw.SpansOf(recs, now),
				draw.TimelineOptions{Width: 70, Unicode: wide, Color: colour})...)
			for _, l := range lines {
				if strings.Contains(l, "\n") || len(l) > 2000 {
					t.Errorf("%s: one line became several, or too long: %d bytes", name, len(l))
				}
				if colour {
					for _, sgr := range []string{"0", "2", "31", "32", "33", "35", "36"} {
						l = strings.ReplaceAll(l, "\x1b["+sgr+"m", "")
					}
				}
				printable(t, name, l)
				if !wide && strings.ContainsFunc(l, func(r rune) bool { return r > unicode.MaxASCII }) {
					t.Errorf("%s: not ASCII: %q", name, l)
				}
			}
		}
	}
}

// printable fails on control characters but line ends. TestPrintableSees is its control.
func printable(t testing.TB, name, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			t.Errorf("%s: has %U", name, r)
			return
		}
	}
}

// spy is a test that only remembers that it failed.
type spy struct {
	testing.TB
	failed bool
}

func (s *spy) Helper()               {}
func (s *spy) Errorf(string, ...any) { s.failed = true }

func TestPrintableSees(t *testing.T) {
	for _, bad := range []string{"\x1b[2J", "\x07", "\u009b", "\u202e", "a\rb"} {
		if s := (&spy{}); true {
			if printable(s, "", bad); !s.failed {
				t.Errorf("%q is not seen", bad)
			}
		}
	}
}

// fan is a flow of 1,000 like tasks, and what is stored when 950 are done, one failed, one waits and one runs.
func fan(pattern flow.Pattern) (*flow.Outline, []flow.Record) {
	o := &flow.Outline{Kind: flow.KindFlow, Name: "fan", Pattern: pattern}
	var recs []flow.Record
	for i := range 1000 {
		name := fmt.Sprintf("part-%03d", i)
		o.Items = append(o.Items, &flow.Outline{Kind: flow.KindTask, Name: name})
		r := flow.Record{Name: name, Kind: flow.KindTask, State: flow.Success, Began: began,
			Ended: began.Add(time.Second)}
		switch {
		case i == 700:
			r.State, r.Failure = flow.FailureState, &flow.Failure{Type: "IOError", Message: "disk full"}
		case i == 800:
			r.State, r.Waits, r.Awaits = flow.Running, true, "go"
		case i == 900:
			r.State, r.Progress = flow.Running, 0.5
		case i >= 953:
			r = flow.Record{Name: name, Kind: flow.KindTask, State: flow.Pending}
		}
		recs = append(recs, r)
	}
	return o, recs
}

// TestAThousandTasks: the pressing ones are shown, the others counted, in every kind of flow and picture.
func TestAThousandTasks(t *testing.T) {
	for _, pattern := range []flow.Pattern{flow.PatternUnordered, flow.PatternLinear, flow.PatternGraph} {
		o, recs := fan(pattern)
		for name, d := range map[string]drawer{"svg": draw.SVG, "dot": draw.DOT, "mermaid": draw.Mermaid} {
			text := drawn(t, d, o, recs, draw.Options{Now: now, Most: 5})
			if len(text) > 20_000 {
				t.Errorf("%s %s: %d bytes", pattern, name, len(text))
			}
			for _, want := range []string{"part-700", "part-800", "part-900", " more", "47 PENDING"} {
				if pattern == flow.PatternLinear && want == "47 PENDING" {
					want = "46 PENDING" // the last stays
				}
				if !strings.Contains(text, want) {
					t.Errorf("%s %s lacks %s", pattern, name, want)
				}
			}
		}
		lines := draw.Tree(o, recs, draw.TreeOptions{Now: now, MaxLines: 8, Width: 100})
		text := strings.Join(lines, "\n")
		for _, want := range []string{"part-700", "part-800", "part-900", "... 994 more: 947 SUCCESS, 47 PENDING",
			"disk full", "waits for the signal go"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s tree lacks %s:\n%s", pattern, want, text)
			}
		}
		if len(lines) != 8 {
			t.Errorf("%s tree: %d lines, want 8", pattern, len(lines))
		}
	}
	all, recs := fan(flow.PatternUnordered)
	if text := drawn(t, draw.SVG, all, recs, draw.Options{Most: -1}); strings.Count(text, `<g class="task`) != 1000 {
		t.Error("without a limit, not all tasks are drawn")
	}
}

// TestABigGraph: 1,000 tasks with 3,000 links that are all different, in bounded time and size.
func TestABigGraph(t *testing.T) {
	o := &flow.Outline{Kind: flow.KindFlow, Name: "big", Pattern: flow.PatternGraph}
	seed := uint32(1)
	random := func(n int) int {
		seed = seed*1664525 + 1013904223
		return int(seed>>8) % n
	}
	for i := range 1000 {
		o.Items = append(o.Items, &flow.Outline{Kind: flow.KindTask, Name: fmt.Sprintf("t%d", i)})
		for range min(i, 3) {
			o.Links = append(o.Links, flow.OutlinedLink{From: max(0, i-1-random(100)), To: i})
		}
	}
	text := drawn(t, draw.SVG, o, nil, draw.Options{})
	if n := len(text); n > 4<<20 || !strings.Contains(text, "t999") {
		t.Errorf("%d bytes", n)
	}
}
