package draw

import (
	"fmt"
	"strings"

	"github.com/stagepost/stagepost/lifecycle"
)

// DOT draws the table in the language of Graphviz.
func DOT(table *lifecycle.Table, v View) string { return chartOf(table).dot(v) }

func (t *chart) dot(v View) string {
	var b strings.Builder
	m := t.marks(v)
	fmt.Fprintf(&b, "digraph %s {\n    rankdir=TB\n    node [fontname=\"sans-serif\", fontsize=12]\n"+
		"    edge [fontname=\"sans-serif\", fontsize=10]\n    start [shape=point, label=\"\"]\n", dotText(t.name))
	for i, s := range t.stages {
		look := map[lifecycle.Kind]string{
			lifecycle.Queue: `shape=box, style="rounded,filled"`, lifecycle.Work: `shape=box, style=filled`,
			lifecycle.Wait: `shape=box, style="dashed,filled"`, lifecycle.End: `shape=box, peripheries=2, style=filled`,
		}[s.Kind]
		fill := "#f3f5f8"
		if s.State == v.Current.State {
			fill, look = "#ffe29a", look+", penwidth=2.5"
		}
		fmt.Fprintf(&b, "    n%d [label=%s, tooltip=%s, fillcolor=\"%s\", %s]\n", i, dotText(string(s.State)),
			dotText(s.Doc), fill, look)
	}
	b.WriteString("    start -> n0\n")
	for i, s := range t.stages {
		for _, a := range s.Transitions {
			if a.Class == lifecycle.Loop && !v.Loops {
				continue
			}
			for _, to := range a.Targets() {
				fmt.Fprintf(&b, "    n%d -> n%d [label=%s, tooltip=%s%s]\n", i, t.index[to], dotText(string(a.Event)),
					dotText(a.Doc),
					dotLook(a, m, step{s.State, a.Event, to}))
			}
		}
	}
	b.WriteString("}\n")
	return b.String()
}

func dotLook(a lifecycle.Transition, m marks, s step) string {
	look := ""
	switch a.Class {
	case lifecycle.Fail:
		look = `, color="#b3261e", fontcolor="#b3261e"`
	case lifecycle.Reenter:
		look = ", style=dashed"
	}
	switch {
	case m.legal[s]:
		look += `, penwidth=2.6, color="#0b57d0"`
	case m.taken[s]:
		look += `, penwidth=2.6, color="#7a3fc0"`
	}
	return look
}

// dotText quotes a text for Graphviz, which escapes quotes, backslashes and line breaks.
func dotText(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", "", "\x00", "").Replace(s) + `"`
}
