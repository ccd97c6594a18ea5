package draw

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/internal/svgtest"
	"github.com/stagepost/stagepost/lifecycle"
)

const slack = 0.01 // what rounding may leave

func overlap(a, b *block) bool {
	return a.x < b.x+b.w-slack && b.x < a.x+a.w-slack && a.y < b.y+b.h-slack && b.y < a.y+a.h-slack
}

func hits(x, y, left, top, w, h float64) bool {
	return x > left+slack && x < left+w-slack && y > top+slack && y < top+h-slack
}

func (b *block) kids() []*block {
	if b.retry == nil {
		return b.items
	}
	return append([]*block{b.retry}, b.items...)
}

// collisions lists what stands on something else in a flow and those in it: boxes on each other or beyond the edge,
// lines on boxes and labels that are not their ends.
func (b *block) collisions() []string {
	var found []string
	kids := b.kids()
	for i, k := range kids {
		if k.x < b.x+slack || k.y < b.y+headRoom || k.x+k.w > b.x+b.w-slack || k.y+k.h > b.y+b.h-slack {
			found = append(found, k.part.name+" leaves "+b.part.name)
		}
		if b.retry != nil && k != b.retry && k.y < b.lineY {
			found = append(found, k.part.name+" crosses the line below "+b.retry.part.name)
		}
		for _, other := range kids[i+1:] {
			if overlap(k, other) {
				found = append(found, k.part.name+" overlaps "+other.part.name)
			}
		}
		for _, l := range b.labels {
			if overlap(k, &block{x: l.x, y: l.y, w: l.w, h: l.h}) {
				found = append(found, k.part.name+" overlaps a label")
			}
		}
		found = append(found, k.collisions()...)
	}
	for i, l := range b.labels {
		for _, other := range b.labels[i+1:] {
			if overlap(&block{x: l.x, y: l.y, w: l.w, h: l.h}, &block{x: other.x, y: other.y, w: other.w, h: other.h}) {
				found = append(found, "a label overlaps another")
			}
		}
	}
	for _, s := range b.strokes {
		found = append(found, b.crossed(s)...)
	}
	return found
}

// crossed samples a line: straight, across the gap, straight.
func (b *block) crossed(s *stroke) []string {
	var found []string
	at := func(x, y float64) {
		if x < b.x || x > b.x+b.w || y < b.y+headRoom || y > b.y+b.h {
			found = append(found, "a line leaves "+b.part.name)
		}
		for _, k := range b.kids() {
			if k != s.from && k != s.to && hits(x, y, k.x, k.y, k.w, k.h) {
				found = append(found, "a line crosses "+k.part.name)
			}
		}
		for _, l := range b.labels {
			if l != s.label && hits(x, y, l.x, l.y, l.w, l.h) {
				found = append(found, "a line crosses a label")
			}
		}
	}
	for i := range 17 {
		t := float64(i) / 16
		at(s.x1, s.y1*(1-t)+s.bend1*t)
		bent := 3*(1-t)*t*t + t*t*t // the share of the lower end, across
		y := (1-t)*(1-t)*(1-t)*s.bend1 + 3*(1-t)*t*(s.bend1+s.bend2)/2 + t*t*t*s.bend2
		at(s.x1*(1-bent)+s.x2*bent, y)
		at(s.x2, s.bend2*(1-t)+s.y2*t)
	}
	return found
}

var states = []lifecycle.State{flow.Pending, flow.Running, flow.Success, flow.FailureState, flow.Reverting,
	flow.Reverted, flow.RevertFailure, flow.Ignore, "", "odd"}

// anyFlow draws nested flows with hostile links, and records of some of their atoms.
func anyFlow(t *rapid.T) (*flow.Outline, []flow.Record) {
	var records []flow.Record
	n := 0
	var item func(depth int) *flow.Outline
	atom := func(kind flow.Kind) *flow.Outline {
		n++
		o := &flow.Outline{Kind: kind, Name: fmt.Sprintf("%s-%d",
			strings.Repeat("task", rapid.IntRange(1, 12).Draw(t, "long")), n)}
		if rapid.Bool().Draw(t, "known") {
			r := flow.Record{Name: o.Name, Kind: kind, State: rapid.SampledFrom(states).Draw(t, "state"),
				Progress: rapid.Float64Range(0, 1).Draw(t, "progress")}
			r.Attempts, r.Waits, r.Awaits = rapid.IntRange(0, 3).Draw(t, "attempts"), rapid.Bool().Draw(t, "waits"),
				"signal"
			if rapid.Bool().Draw(t, "failed") {
				r.Failure = &flow.Failure{Type: "E", Message: strings.Repeat("why ",
					rapid.IntRange(0, 30).Draw(t, "message"))}
			}
			records = append(records, r)
		}
		return o
	}
	item = func(depth int) *flow.Outline {
		if depth > 0 && (depth == 4 || rapid.IntRange(0, 3).Draw(t, "kind") > 0) {
			return atom(flow.KindTask)
		}
		o := &flow.Outline{Kind: flow.KindFlow, Name: fmt.Sprintf("flow-%d", n)}
		o.Pattern = rapid.SampledFrom([]flow.Pattern{flow.PatternLinear, flow.PatternUnordered,
			flow.PatternGraph}).Draw(t, "pattern")
		if rapid.IntRange(0, 2).Draw(t, "retry") == 0 {
			o.Retry = atom(flow.KindRetry)
		}
		size := rapid.IntRange(0, 9).Draw(t, "items")
		for range size {
			o.Items = append(o.Items, item(depth+1))
		}
		if o.Pattern == flow.PatternGraph {
			for range rapid.IntRange(0, 2*size).Draw(t, "links") {
				o.Links = append(o.Links, flow.OutlinedLink{
					From: rapid.IntRange(-1, size).Draw(t, "from"), To: rapid.IntRange(-1, size).Draw(t, "to"),
					Depth: rapid.SampledFrom([]flow.Depth{"", "", "", flow.DepthAll, flow.DepthNeighbors}).Draw(t,
						"depth"),
				})
			}
		}
		return o
	}
	return item(0), records
}

// TestNothingCollides lays out random flows.
func TestNothingCollides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, records := anyFlow(t)
		b := arrange(Options{Most: rapid.IntRange(-1, 5).Draw(t, "most")}.read(o, records))
		if found := b.collisions(); len(found) > 0 {
			t.Fatalf("%s", strings.Join(found, "\n"))
		}
	})
}

// TestCollisionsAreSeen is the control of the test above: a layout that is pushed together collides.
func TestCollisionsAreSeen(t *testing.T) {
	o := &flow.Outline{Kind: flow.KindFlow, Name: "f", Pattern: flow.PatternGraph,
		Retry: &flow.Outline{Kind: flow.KindRetry, Name: "r"}}
	for _, name := range []string{"a", "b", "c", "d"} {
		o.Items = append(o.Items, &flow.Outline{Kind: flow.KindTask, Name: name})
	}
	o.Links = []flow.OutlinedLink{{From: 0, To: 1}, {From: 1, To: 2}, {From: 0, To: 3},
		{From: 0, To: 2, Depth: flow.DepthAll}, {From: 3, To: 2}}
	layout := func() *block { return arrange(Options{}.read(o, nil)) }
	if found := layout().collisions(); len(found) > 0 {
		t.Fatalf("before: %v", found)
	}
	for want, push := range map[string]func(*block){
		"b overlaps d":       func(b *block) { b.items[1].x, b.items[1].y = b.items[3].x, b.items[3].y },
		"a leaves f":         func(b *block) { b.items[0].x = b.x - 20 },
		"a crosses the line": func(b *block) { b.items[0].y = b.retry.y },
		"a line crosses d":   func(b *block) { b.items[3].w, b.items[3].x = b.w, b.x },
		"overlaps a label":   func(b *block) { b.labels[0].x, b.labels[0].y = b.items[0].x, b.items[0].y },
		"crosses a label": func(b *block) {
			for _, s := range b.strokes {
				if s.label == nil {
					l := b.labels[0]
					s.x1, s.x2, s.y1, s.y2, s.bend1, s.bend2 = l.x+5, l.x+5, l.y-5, l.y+l.h+5, l.y, l.y+l.h
				}
			}
		},
	} {
		b := layout()
		push(b)
		if got := strings.Join(b.collisions(), "\n"); !strings.Contains(got, want) {
			t.Errorf("pushed together: %q lacks %q", got, want)
		}
	}
}

// TestPicturesOfAnyFlow: XML that can be read, the same bytes each time, trees within their bounds.
func TestPicturesOfAnyFlow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, records := anyFlow(t)
		var a, b strings.Builder
		for _, out := range []*strings.Builder{&a, &b} {
			for _, d := range []func(io.Writer, *flow.Outline, []flow.Record, Options) error{SVG, DOT, Mermaid} {
				if err := d(out, o, records, Options{Most: 4}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if a.String() != b.String() {
			t.Fatal("the same flow gives another picture")
		}
		svg, _, _ := strings.Cut(a.String(), "</svg>")
		if err := svgtest.WellFormed(svg + "</svg>"); err != nil {
			t.Fatal(err)
		}
		opts := TreeOptions{Width: rapid.IntRange(1, 120).Draw(t, "width"),
			MaxLines: rapid.IntRange(1, 30).Draw(t, "lines"), Unicode: rapid.Bool().Draw(t, "unicode")}
		lines := Tree(o, records, opts)
		if len(lines) > opts.MaxLines {
			t.Fatalf("%d lines, want at most %d", len(lines), opts.MaxLines)
		}
		for _, l := range lines {
			if columnsOf(l) > opts.Width {
				t.Fatalf("a line of %d columns, want at most %d: %q", columnsOf(l), opts.Width, l)
			}
		}
	})
}
