package draw

import (
	"fmt"
	"html"
	"io"
	"strings"
	"time"
)

// TimelineOptions state how a timeline is drawn. The zero ones work.
type TimelineOptions struct {
	MaxRows int    // atoms that are shown; the others are counted. Defaults to 200; negative: all
	ID      string // beginning of the ids in an SVG. Defaults to "timeline"
	Width   int    // of the text: columns of the terminal. Defaults to 80
	Unicode bool   // of the text: draw with characters beyond ASCII
	Color   bool   // of the text: ANSI colours
}

func (o TimelineOptions) rows() int {
	if o.MaxRows == 0 {
		return 200
	}
	return o.MaxRows
}

// Timeline draws spans as an SVG with a row for each atom and the time since the first span from left to right.
// Executions are filled, reverts have a dashed edge, waiting is low and light, a failure ends in a cross.
func Timeline(w io.Writer, spans []Span, opts TimelineOptions) error {
	const (
		rowHeight, margin, top = 22.0, 12.0, 44.0
		wide                   = 640.0
	)
	c := chartOf(spans, opts.rows())
	left := 60.0
	for _, l := range c.lanes {
		left = max(left, textWidth(cut(l.name, nameMost))+margin)
	}
	left += margin
	rows := len(c.lanes)
	height := top + rowHeight*float64(rows) + margin + float64(b2i(c.hidden > 0))*rowHeight
	d := &canvas{}
	id := "timeline"
	if opts.ID != "" {
		id = ident(opts.ID)
	}
	d.begin(id, "Timeline", c.describe(), left+wide+80, height)
	d.f(`<text x="%.1f" y="18">%s</text>`+"\n", margin, html.EscapeString(c.caption()))
	bottom := top + rowHeight*float64(rows)
	for _, t := range c.ticks(8) {
		x := left + wide*c.at(c.from.Add(t))
		d.f(`<path class="grid" d="M%.1f %.1fV%.1f"/><text class="mid" x="%.1f" y="38">%s</text>`+"\n", x, top, bottom,
			x, tick(t))
	}
	for i, l := range c.lanes {
		y := top + rowHeight*float64(i)
		d.f(`<text x="%.1f" y="%.1f">%s</text>`+"\n", margin, y+15, html.EscapeString(cut(l.name, nameMost)))
		for _, s := range l.spans {
			d.span(s, left+wide*c.at(s.From), left+wide*c.at(s.To), y+4, rowHeight-8)
		}
		for _, s := range l.spans { // over what follows
			if s.Failed {
				d.cross(max(left+wide*c.at(s.To), left+wide*c.at(s.From)+2), y+rowHeight/2)
			}
		}
		last := l.spans[len(l.spans)-1]
		d.f(`<text x="%.1f" y="%.1f">%s</text>`+"\n", left+wide*c.at(last.To)+12, y+15,
			took(l.busy()))
	}
	if c.hidden > 0 {
		d.f(`<text x="%.1f" y="%.1f">%d more</text>`+"\n", margin, bottom+15, c.hidden)
	}
	return d.end(w)
}

func (d *canvas) span(s Span, x1, x2, y, h float64) {
	class := map[Doing]string{Executes: "success", Reverts: "reverting", Waits: "waits", BacksOff: "waits"}[s.Doing]
	switch {
	case s.Doing == Executes && s.Open:
		class = "running"
	case s.Failed:
		class = "failed"
		if s.Doing == Reverts {
			class = "worse"
		}
	}
	if s.Doing == Waits || s.Doing == BacksOff {
		y, h = y+h/4, h/2
	}
	d.f(`<g class="%s"><title>%s</title><rect class="bar" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, class,
		html.EscapeString(s.tip()), x1, y, max(x2-x1, 2), h)
	d.b.WriteString("</g>\n")
}

// cross marks a failure, on a ground of its own so that it is seen on any bar.
func (d *canvas) cross(x, y float64) {
	d.f(`<g class="failed"><rect class="ground" x="%.1f" y="%.1f" width="10" height="10"/>`+
		`<path class="icon" d="M%.1f %.1fl6 6m0-6l-6 6"/></g>`+"\n", x, y-5, x+2, y-3)
}

// busy is how long the spans of a lane took, without the pauses between them: a task that was rolled back did nothing
// from its end until then.
func (l lane) busy() (d time.Duration) {
	for _, s := range l.spans {
		d += max(0, s.To.Sub(s.From))
	}
	return d
}

func (s Span) tip() string {
	text := cut(clean(s.Atom), 400) + " " + string(s.Doing) + " " + took(s.To.Sub(s.From))
	switch {
	case s.Failed:
		text += ", failed"
	case s.Open:
		text += " so far"
	}
	return text + ", from " + s.From.UTC().Format(time.RFC3339)
}

func (c *chart) caption() string {
	if len(c.lanes) == 0 {
		return "nothing has begun"
	}
	return fmt.Sprintf("from %s, %s", c.from.UTC().Format("2006-01-02 15:04:05 UTC"), took(c.to.Sub(c.from)))
}

func (c *chart) describe() string {
	return fmt.Sprintf("%d tasks and retry controllers, %s.", len(c.lanes)+c.hidden, c.caption())
}

// marks are how the text draws what is done: symbol, ASCII, colour.
var marks = map[Doing][3]string{Executes: {"█", "#", "32"}, Reverts: {"▒", "<", "35"}, Waits: {"·", "~", "33"},
	BacksOff: {"·", "~", "33"}}

// TimelineText writes the timeline for a terminal: a caption, the axis, a line for each atom, and what the marks mean.
func TimelineText(spans []Span, opts TimelineOptions) []string {
	c := chartOf(spans, opts.rows())
	lines := []string{c.caption()}
	if len(c.lanes) == 0 {
		return lines
	}
	total := opts.Width
	if total <= 0 {
		total = 80
	}
	left := 4
	for _, l := range c.lanes {
		left = max(left, columnsOf(l.name))
	}
	left = min(left, max(total/3, 4))
	wide := max(total-left-12, 10)
	axis := []rune(strings.Repeat(" ", left+2+wide+10))
	next := 0
	for _, t := range c.ticks(max(wide/10, 1)) {
		at, text := left+2+int(c.at(c.from.Add(t))*float64(wide-1)), []rune(tick(t))
		if at >= next && at+len(text) <= len(axis) {
			copy(axis[at:], text)
			next = at + len(text) + 1
		}
	}
	lines = append(lines, cut(strings.TrimRight(string(axis), " "), total))
	for _, l := range c.lanes {
		lines = append(lines, join(c.textRow(l, left, wide, opts.Unicode), total, opts.Color, opts.Unicode))
	}
	if c.hidden > 0 {
		lines = append(lines, fmt.Sprintf("%d more", c.hidden))
	}
	key := "# executes  < reverts  ~ waits  ! failed"
	if opts.Unicode {
		key = "█ executes  ▒ reverts  · waits  ✗ failed"
	}
	return append(lines, cut(key, total))
}

// textRow draws a lane: a name, the spans, how long they took together.
func (c *chart) textRow(l lane, left, wide int, unicode bool) []piece {
	name := l.name
	if !unicode {
		name = ascii(name)
	}
	name = cut(name, left)
	pieces := []piece{{text: name}, {text: strings.Repeat(" ", left-columnsOf(name)+2)}}
	cells := make([]piece, wide)
	for i := range cells {
		cells[i].text = " "
	}
	for _, s := range l.spans {
		m := marks[s.Doing]
		if m[1] == "" {
			continue
		}
		from, to := int(c.at(s.From)*float64(wide-1)), int(c.at(s.To)*float64(wide-1))
		for i := from; i <= to; i++ {
			cells[i] = piece{m[b2i(!unicode)], m[2]}
		}
	}
	for _, s := range l.spans { // over what follows
		if s.Failed {
			cells[int(c.at(s.To)*float64(wide-1))] = piece{[]string{"✗", "!"}[b2i(!unicode)], "31"}
		}
	}
	for _, cell := range cells { // neighbours of a colour become one
		if n := len(pieces); n > 2 && pieces[n-1].colour == cell.colour {
			pieces[n-1].text += cell.text
			continue
		}
		pieces = append(pieces, cell)
	}
	return append(pieces, piece{text: " " + took(l.busy())})
}
