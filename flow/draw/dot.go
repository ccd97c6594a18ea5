package draw

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/stagepost/stagepost/flow"
)

// names numbers the parts of a flow for languages in which a name has to be an identifier: n1 for atoms, f1 for flows.
type names struct {
	id map[*part]string
	n  int
}

func (n *names) of(p *part) string {
	if n.id == nil {
		n.id = map[*part]string{}
	}
	if n.id[p] == "" {
		n.n++
		n.id[p] = fmt.Sprintf("n%d", n.n)
		if p.kind == flow.KindFlow {
			n.id[p] = fmt.Sprintf("f%d", n.n)
		}
	}
	return n.id[p]
}

// edges calls yield with all links in a flow: those of a graph flow, those that follow from the order of a linear one,
// and from a retry controller to what begins.
func (p *part) edges(yield func(from, to *part, depth flow.Depth)) {
	entered := make([]bool, len(p.items))
	links := p.links
	if p.pattern == flow.PatternLinear {
		for i := 1; i < len(p.items); i++ {
			links = append(links, flow.OutlinedLink{From: i - 1, To: i})
		}
	}
	for _, l := range links {
		entered[l.To] = true
	}
	for i, item := range p.items {
		if p.retry != nil && !entered[i] {
			yield(p.retry, item, "")
		}
	}
	for _, l := range links {
		yield(p.items[l.From], p.items[l.To], l.Depth)
	}
}

// text is the label of a part in lines.
func (p *part) text() []string {
	switch p.kind {
	case flow.KindFlow:
		return []string{(&block{part: p}).caption()}
	case kindRest:
		return []string{cut(p.sum(), 2*noteMost)}
	}
	lines := []string{cut(p.name, nameMost)}
	if line := p.status.line(); line != "" {
		lines = append(lines, line)
	}
	if p.status.note != "" {
		if !p.status.failure {
			return append(lines, cut(p.status.note, noteMost))
		}
		lines = append(lines, wrap(cut(p.status.note, longestNote), noteMost)...)
	}
	return lines
}

// wrap breaks a clean text into lines of about a number of columns, between words where it can.
func wrap(text string, most int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && columnsOf(line)+1+columnsOf(word) > most {
			lines, line = append(lines, line), ""
		}
		for columnsOf(word) > most && line == "" {
			at, n := 0, 0
			for i, r := range word {
				if n += columns(r); n > most && i > 0 {
					break
				}
				at = i + len(string(r))
			}
			if at >= len(word) {
				break
			}
			lines, word = append(lines, word[:at]), word[at:]
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// DOT draws a flow in the language of Graphviz, with the states of the records if there are any.
func DOT(w io.Writer, o *flow.Outline, records []flow.Record, opts Options) error {
	root := opts.read(o, records)
	d := &dot{}
	fmt.Fprintf(&d.b, "digraph %s {\n    rankdir=TB\n    compound=true\n"+
		"    node [fontname=\"sans-serif\", fontsize=12, style=filled]\n"+
		"    edge [fontname=\"sans-serif\", fontsize=10]\n    fontname=\"sans-serif\"\n    fontsize=12\n",
		dotText(root.name))
	d.part(root, "    ")
	d.links(root)
	d.b.WriteString("}\n")
	_, err := w.Write(d.b.Bytes())
	return err
}

type dot struct {
	b   bytes.Buffer
	ids names
}

func (d *dot) part(p *part, indent string) {
	label := dotText(strings.Join(p.text(), "\n"))
	if p.kind != flow.KindFlow {
		shape := map[flow.Kind]string{flow.KindRetry: "octagon", kindRest: "folder"}[p.kind]
		if shape == "" {
			shape = "box"
		}
		l := p.status.look
		fmt.Fprintf(&d.b, "%s%s [label=%s, shape=%s, fillcolor=%q, color=%q%s]\n", indent, d.ids.of(p), label, shape,
			l.fill, l.stroke, dotEdge(l.class))
		return
	}
	fmt.Fprintf(&d.b, "%ssubgraph cluster_%s {\n%s    label=%s\n%s    style=rounded\n", indent, d.ids.of(p), indent,
		label, indent)
	if p.retry != nil {
		d.part(p.retry, indent+"    ")
	}
	if p.retry == nil && len(p.items) == 0 {
		fmt.Fprintf(&d.b, "%s    %s [shape=point, style=invis]\n", indent, d.ids.of(p))
	}
	for _, item := range p.items {
		d.part(item, indent+"    ")
	}
	fmt.Fprintf(&d.b, "%s}\n", indent)
}

// dotEdge reports states apart without colour.
func dotEdge(class string) string {
	switch class {
	case "running", "failed":
		return ", penwidth=2.4"
	case "worse":
		return ", penwidth=2.4, peripheries=2"
	case "reverting":
		return `, penwidth=2.4, style="filled,dashed"`
	case "reverted":
		return `, style="filled,dashed"`
	case "culprit":
		return `, penwidth=2.4, peripheries=2, style="filled,dashed"`
	case "ignored":
		return `, style="filled,dotted"`
	}
	return ""
}

// links draws lines between nodes, and cuts those of flows off at their boxes.
func (d *dot) links(p *part) {
	p.edges(func(from, to *part, depth flow.Depth) {
		look := []string{}
		if from.kind == flow.KindFlow {
			look = append(look, "ltail=cluster_"+d.ids.of(from))
		}
		if to.kind == flow.KindFlow {
			look = append(look, "lhead=cluster_"+d.ids.of(to))
		}
		if depth != "" {
			look = append(look, "style=dashed", "label="+dotText("if: "+cut(clean(string(depth)), 12)))
		}
		fmt.Fprintf(&d.b, "    %s -> %s", d.ids.of(from.last()), d.ids.of(to.first()))
		if len(look) > 0 {
			fmt.Fprintf(&d.b, " [%s]", strings.Join(look, ", "))
		}
		d.b.WriteString("\n")
	})
	for _, item := range p.items {
		if item.kind == flow.KindFlow {
			d.links(item)
		}
	}
}

// first gives the part that a line to a flow is drawn to; an empty flow stands for itself.
func (p *part) first() *part {
	switch {
	case p.retry != nil:
		return p.retry
	case len(p.items) > 0:
		return p.items[0].first()
	}
	return p
}

func (p *part) last() *part {
	switch {
	case len(p.items) > 0:
		return p.items[len(p.items)-1].last()
	case p.retry != nil:
		return p.retry
	}
	return p
}

// dotText quotes a text for Graphviz, which has the quote, the backslash and the line break.
func dotText(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
