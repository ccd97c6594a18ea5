package notation

import (
	"regexp"
	"strings"
)

// chartReader reads graph and flowchart diagrams, a statement at a time.
type chartReader struct {
	*graph
	depth int // open subgraphs
}

var (
	chartID   = regexp.MustCompile(`^[\p{L}\p{N}_]+(?:[.-][\p{L}\p{N}_]+)*`)
	chartLink = regexp.MustCompile(`^<?(?:(?:--+|==+|-\.+)[ \t]+([^|>]*?)[ \t]*(--+>|==+>|\.+->|--+|==+|\.+-)|` +
		`(--+[>xo]?|==+>?|-\.+->?))(?:\s*\|([^|]*)\|)?`)
	chartNote = regexp.MustCompile(`^(?:click\s.*|classDef\s.*|class\s.*|style\s.*|linkStyle\s.*|direction\s.*|` +
		`accTitle\s*:.*|accDescr\s*:.*)$`)
	className = regexp.MustCompile(`^:::[\w-]+`)
)

func (r *chartReader) read(lines []line) {
	for _, l := range lines {
		for more := true; more; {
			l, more = r.statement(l)
		}
	}
	if r.depth > 0 {
		r.problem(lines[len(lines)-1].at, "a subgraph is not closed")
	}
	for i, e := range r.root.edges { // the node START is the source of the first transitions, not a state
		if isStart(e.from) {
			r.root.edges[i].from = ""
		}
	}
	names := r.root.names[:0]
	for _, n := range r.root.names {
		if !isStart(n) {
			names = append(names, n)
		}
	}
	r.root.names = names
}

func isStart(name string) bool { return strings.EqualFold(name, "start") }

// statement reads one statement and returns the rest of the line after a semicolon.
func (r *chartReader) statement(l line) (rest line, more bool) {
	switch {
	case l.text == "", chartNote.MatchString(l.text):
		return l, false
	case strings.HasPrefix(l.text, "subgraph"):
		r.depth++
		return l, false
	case strings.TrimSuffix(l.text, ";") == "end":
		if r.depth--; r.depth < 0 {
			r.problem(l.at, "an end that closes nothing")
			r.depth = 0
		}
		return l, false
	}
	return r.chain(l)
}

// chain reads nodes joined by links: A --> B & C --> D.
func (r *chartReader) chain(l line) (rest line, more bool) {
	at, from := 0, []string(nil)
	label, dashed := "", false
	for {
		nodes, n := r.nodes(l, at)
		if n == 0 {
			r.problem(l.in(at), "a node is expected, not %.40q", l.text[at:])
			return l, false
		}
		at += n
		for _, a := range from {
			for _, b := range nodes {
				r.add(r.root, edge{a, b, label, dashed, l.at})
			}
		}
		at += space(l.text[at:])
		if after, ok := strings.CutPrefix(l.text[at:], ";"); ok {
			skip := at + 1 + space(after)
			return line{l.text[skip:], l.in(skip)}, true
		}
		if l.text[at:] == "" {
			return l, false
		}
		m := chartLink.FindStringSubmatch(l.text[at:])
		if m == nil {
			r.problem(l.in(at), "a transition is expected, not %.40q", l.text[at:])
			return l, false
		}
		label, dashed = strings.Trim(m[1]+m[4], `" `), strings.Contains(m[0], "-.")
		at += len(m[0])
		at += space(l.text[at:])
		from = nodes
	}
}

func space(s string) int { return len(s) - len(strings.TrimLeft(s, " \t")) }

// nodes reads "A & B[text]" at offset and returns the names and the length read.
func (r *chartReader) nodes(l line, offset int) (names []string, n int) {
	for {
		name, size := r.node(l, offset+n)
		if size == 0 {
			return names, 0
		}
		names = append(names, name)
		n += size
		ahead := space(l.text[offset+n:])
		if !strings.HasPrefix(l.text[offset+n+ahead:], "&") {
			return names, n
		}
		n += ahead + 1
		n += space(l.text[offset+n:])
	}
}

// closers are the brackets of node shapes.
var closers = map[byte]string{'[': "]", '(': ")", '{': "}"}

// node reads an identifier and its shape. A text in the shape is the node's name; a rhombus is a choice.
func (r *chartReader) node(l line, offset int) (name string, n int) {
	id := chartID.FindString(l.text[offset:])
	if id == "" {
		return "", 0
	}
	n = len(id)
	text, rhombus := "", false
	if rest := l.text[offset+n:]; rest != "" && closers[rest[0]] != "" {
		opening := 1
		for opening < len(rest) && opening < 3 && closers[rest[opening]] != "" {
			opening++
		}
		closing := ""
		for i := opening - 1; i >= 0; i-- {
			closing += closers[rest[i]]
		}
		end := strings.Index(rest[opening:], closing)
		if end < 0 {
			r.problem(l.in(offset+n), "the shape of %s is not closed", id)
			return id, len(l.text) - offset
		}
		text = strings.TrimSpace(strings.Trim(rest[opening:opening+end], `"/\ `))
		rhombus = rest[:opening] == "{"
		n += opening + end + len(closing)
	}
	n += len(className.FindString(l.text[offset+n:]))
	if text != "" && r.names[id] == "" && r.vertices[id] == nil && !rhombus {
		r.names[id] = text
	}
	name = id
	if given := r.names[id]; given != "" {
		name = given
	}
	v := r.vertex(name, l.in(offset))
	v.pseudo = v.pseudo || rhombus
	r.root.mention(name)
	return name, n
}
