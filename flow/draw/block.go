package draw

import (
	"math"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/flow"
)

// Measures of the graph, in pixels.
const (
	linePitch = 16.0
	padding   = 14.0 // between a flow's edge and what is in it
	gutter    = 18.0 // between boxes side by side
	drop      = 28.0 // between boxes one below another
	iconRoom  = 22.0
	barHeight = 5.0
	nameMost  = 34 // columns
	noteMost  = 44
	headRoom  = 24.0 // for the label of a flow
)

// block is a part with a position. x and y are the upper left corner.
type block struct {
	part       *part
	lines      []string // of a box that holds no others
	x, y, w, h float64
	retry      *block
	items      []*block
	lineY      float64 // flows with a retry controller: the line below it
	strokes    []*stroke
	labels     []*tag
}

// stroke is a line from above to below: straight down, across a gap, straight down. It is drawn as pieces, so that
// those that several links share are drawn once.
type stroke struct {
	x1, y1, bend1, bend2, x2, y2 float64 // it leaves x1 between bend1 and bend2
	dashed, head                 bool
	from, to                     *block // what it may touch; nil: a lane or label
	label                        *tag   // idem
}

// tag is the label of a link with a decider.
type tag struct {
	text       string
	x, y, w, h float64
}

// arrange makes the blocks of a part, with the upper left corner at 0, 0.
func arrange(p *part) *block {
	if p.kind != flow.KindFlow {
		return leaf(p)
	}
	b := &block{part: p}
	inner := &block{}
	for _, item := range p.items {
		b.items = append(b.items, arrange(item))
	}
	switch {
	case len(b.items) == 0:
	case p.pattern == flow.PatternGraph:
		inner = b.layers()
	case p.pattern == flow.PatternLinear:
		inner = b.column()
	default:
		inner.w, inner.h = pack(b.items)
	}
	b.lines = []string{b.caption()}
	b.w = max(inner.w, textWidth(b.lines[0])+4) + 2*padding
	top := headRoom
	if p.retry != nil {
		b.retry = leaf(p.retry)
		b.w = max(b.w, b.retry.w+2*padding)
		b.retry.shift((b.w-b.retry.w)/2, top+2)
		b.lineY = top + 2 + b.retry.h + 10
		top = b.lineY
	}
	b.shiftContent((b.w-inner.w)/2, top+12)
	b.h = top + 12 + inner.h + padding
	return b
}

// caption is the label of a flow.
func (b *block) caption() string {
	text := cut(b.part.name, nameMost) + " · " + cut(clean(string(b.part.pattern)), 12)
	if b.part.status.word != "" {
		text += " · " + b.part.status.word
	}
	if done := b.part.done(); done != "" {
		text += " · " + done
	}
	return text
}

func leaf(p *part) *block {
	b := &block{part: p, lines: []string{cut(p.title(), nameMost)}}
	if p.kind == kindRest {
		if states := p.tally.String(); states != "" {
			b.lines = append(b.lines, cut(states, noteMost))
		}
	}
	s := p.status
	if line := s.line(); line != "" {
		b.lines = append(b.lines, line)
	}
	if s.note != "" {
		b.lines = append(b.lines, s.noteLines()...)
	}
	b.w, b.h = 110, 12+linePitch*float64(len(b.lines))
	for i, line := range b.lines {
		w := textWidth(line)
		if i == 0 {
			w *= 1.12 // it is bold and larger
		}
		b.w = max(b.w, math.Ceil(w)+b.part.icon()+20)
	}
	if s.progress >= 0 {
		b.h += barHeight + 4
	}
	return b
}

// mostNoteLines is how many lines of a failure a box shows; its tip has all.
const mostNoteLines = 8

// noteLines is the note as a box shows it.
func (s *status) noteLines() []string {
	if !s.failure {
		return []string{cut(s.note, noteMost)}
	}
	lines := wrap(cut(s.note, longestNote), noteMost)
	if len(lines) > mostNoteLines {
		lines = append(lines[:mostNoteLines-1], cut(strings.Join(lines[mostNoteLines-1:mostNoteLines+1], " "),
			noteMost))
	}
	return lines
}

// icon gives the space for the icon of a state, if there is one.
func (p *part) icon() float64 {
	if p.kind == flow.KindFlow || p.status.word == "" {
		return 0
	}
	return iconRoom
}

// line is what stands below a name: "RUNNING · attempt 2 · 12s".
func (s *status) line() string {
	text := s.word
	if s.attempt > 0 {
		text += " · attempt " + strconv.Itoa(s.attempt)
	}
	if s.took != "" {
		text += " · " + s.took
	}
	return text
}

func (b *block) shift(dx, dy float64) {
	b.x, b.y, b.lineY = b.x+dx, b.y+dy, b.lineY+dy
	if b.retry != nil {
		b.retry.shift(dx, dy)
	}
	b.shiftContent(dx, dy)
}

// shiftContent moves what is in the block, except its retry.
func (b *block) shiftContent(dx, dy float64) {
	for _, item := range b.items {
		item.shift(dx, dy)
	}
	for _, s := range b.strokes {
		s.shift(dx, dy)
	}
	for _, l := range b.labels {
		l.x, l.y = l.x+dx, l.y+dy
	}
}

func (s *stroke) shift(dx, dy float64) {
	s.x1, s.x2 = s.x1+dx, s.x2+dx
	s.y1, s.bend1, s.bend2, s.y2 = s.y1+dy, s.bend1+dy, s.bend2+dy, s.y2+dy
}

// column puts the items of a linear flow one below another, with a line between neighbours.
func (b *block) column() *block {
	inner := &block{}
	for _, item := range b.items {
		inner.w = max(inner.w, item.w)
	}
	for i, item := range b.items {
		if i > 0 {
			before := b.items[i-1]
			x := inner.w / 2
			b.strokes = append(b.strokes, &stroke{x1: x, x2: x, y1: inner.h, bend1: inner.h, bend2: inner.h,
				y2: inner.h + drop, head: true, from: before, to: item})
			inner.h += drop
		}
		item.shift((inner.w-item.w)/2, inner.h)
		inner.h += item.h
	}
	return inner
}

// pack puts blocks side by side in rows that together are wider than high.
func pack(blocks []*block) (w, h float64) {
	area, widest := 0.0, 0.0
	for _, b := range blocks {
		area += (b.w + gutter) * (b.h + gutter)
		widest = max(widest, b.w)
	}
	limit := max(widest, math.Sqrt(area*3))
	if len(blocks) <= 3 {
		limit = math.Inf(1)
	}
	x, y, row := 0.0, 0.0, 0.0
	for _, b := range blocks {
		if x > 0 && x+b.w > limit {
			x, y, row = 0, y+row+gutter, 0
		}
		b.shift(x, y)
		x += b.w + gutter
		w, row = max(w, x-gutter), max(row, b.h)
	}
	return w, y + row
}

// textWidth estimates how wide a text is at 12 px in the fonts of systems, rather too wide than too narrow.
func textWidth(s string) float64 {
	w := 0.0
	for _, r := range s {
		switch {
		case r == ' ' || r == '.' || r == ',' || r == ':' || r == 'i' || r == 'l' || r == 'j' || r == '|' || r == '\'':
			w += 4.4
		case r == 'm' || r == 'w' || r == 'M' || r == 'W' || r == '@' || r == '%' || r == '…':
			w += 12
		case r >= 'A' && r <= 'Z':
			w += 9
		case r < 0x300:
			w += 7.4
		default:
			w += 8 * float64(columns(r))
		}
	}
	return w
}
