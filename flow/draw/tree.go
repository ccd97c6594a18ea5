package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/lifecycle"
)

// TreeOptions state how a tree is written. The zero ones give all lines in ASCII without colour, however long.
type TreeOptions struct {
	State lifecycle.State // of the flow; empty: not shown
	Now   time.Time       // for what has not ended; zero: its time is not shown
	Width int             // columns of the terminal; longer lines are cut. 0: any length
	// most lines; the failed, active and waiting parts are shown first, the others counted. 0: all
	MaxLines int
	Color    bool // ANSI colours; states have symbols and words besides
	Unicode  bool // draw with characters beyond ASCII; otherwise those of names become question marks
}

// Tree writes a flow as a tree for terminals: a line for each flow, retry controller and task, with symbol, state,
// attempt, time, progress, and what it waits for or why it failed. At the end it counts what is stored of tasks that
// the flow does not have any more. No line has control characters but those of colours.
func Tree(o *flow.Outline, records []flow.Record, opts TreeOptions) []string {
	root, left := partOf(o, records, opts.Now)
	t := &tree{opts: opts, root: root}
	t.grow(root, nil)
	extra := 0
	if len(left) > 0 && opts.MaxLines != 1 {
		extra = 1
	}
	t.choose(extra)
	t.lines = append(t.lines, t.rootLine())
	t.branch(root, "")
	if extra > 0 {
		gone := tally{}
		for _, r := range left {
			gone[lifecycle.State(cut(clean(string(r.State)), 20))]++
		}
		t.lines = append(t.lines, row{pieces: []piece{{text: "stored, but not part of the flow any more: " +
			gone.String()}}})
	}
	return t.write()
}

type tree struct {
	opts  TreeOptions
	root  *part
	all   []*part // in the order of the lines
	above map[*part]*part
	shown map[*part]bool // nil: all
	words int            // columns of the longest state
	lines []row
}

// row is a line before it is written: the branches, the name, what comes after it.
type row struct {
	lead, symbol, name string
	colour             string
	pieces             []piece
}

// piece is a part of a line with a colour of its own.
type piece struct{ text, colour string }

// parts lists what has lines below a part.
func (p *part) parts() []*part {
	if p.retry == nil {
		return p.items
	}
	return append([]*part{p.retry}, p.items...)
}

func (t *tree) grow(p, above *part) {
	if t.above == nil {
		t.above = map[*part]*part{}
	}
	t.above[p] = above
	t.all = append(t.all, p)
	t.words = max(t.words, columnsOf(p.status.word))
	for _, k := range p.parts() {
		t.grow(k, p)
	}
}

// choose states what is shown when there is no space for all: the pressing parts first and the flows that they stand
// in, then by order. Each flow with something hidden has one more line for that.
func (t *tree) choose(extra int) {
	most := t.opts.MaxLines - extra
	if t.opts.MaxLines <= 0 || len(t.all) <= most {
		return
	}
	t.shown = map[*part]bool{t.root: true}
	hidden := map[*part]int{t.root: len(t.root.parts())}
	lines := 1 + b2i(hidden[t.root] > 0)
	ranked := slices.Clone(t.all)
	slices.SortStableFunc(ranked, func(a, b *part) int { return cmp.Compare(eager(a), eager(b)) })
	for _, p := range ranked {
		if t.shown[p] {
			continue
		}
		var way []*part
		cost := 0
		for at := p; !t.shown[at]; at = t.above[at] {
			way = append(way, at)
			inside := len(at.parts()) - b2i(at != p) // what stays hidden in it
			cost += 1 + b2i(inside > 0)
			if up := t.above[at]; t.shown[up] && hidden[up] == 1 {
				cost-- // nothing is left to be counted
			}
		}
		if lines+cost > most {
			continue
		}
		lines += cost
		for _, at := range slices.Backward(way) {
			t.shown[at], hidden[at] = true, len(at.parts())
			hidden[t.above[at]]--
		}
	}
}

// eager orders parts by what is shown first; flows come along with what is in them. What is quiet follows in the order
// of the flow.
func eager(p *part) int {
	if p.kind == flow.KindFlow || p.urgency > looks[waits].urgency {
		return unknown.urgency
	}
	return p.urgency
}

// branch writes what is below a part.
func (t *tree) branch(p *part, lead string) {
	var kids, hidden []*part
	for _, k := range p.parts() {
		if t.shown == nil || t.shown[k] {
			kids = append(kids, k)
		} else {
			hidden = append(hidden, k)
		}
	}
	tee, elbow, pipe, more := "|- ", "`- ", "|  ", "... "
	if t.opts.Unicode {
		tee, elbow, pipe, more = "├─ ", "└─ ", "│  ", "… "
	}
	for i, k := range kids {
		first, below := tee, pipe
		if i == len(kids)-1 && len(hidden) == 0 {
			first, below = elbow, "   "
		}
		if t.opts.Width > 0 && columnsOf(lead) > t.opts.Width { // the rest is not visible
			below = ""
		}
		if k.kind == flow.KindFlow {
			t.lines = append(t.lines, row{lead: lead + first, name: k.name, pieces: t.flowPieces(k)})
			t.branch(k, lead+below)
			continue
		}
		t.lines = append(t.lines, t.leafRow(k, lead+first))
	}
	if len(hidden) > 0 {
		t.lines = append(t.lines, row{lead: lead + elbow,
			pieces: []piece{{text: more + rest(hidden).sum(), colour: "2"}}})
	}
}

func (t *tree) rootLine() row {
	if t.root.kind != flow.KindFlow {
		return t.leafRow(t.root, "")
	}
	r := row{name: t.root.name, pieces: t.flowPieces(t.root)}
	if s := t.opts.State; s != "" {
		r.pieces = append([]piece{{cut(clean(string(s)), 20), lookOf(s, false).colour}}, r.pieces...)
	}
	return r
}

func (t *tree) flowPieces(p *part) []piece {
	pieces := []piece{{text: cut(clean(string(p.pattern)), 12)}}
	if done := p.done(); done != "" {
		pieces = append(pieces, piece{text: done})
	}
	return pieces
}

func (t *tree) leafRow(p *part, lead string) row {
	s := p.status
	r := row{lead: lead, name: p.name, colour: s.colour}
	if s.word == "" {
		if p.kind == flow.KindRetry {
			r.pieces = append(r.pieces, piece{text: "retry controller"})
		}
		return r
	}
	r.symbol = s.plain + " "
	if t.opts.Unicode {
		r.symbol = s.symbol + " "
	}
	r.pieces = append(r.pieces, piece{s.word + strings.Repeat(" ", t.words-columnsOf(s.word)), s.colour})
	if s.attempt > 0 {
		r.pieces = append(r.pieces, piece{text: fmt.Sprintf("attempt %d", s.attempt)})
	}
	if s.took != "" {
		r.pieces = append(r.pieces, piece{text: s.took})
	}
	if s.progress >= 0 {
		r.pieces = append(r.pieces, piece{text: t.bar(s.progress)})
	}
	if s.note != "" {
		r.pieces = append(r.pieces, piece{text: cut(s.note, longestNote)})
	}
	return r
}

func (t *tree) bar(part float64) string {
	const long = 10
	n := int(part * long)
	full, empty := "#", "."
	if t.opts.Unicode {
		full, empty = "▰", "▱"
	}
	return fmt.Sprintf("[%s%s] %d%%", strings.Repeat(full, n), strings.Repeat(empty, long-n), int(part*100))
}

// write aligns what comes after the names and cuts the lines. Names have at most half a line.
func (t *tree) write() []string {
	nameMost := 48
	if t.opts.Width > 0 {
		nameMost = max(t.opts.Width/2, 8)
	}
	column := 0
	for i := range t.lines {
		r := &t.lines[i]
		if !t.opts.Unicode {
			r.name = ascii(r.name)
		}
		if r.name != "" {
			r.name = cut(r.name, max(nameMost-columnsOf(r.lead+r.symbol), 4))
			column = max(column, columnsOf(r.lead+r.symbol+r.name))
		}
	}
	lines := make([]string, 0, len(t.lines))
	for _, r := range t.lines {
		pieces := []piece{{text: r.lead}, {r.symbol, r.colour}, {text: r.name}}
		if r.name != "" && len(r.pieces) > 0 {
			pieces = append(pieces, piece{text: strings.Repeat(" ", column-columnsOf(r.lead+r.symbol+r.name)+1)})
		}
		for i, p := range r.pieces {
			if i > 0 || r.name != "" {
				pieces = append(pieces, piece{text: " "})
			}
			pieces = append(pieces, p)
		}
		lines = append(lines, t.line(pieces))
	}
	if most := t.opts.MaxLines; most > 0 && len(lines) > most {
		lines = lines[:most]
	}
	return lines
}

func (t *tree) line(pieces []piece) string {
	return join(pieces, t.opts.Width, t.opts.Color, t.opts.Unicode)
}

// join writes pieces one after another in at most a width, 0: any.
func join(pieces []piece, width int, colour, wide bool) string {
	for len(pieces) > 0 && strings.TrimRight(pieces[len(pieces)-1].text, " ") == "" {
		pieces = pieces[:len(pieces)-1]
	}
	var b strings.Builder
	at, total := 0, 0
	for _, p := range pieces {
		total += columnsOf(p.text)
	}
	for i, p := range pieces {
		text := p.text
		if i == len(pieces)-1 {
			text = strings.TrimRight(text, " ")
		}
		full := width > 0 && total > width && at+columnsOf(text) > width-1
		if full {
			text = cut(text+"  ", max(width-at, 1))
		}
		if !wide {
			text = ascii(text)
		}
		at += columnsOf(text)
		if colour && p.colour != "" && strings.TrimSpace(text) != "" {
			text = "\x1b[" + p.colour + "m" + text + "\x1b[0m"
		}
		b.WriteString(text)
		if full {
			break
		}
	}
	return b.String()
}
