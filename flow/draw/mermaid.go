package draw

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/flow"
)

// Mermaid draws a flow as a Mermaid flowchart with a subgraph for each flow, and the states of the records if there are
// any.
func Mermaid(w io.Writer, o *flow.Outline, records []flow.Record, opts Options) error {
	root := opts.read(o, records)
	m := &mermaid{members: map[string][]string{}, looks: map[string]look{}}
	m.b.WriteString("flowchart TB\n")
	m.part(root, "    ")
	m.links(root)
	for _, class := range slices.Sorted(maps.Keys(m.members)) {
		l := m.looks[class]
		style := fmt.Sprintf("fill:%s,stroke:%s,color:#1c2430", l.fill, l.stroke)
		switch class {
		case "running", "failed", "worse":
			style += ",stroke-width:3px"
		case "culprit":
			style += ",stroke-width:3px,stroke-dasharray:6 3"
		case "reverting", "reverted":
			style += ",stroke-dasharray:6 3"
		case "ignored":
			style += ",stroke-dasharray:2 3"
		}
		fmt.Fprintf(&m.b, "    classDef %s %s\n    class %s %s\n", class, style, strings.Join(m.members[class], ","),
			class)
	}
	_, err := w.Write(m.b.Bytes())
	return err
}

type mermaid struct {
	b       bytes.Buffer
	ids     names
	members map[string][]string // ids by class
	looks   map[string]look
}

func (m *mermaid) part(p *part, indent string) {
	id, lines := m.ids.of(p), p.text()
	for i := range lines {
		lines[i] = mermaidText(lines[i])
	}
	label := strings.Join(lines, "<br>")
	if p.kind != flow.KindFlow {
		shape := [2]string{`["`, `"]`}
		switch p.kind {
		case flow.KindRetry:
			shape = [2]string{`{{"`, `"}}`}
		case kindRest:
			shape = [2]string{`[["`, `"]]`}
		}
		fmt.Fprintf(&m.b, "%s%s%s%s%s\n", indent, id, shape[0], label, shape[1])
		m.members[p.status.class] = append(m.members[p.status.class], id)
		m.looks[p.status.class] = p.status.look
		return
	}
	fmt.Fprintf(&m.b, "%ssubgraph %s[\"%s\"]\n", indent, id, label)
	if p.retry != nil {
		m.part(p.retry, indent+"    ")
	}
	for _, item := range p.items {
		m.part(item, indent+"    ")
	}
	fmt.Fprintf(&m.b, "%send\n", indent)
}

func (m *mermaid) links(p *part) {
	p.edges(func(from, to *part, depth flow.Depth) {
		line := "-->"
		if depth != "" {
			line = `-. "if: ` + mermaidText(cut(clean(string(depth)), 12)) + `" .->`
		}
		fmt.Fprintf(&m.b, "    %s %s %s\n", m.ids.of(from), line, m.ids.of(to))
	})
	for _, item := range p.items {
		if item.kind == flow.KindFlow {
			m.links(item)
		}
	}
}

// mermaidText keeps a clean text free of what Mermaid reads as syntax in a quoted label, as HTML, as an entity or as
// Markdown.
func mermaidText(s string) string {
	s = strings.Map(func(r rune) rune {
		switch r {
		case '"':
			return '\''
		case ';', '#', '%', '{', '}', '<', '>', '`', '&', '\\':
			return '_'
		}
		return r
	}, s)
	word, rest, _ := strings.Cut(s, " ")
	if n := strings.TrimLeft(word, "0123456789"); n == "-" || n == "*" || n == "+" || n == "." || n == ")" {
		return word + "\u00a0" + rest // no list
	}
	if s == "" {
		return "\u00a0" // the label of nothing is an error
	}
	return s
}
