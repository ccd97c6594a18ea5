package draw

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/internal/layered"
	"github.com/stagepost/stagepost/lifecycle"
)

// Style is the style sheet inside every drawing. A page that allows no inline styles serves it as a file. The colours
// are custom properties of .lifecycle, which a page can set.
const Style = `.lifecycle{--lc-ground:#ffffff;--lc-box:#f3f5f8;--lc-ink:#1c2430;--lc-line:#667182;--lc-fail:#b3261e;` +
	`--lc-ok:#1a7340;--lc-strong:#0b57d0;--lc-lit:#ffe29a;--lc-taken:#7a3fc0}
@media (prefers-color-scheme:dark){.lifecycle{--lc-ground:#14181f;--lc-box:#222934;--lc-ink:#e8ecf2;--lc-line:#97a3b4;` +
	`--lc-fail:#ff9d94;--lc-ok:#6fd69b;--lc-strong:#8ab4ff;--lc-lit:#5c4a10;--lc-taken:#cda4ff}}
.lifecycle text{font-family:system-ui,-apple-system,"Segoe UI","DejaVu Sans",Roboto,sans-serif;text-anchor:middle;fill:#1c2430;fill:var(--lc-ink)}
.lifecycle .name{font-size:13px;font-weight:600}
.lifecycle .word,.lifecycle .loop{font-size:11px}
.lifecycle .ground{fill:#ffffff;fill:var(--lc-ground)}
.lifecycle .box{fill:#f3f5f8;fill:var(--lc-box);stroke:#667182;stroke:var(--lc-line);stroke-width:1.2}
.lifecycle .inner{fill:none;stroke:#667182;stroke:var(--lc-line);stroke-width:1}
.lifecycle .wait .box{stroke-dasharray:5 3}
.lifecycle .ok .box,.lifecycle .ok .inner{stroke:#1a7340;stroke:var(--lc-ok)}
.lifecycle .failed .box,.lifecycle .failed .inner{stroke:#b3261e;stroke:var(--lc-fail)}
.lifecycle .been .box{stroke:#7a3fc0;stroke:var(--lc-taken);stroke-width:2}
.lifecycle .current .box{fill:#ffe29a;fill:var(--lc-lit);stroke:#1c2430;stroke:var(--lc-ink);stroke-width:2.5}
.lifecycle .line{fill:none;stroke:#667182;stroke:var(--lc-line);stroke-width:1.2}
.lifecycle .head,.lifecycle .start{fill:#667182;fill:var(--lc-line)}
.lifecycle .dashed{stroke-dasharray:5 3}
.lifecycle .line.fail{stroke:#b3261e;stroke:var(--lc-fail)}
.lifecycle .word.fail,.lifecycle .head.fail{fill:#b3261e;fill:var(--lc-fail)}
.lifecycle .line.taken{stroke:#7a3fc0;stroke:var(--lc-taken);stroke-width:2.6}
.lifecycle .word.taken,.lifecycle .head.taken{fill:#7a3fc0;fill:var(--lc-taken)}
.lifecycle .line.legal{stroke:#0b57d0;stroke:var(--lc-strong);stroke-width:2.6}
.lifecycle .word.legal,.lifecycle .head.legal{fill:#0b57d0;fill:var(--lc-strong)}
.lifecycle .word.legal{font-weight:700}
`

// SVG draws the table as a complete svg element: the start is at the top, each transition has one word, and the
// sentence of each state and transition is its title. The element has no scripts, has a light and a dark theme, and can
// be part of an HTML page. Queue states have round ends, wait states a dashed border, ends a double one; dashed lines
// lead back to the state that failed.
func SVG(table *lifecycle.Table, v View) string { return chartOf(table).svg(v) }

func (t *chart) svg(v View) string {
	d := &drawing{layout: t.layout(v.Loops), t: t, marks: t.marks(v), view: v}
	id := "lc-" + html.EscapeString(strings.ReplaceAll(t.name, ".", "-"))
	fmt.Fprintf(&d.b, `<svg xmlns="http://www.w3.org/2000/svg" class="lifecycle" role="img" `+
		`aria-labelledby="%s-title %s-desc" `+
		`viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f">`+"\n", id, id, d.Width, d.Height, d.Width, d.Height)
	fmt.Fprintf(&d.b, "<title id=\"%s-title\">%s</title>\n<desc id=\"%s-desc\">%s</desc>\n<style>%s</style>\n",
		id, html.EscapeString("Lifecycle "+t.name), id, html.EscapeString(t.describe(v)), Style)
	fmt.Fprintf(&d.b, `<rect class="ground" width="%.0f" height="%.0f"/>`+"\n", d.Width, d.Height)
	d.lines()
	d.labels()
	d.states()
	d.b.WriteString("</svg>\n")
	return d.b.String()
}

// describe describes the drawing in words.
func (t *chart) describe(v View) string {
	ends := []string{}
	for _, s := range t.stages {
		if s.Kind == lifecycle.End {
			ends = append(ends, string(s.State))
		}
	}
	text := fmt.Sprintf("%d states from %s", len(t.stages), t.stages[0].State)
	if len(ends) > 0 {
		text += " to " + strings.Join(ends, ", ")
	}
	text += "."
	if _, ok := t.index[v.Current.State]; !ok {
		return text
	}
	text += " Now: " + string(v.Current.State) + "."
	words := []string{}
	m := t.marks(v)
	for _, a := range t.stages[t.index[v.Current.State]].Transitions {
		for _, to := range a.Targets() {
			if a.Class != lifecycle.Loop && m.legal[step{v.Current.State, a.Event, to}] {
				words = append(words, fmt.Sprintf("%s to %s", a.Event, to))
			}
		}
	}
	if len(words) == 0 {
		return text + " Nothing leads on from here."
	}
	return text + " Possible: " + strings.Join(words, ", ") + "."
}

type drawing struct {
	*layout
	t     *chart // the layout may be of another table with the same definition
	marks marks
	view  View
	b     strings.Builder
}

// class returns the CSS classes that the steps share.
func (d *drawing) class(steps []step) string {
	words, fails := "", true
	for _, s := range steps {
		a := d.t.transition(s.from, s.event)
		fails = fails && a.Class == lifecycle.Fail
	}
	if fails {
		words += " fail"
	}
	if slices.ContainsFunc(steps, func(s step) bool { return d.marks.taken[s] }) {
		words += " taken"
	}
	if slices.ContainsFunc(steps, func(s step) bool { return d.marks.legal[s] }) {
		words += " legal"
	}
	return words
}

// weight orders lines so that the marked ones are drawn over the others.
func weight(class string) int {
	switch {
	case strings.Contains(class, "legal"):
		return 2
	case strings.Contains(class, "taken"):
		return 1
	}
	return 0
}

type stroke struct{ class, path, head string }

func (d *drawing) lines() {
	var strokes []stroke
	for _, k := range d.Links {
		s := stroke{class: d.class(k.Data.steps), path: d.linkPath(k)}
		if k.Data.headDown {
			s.head += fmt.Sprintf("M%.1f %.1fl-4-8h8z", k.XBottom, d.Top(k.Bottom))
		}
		if k.Data.headUp {
			s.head += fmt.Sprintf("M%.1f %.1fl-4 8h8z", k.XTop, d.Bottom(k.Top))
		}
		if k.Data.dashed {
			s.class += " dashed"
		}
		strokes = append(strokes, s)
	}
	for _, rank := range d.Ranks {
		for _, n := range rank {
			if n.Kind == layered.Lane && d.Tops[n.Rank] < d.Bottoms[n.Rank] {
				strokes = append(strokes, stroke{class: d.class(n.Data.steps) + d.dashed(n),
					path: fmt.Sprintf("M%.1f %.1fV%.1f", n.X, d.Tops[n.Rank], d.Bottoms[n.Rank])})
			}
		}
	}
	slices.SortStableFunc(strokes, func(a, b stroke) int { return cmp.Compare(weight(a.class), weight(b.class)) })
	for _, s := range strokes {
		fmt.Fprintf(&d.b, `<path class="line%s" d="%s"/>`+"\n", s.class, s.path)
		if s.head != "" {
			fmt.Fprintf(&d.b, `<path class="head%s" d="%s"/>`+"\n", strings.TrimSuffix(s.class, " dashed"), s.head)
		}
	}
	start := d.boxes[0]
	fmt.Fprintf(&d.b, `<circle class="start" cx="%.1f" cy="%.1f" r="4.5"/>`+
		`<path class="line" d="M%.1f %.1fV%.1f"/>`+"\n",
		start.X, d.Top(start)-11, start.X, d.Top(start)-8, d.Top(start))
}

func (d *drawing) dashed(n *node) string {
	for _, k := range append(slices.Clone(n.Up), n.Down...) {
		if !k.Data.dashed {
			return ""
		}
	}
	return " dashed"
}

// linkPath goes straight down from the upper node to the edge of its band, crosses the gap in a curve and enters the
// lower node.
func (d *drawing) linkPath(k *link) string {
	from, to := d.Bottom(k.Top), d.Top(k.Bottom)
	y1, y2 := d.Bottoms[k.Top.Rank], d.Tops[k.Bottom.Rank]
	if k.Data.headUp {
		from += 6
		y1 = max(y1, from)
	}
	if k.Data.headDown {
		to -= 6
		y2 = min(y2, to)
	}
	mid := (y1 + y2) / 2
	if math.Abs(k.XTop-k.XBottom) < 1.5 { // a difference of rounding is no bend
		return fmt.Sprintf("M%.1f %.1fV%.1f", k.XTop, from, to)
	}
	return fmt.Sprintf("M%.1f %.1fV%.1fC%.1f %.1f %.1f %.1f %.1f %.1fV%.1f",
		k.XTop, from, y1, k.XTop, mid, k.XBottom, mid, k.XBottom, y2, to)
}

func (d *drawing) labels() {
	for _, rank := range d.Ranks {
		for _, n := range rank {
			if n.Kind == layered.Label {
				d.label(n)
			}
		}
	}
}

func (d *drawing) label(n *node) {
	top := d.Top(n)
	fmt.Fprintf(&d.b, `<g class="transition"><rect class="ground label" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`,
		n.X-n.W/2, top, n.W, n.H)
	for i, word := range n.Data.words {
		var steps []step
		for _, s := range n.Data.steps {
			if s.event == word {
				steps = append(steps, s)
			}
		}
		a := d.t.transition(steps[0].from, word)
		fmt.Fprintf(&d.b, `<text class="word%s" x="%.1f" y="%.1f"><title>%s</title>%s</text>`, d.class(steps), n.X,
			top+float64(i+1)*lineHeight-2.5, html.EscapeString(fmt.Sprintf("%s (%s): %s", word, a.By, a.Doc)),
			html.EscapeString(string(word)))
	}
	d.b.WriteString("</g>\n")
}

func (d *drawing) states() {
	for i, n := range d.boxes {
		s := d.t.stages[i]
		class, aria := "state "+string(s.Kind), ""
		if s.Kind == lifecycle.End && s.Outcome != lifecycle.None {
			class += map[bool]string{true: " ok", false: " failed"}[s.Outcome == lifecycle.OK]
		}
		if d.marks.been[s.State] {
			class += " been"
		}
		if s.State == d.view.Current.State {
			class, aria = class+" current", ` aria-current="step"`
		}
		round := map[lifecycle.Kind]float64{lifecycle.Queue: boxHeight / 2, lifecycle.Work: 4, lifecycle.Wait: 4,
			lifecycle.End: 9}[s.Kind]
		x, y := n.X-n.W/2, d.Top(n)
		fmt.Fprintf(&d.b, `<g class="%s"%s><title>%s</title>`+
			`<rect class="box" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="%.0f"/>`,
			class, aria, html.EscapeString(string(s.State)+": "+s.Doc), x, y, n.W, n.H, round)
		if s.Kind == lifecycle.End {
			fmt.Fprintf(&d.b, `<rect class="inner" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="%.0f"/>`, x+3, y+3,
				n.W-6, n.H-6, round-3)
		}
		fmt.Fprintf(&d.b, `<text class="name" x="%.1f" y="%.1f">%s</text>`, n.X, y+boxHeight/2+4.5,
			html.EscapeString(string(s.State)))
		for j, e := range n.Data.loops {
			fmt.Fprintf(&d.b, `<text class="loop" x="%.1f" y="%.1f">↻ %s</text>`, n.X,
				y+boxHeight+float64(j+1)*lineHeight-8,
				html.EscapeString(string(e)))
		}
		d.b.WriteString("</g>\n")
	}
}
