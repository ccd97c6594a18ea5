package draw

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"math"

	"github.com/stagepost/stagepost/flow"
)

// SVG draws a flow as a complete svg element that can stand alone or in a page: flows as boxes with their items inside,
// retry controllers at the top of what they govern, tasks with icon, state, attempt, time and progress. Dashed links
// have a decider and state how much a no ignores. Links that follow from others are left out. It has no scripts, and
// follows light and dark. Without records (nil) it shows the structure.
func SVG(w io.Writer, o *flow.Outline, records []flow.Record, opts Options) error {
	root := opts.read(o, records)
	top := arrange(root)
	const margin = 12.0
	top.shift(margin, margin)
	title := root.name
	if opts.State != "" {
		title += " · " + clean(string(opts.State))
	}
	d := &canvas{}
	d.begin(opts.id(), "Flow "+title, describe(root), top.w+2*margin, top.h+2*margin)
	d.block(top, 0)
	return d.end(w)
}

// describe states in words what the picture shows.
func describe(root *part) string {
	n := root.tally.tasks()
	text := fmt.Sprintf("%d tasks", n)
	if n == 1 {
		text = "1 task"
	}
	if states := root.tally.String(); states != "" {
		text += ": " + states
	}
	return text + "."
}

// canvas collects an svg element.
type canvas struct{ b bytes.Buffer }

func (d *canvas) f(format string, args ...any) { fmt.Fprintf(&d.b, format, args...) }

func (d *canvas) begin(id, title, desc string, w, h float64) {
	w, h = math.Ceil(w), math.Ceil(h)
	d.f(`<svg xmlns="http://www.w3.org/2000/svg" class="flow-picture" role="img" `+
		`aria-labelledby="%s-title %s-desc" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f">`+"\n",
		id, id, w, h, w, h)
	d.f("<title id=\"%s-title\">%s</title>\n<desc id=\"%s-desc\">%s</desc>\n<style>%s</style>\n", id,
		html.EscapeString(title), id, html.EscapeString(desc), Style)
	d.f(`<rect class="ground" width="%.0f" height="%.0f"/>`+"\n", w, h)
}

func (d *canvas) end(w io.Writer) error {
	d.b.WriteString("</svg>\n")
	_, err := w.Write(d.b.Bytes())
	return err
}

// block draws a flow and what is in it, or a box. depth counts how many flows it stands in.
func (d *canvas) block(b *block, depth int) {
	if b.part.kind != flow.KindFlow {
		d.box(b)
		return
	}
	class := "nest"
	if depth%2 == 1 {
		class += " inner"
	}
	d.f(`<g class="flow"><title>%s</title><rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="8"/>`,
		html.EscapeString(b.tip()), class, b.x, b.y, b.w, b.h)
	d.f(`<text class="caption" x="%.1f" y="%.1f">%s</text></g>`+"\n", b.x+padding, b.y+17,
		html.EscapeString(b.lines[0]))
	if b.retry != nil {
		d.box(b.retry)
		d.f(`<path class="line dashed" d="M%.1f %.1fH%.1f"/>`+"\n", b.x, b.lineY, b.x+b.w)
	}
	for _, s := range b.strokes {
		d.stroke(s)
	}
	for _, l := range b.labels {
		d.f(`<text class="mid" x="%.1f" y="%.1f">%s</text>`+"\n", l.x+l.w/2, l.y+linePitch-4, html.EscapeString(l.text))
	}
	for _, item := range b.items {
		d.block(item, depth+1)
	}
}

// longestNote bounds what a tip states of a failure, in characters: more than a failure keeps of its message.
const longestNote = 20_000

// tip is what is shown when a pointer is over a block: all that its label may have lost.
func (b *block) tip() string {
	p := b.part
	switch p.kind {
	case flow.KindFlow:
		text := cut(p.name, 400) + ": " + cut(clean(string(p.pattern)), 12) + " flow, " + describe(p)
		if p.retry != nil {
			text += " Governed by " + cut(p.retry.name, 400) + "."
		}
		return text
	case kindRest:
		return p.sum()
	}
	text := cut(p.name, 400)
	if p.kind == flow.KindRetry {
		text += " (retry controller)"
	}
	if line := p.status.line(); line != "" {
		text += ": " + line
	}
	if p.status.note != "" {
		text += "; " + cut(p.status.note, longestNote)
	}
	return text
}

func (d *canvas) box(b *block) {
	s, kind, round := b.part.status, "task", 4.0
	switch b.part.kind {
	case flow.KindRetry:
		kind, round = "retry", 16
	case kindRest:
		kind = "rest"
	}
	d.f(`<g class="%s %s"><title>%s</title>`, kind, s.class, html.EscapeString(b.tip()))
	if b.part.kind == kindRest { // a second edge behind the box: there are more of it
		d.f(`<rect class="box" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="4"/>`, b.x+4, b.y+4, b.w-4, b.h-4)
		d.f(`<rect class="box" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="4"/>`, b.x, b.y, b.w-4, b.h-4)
	} else {
		d.f(`<rect class="box" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="%.0f"/>`, b.x, b.y, b.w, b.h, round)
	}
	if s.class == "worse" {
		d.f(`<rect class="again" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2"/>`, b.x+3, b.y+3, b.w-6, b.h-6)
	}
	left := b.x + 10
	if s.word != "" {
		d.f(`<path class="icon" transform="translate(%.1f %.1f)" d="%s"/>`, left, b.y+9, icons[s.class])
	}
	for i, line := range b.lines {
		class := ""
		if i == 0 {
			class = ` class="name"`
		}
		d.f(`<text%s x="%.1f" y="%.1f">%s</text>`, class, left+b.part.icon(), b.y+float64(i+1)*linePitch+3,
			html.EscapeString(line))
	}
	if s.progress >= 0 {
		wide, y := b.w-20, b.y+b.h-barHeight-6
		d.f(`<rect class="track" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`+
			`<rect class="bar" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`,
			left, y, wide, barHeight, left, y, wide*s.progress, barHeight)
	}
	d.b.WriteString("</g>\n")
}

func (d *canvas) stroke(s *stroke) {
	class := "line"
	if s.dashed {
		class += " dashed"
	}
	to := s.y2
	if s.head {
		to -= 6
	}
	low := min(s.bend2, to)
	if math.Abs(s.x1-s.x2) < 1.5 { // what rounding left is no bend
		d.f(`<path class="%s" d="M%.1f %.1fV%.1f"/>`, class, s.x2, s.y1, to)
	} else {
		mid := (s.bend1 + low) / 2
		d.f(`<path class="%s" d="M%.1f %.1fV%.1fC%.1f %.1f %.1f %.1f %.1f %.1fV%.1f"/>`, class, s.x1, s.y1, s.bend1,
			s.x1, mid, s.x2, mid, s.x2, low, to)
	}
	if s.head {
		d.f(`<path class="head" d="M%.1f %.1fl-4-8h8z"/>`, s.x2, s.y2)
	}
	d.b.WriteString("\n")
}
