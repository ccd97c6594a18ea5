package notation

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// ParseMermaid reads a stateDiagram-v2 or a flowchart. The name of the lifecycle is the file name without folder and
// extension. The error is a [Problems].
func ParseMermaid(file string, text []byte) (*Document, error) {
	if err := tooLong(text); err != nil {
		return nil, err
	}
	if !utf8.Valid(text) {
		return nil, Problems{{1, 1, Syntax, "the text is not UTF-8"}}
	}
	g := newGraph(file)
	lines, kind := content(string(text))
	for _, l := range lines {
		if len(l.text) > maxLine {
			return nil, Problems{{l.at.Line, l.at.Column, Syntax,
				fmt.Sprintf("a line of %d bytes is too long", len(l.text))}}
		}
	}
	switch {
	case kind == "":
		return nil, Problems{{1, 1, Syntax, "no diagram: the first line is stateDiagram-v2, graph or flowchart"}}
	case strings.HasPrefix(kind, "stateDiagram"):
		(&stateReader{graph: g, open: []*level{{region: g.root}}}).read(lines)
	default:
		(&chartReader{graph: g}).read(lines)
	}
	if g.tooLarge() || len(g.problems) > 0 {
		return nil, g.problems
	}
	parts := map[string][]flat{}
	top := g.flatten(g.root, parts)
	d := g.document(baseName(file), g.join(top))
	for _, name := range g.order {
		for _, part := range parts[name] {
			d.Parts = append(d.Parts, g.document(d.Name+"."+name, g.join(part)))
		}
	}
	if len(d.Stages) == 0 && len(g.problems) == 0 {
		g.problem(Position{1, 1}, "the diagram has no states")
	}
	if len(g.problems) > 0 {
		return nil, g.problems
	}
	for _, one := range append([]*Document{d}, d.Parts...) {
		if err := one.tooLarge(); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func baseName(file string) string {
	file = file[strings.LastIndexAny(file, `/\`)+1:]
	if i := strings.LastIndexByte(file, '.'); i > 0 {
		file = file[:i]
	}
	return file
}

// line is a line of a diagram without leading and trailing spaces.
type line struct {
	text string
	at   Position
}

// in returns the position of the byte at offset i of the line.
func (l line) in(i int) Position {
	return Position{l.at.Line, l.at.Column + utf8.RuneCountInString(l.text[:min(i, len(l.text))])}
}

// content returns the lines of a diagram without empty lines, comments and front matter, and the kind of the diagram.
func content(text string) (lines []line, kind string) {
	front := false
	for i, raw := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(raw)
		column := 1 + utf8.RuneCountInString(raw[:strings.Index(raw, trimmed)])
		switch {
		case kind == "" && trimmed == "---" && (i == 0 || front):
			front = !front
		case front, trimmed == "", strings.HasPrefix(trimmed, "%%"):
		case kind == "":
			switch word := strings.TrimSuffix(strings.Fields(trimmed)[0], ";"); word {
			case "stateDiagram", "stateDiagram-v2", "graph", "flowchart":
				kind = word
			default:
				return nil, ""
			}
		default:
			lines = append(lines, line{trimmed, Position{i + 1, column}})
		}
	}
	return lines, kind
}

// level is an open composite state.
type level struct {
	name   string
	region *region
	at     Position
}

// maxDepth is how deeply composite states may be nested.
const maxDepth = 30

type stateReader struct {
	*graph
	open []*level
	note string // the state whose note is being read
}

const stateName = `[\p{L}\p{N}_.-]+?`

var (
	stateTransition = regexp.MustCompile(`^(\[\*\]|` + stateName + `)(?::::[\w-]+)?\s*-->\s*(\[\*\]|` + stateName +
		`)(?::::[\w-]+)?\s*(?::\s*(.*))?$`)
	stateDoc  = regexp.MustCompile(`^(` + stateName + `)\s*:\s*(.+)$`)
	stateBare = regexp.MustCompile(`^(` + stateName + `)(?::::[\w-]+)?$`)
	stateWord = regexp.MustCompile(`^state\s+(?:"([^"]*)"\s+as\s+)?(` + stateName +
		`)\s*(<<\w+>>|\[\[\w+\]\])?\s*(\{)?$`)
	stateQuote = regexp.MustCompile(`^state\s+"([^"]*)"\s*(\{)?$`)
	noteLine   = regexp.MustCompile(`^note\s+(?:left|right)\s+of\s+(` + stateName + `)\s*(?::\s*(.*))?$`)
	styleLine  = regexp.MustCompile(`^(?:direction\s+(?:TB|TD|BT|LR|RL)|classDef\s.*|class\s.*|style\s.*|click\s.*|` +
		`linkStyle\s.*|accTitle\s*:.*|accDescr\s*:.*|hide empty description|scale\s.*)$`)
)

func (r *stateReader) read(lines []line) {
	for _, l := range lines {
		l.text = strings.TrimSpace(strings.TrimSuffix(l.text, ";"))
		r.line(l)
	}
	if r.note != "" {
		r.problem(r.vertices[r.note].at, "the note of %s has no end", r.note)
	}
	for _, o := range r.open[1:] {
		r.problem(o.at, "the state %s is not closed", o.name)
	}
}

func (r *stateReader) region() *region { return r.open[len(r.open)-1].region }

func (r *stateReader) line(l line) {
	switch {
	case r.note != "":
		if strings.EqualFold(l.text, "end note") {
			r.note = ""
			return
		}
		r.describe(r.vertices[r.note], l.text)
	case l.text == "", styleLine.MatchString(l.text):
	case l.text == "}":
		if len(r.open) == 1 {
			r.problem(l.at, "a } that closes nothing")
			return
		}
		r.open = r.open[:len(r.open)-1]
	case l.text == "--":
		r.divide(l)
	case strings.HasPrefix(l.text, "note "):
		r.noteOn(l)
	case strings.HasPrefix(l.text, "state "):
		r.state(l)
	default:
		r.transitionOrDoc(l)
	}
}

func (r *stateReader) divide(l line) {
	if len(r.open) == 1 {
		r.problem(l.at, "-- outside a composite state")
		return
	}
	o := r.open[len(r.open)-1]
	o.region = newRegion()
	v := r.vertices[o.name]
	v.inner = append(v.inner, o.region)
}

func (r *stateReader) noteOn(l line) {
	m := noteLine.FindStringSubmatch(l.text)
	if m == nil {
		r.problem(l.at, "a note is: note right of State : text")
		return
	}
	v := r.touch(m[1], l, 0)
	if m[2] == "" {
		r.note = v.name
		return
	}
	r.describe(v, m[2])
}

// describe records whether a text has the word final.
func (r *stateReader) describe(v *vertex, text string) {
	v.final = v.final || finalWord.MatchString(text)
}

// touch mentions a state by its identifier.
func (r *stateReader) touch(id string, l line, offset int) *vertex {
	name := id
	if given := r.names[id]; given != "" {
		name = given
	}
	v := r.vertex(name, l.in(offset))
	r.region().mention(name)
	return v
}

func (r *stateReader) state(l line) {
	if m := stateQuote.FindStringSubmatch(l.text); m != nil && strings.TrimSpace(m[1]) != "" {
		r.enter(r.touch(m[1], l, 0), m[2], l)
		return
	}
	m := stateWord.FindStringSubmatch(l.text)
	if m == nil {
		r.problem(l.at, "a state is: state Name, state \"Text\" as Name, state Name <<choice>> or state Name {")
		return
	}
	if title := strings.TrimSpace(m[1]); title != "" && r.vertices[m[2]] == nil {
		r.names[m[2]] = title
	}
	v := r.touch(m[2], l, strings.LastIndex(l.text, m[2]))
	v.pseudo = v.pseudo || m[3] != ""
	r.enter(v, m[4], l)
}

// enter opens the composite state v if the line ends in a brace.
func (r *stateReader) enter(v *vertex, brace string, l line) {
	if brace == "" {
		return
	}
	if len(r.open) > maxDepth {
		r.problem(l.at, "states are nested too deeply")
		return
	}
	for _, o := range r.open {
		if o.name == v.name {
			r.problem(l.at, "%s is inside itself", v.name)
			v = &vertex{name: v.name}
		}
	}
	inner := newRegion()
	v.inner = append(v.inner, inner)
	r.open = append(r.open, &level{v.name, inner, l.at})
}

func (r *stateReader) transitionOrDoc(l line) {
	if m := stateTransition.FindStringSubmatchIndex(l.text); m != nil {
		e := edge{at: l.at, from: r.end(l, m[2], m[3]), to: r.end(l, m[4], m[5])}
		if m[6] >= 0 {
			e.label = strings.TrimSpace(l.text[m[6]:m[7]])
		}
		if e.from == "" && e.to == "" {
			r.problem(l.at, "a transition from [*] to [*] has no state")
			return
		}
		r.add(r.region(), e)
		return
	}
	if m := stateDoc.FindStringSubmatch(l.text); m != nil {
		v := r.touch(m[1], l, 0)
		v.doc = strings.TrimSpace(v.doc + " " + m[2])
		r.describe(v, m[2])
		return
	}
	if m := stateBare.FindStringSubmatch(l.text); m != nil {
		r.touch(m[1], l, 0)
		return
	}
	r.problem(l.at, "not understood: %.60q", l.text)
}

// end returns the name of one end of a transition, empty for [*].
func (r *stateReader) end(l line, from, to int) string {
	id := l.text[from:to]
	if id == "[*]" {
		return ""
	}
	return r.touch(id, l, from).name
}
