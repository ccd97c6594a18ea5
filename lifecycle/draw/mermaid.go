package draw

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/stagepost/stagepost/lifecycle"
)

// Mermaid draws the table as a stateDiagram-v2: one line for each transition, and ends lead to [*]. A re-entering
// transition has a line for each state to which it may go back.
func Mermaid(table *lifecycle.Table, v View) string { return chartOf(table).mermaid(v) }

func (t *chart) mermaid(v View) string {
	var b strings.Builder
	m := t.marks(v)
	b.WriteString("stateDiagram-v2\n    direction TB\n")
	for i, s := range t.stages {
		if id := t.mermaidID(i); id != string(s.State) {
			fmt.Fprintf(&b, "    state \"%s\" as %s\n", strings.ReplaceAll(mermaidText(string(s.State)), `"`, "'"), id)
		}
	}
	fmt.Fprintf(&b, "    [*] --> %s\n", t.mermaidID(0))
	for i, s := range t.stages {
		for _, a := range s.Transitions {
			if a.Class == lifecycle.Loop && !v.Loops {
				continue
			}
			for _, to := range a.Targets() {
				fmt.Fprintf(&b, "    %s --> %s : %s\n", t.mermaidID(i), t.mermaidID(t.index[to]),
					mermaidText(string(a.Event)))
			}
		}
		if s.Kind == lifecycle.End {
			fmt.Fprintf(&b, "    %s --> [*]\n", t.mermaidID(i))
		}
	}
	t.mermaidClasses(&b, v, m)
	return b.String()
}

// mermaidClasses marks the current state, the targets of its legal exits, and the states of the path.
func (t *chart) mermaidClasses(b *strings.Builder, v View, m marks) {
	var current, legal, been []string
	for i, s := range t.stages {
		id := t.mermaidID(i)
		switch {
		case s.State == v.Current.State:
			current = append(current, id)
		case leads(m.legal, s.State):
			legal = append(legal, id)
		case m.been[s.State]:
			been = append(been, id)
		}
	}
	class := func(name, style string, ids []string) {
		if len(ids) > 0 {
			fmt.Fprintf(b, "    classDef %s %s\n    class %s %s\n", name, style, strings.Join(ids, ","), name)
		}
	}
	class("current", "fill:#ffe29a,color:#1c2430,stroke:#1c2430,stroke-width:3px", current)
	class("legal", "stroke:#0b57d0,stroke-width:3px", legal)
	class("been", "stroke:#7a3fc0,stroke-width:2px", been)
}

func leads(steps map[step]bool, to lifecycle.State) bool {
	for s := range steps {
		if s.to == to && s.from != to {
			return true
		}
	}
	return false
}

// mermaidWords have a meaning of their own in a state diagram.
var mermaidWords = []string{"state", "end", "note", "direction", "class", "classdef", "as", "style", "default"}

// mermaidID returns the state's name if it is an identifier of Mermaid, else s and a number that is no name of the
// table.
func (t *chart) mermaidID(i int) string {
	name := string(t.stages[i].State)
	plain := name != "" && !slices.Contains(mermaidWords, strings.ToLower(name))
	for _, r := range name {
		plain = plain && (r == '_' || r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)))
	}
	if plain && !unicode.IsDigit(rune(name[0])) {
		return name
	}
	id := fmt.Sprintf("s%d", i)
	for t.has(lifecycle.State(id)) {
		id += "_"
	}
	return id
}

func (t *chart) has(s lifecycle.State) bool { _, ok := t.index[s]; return ok }

// mermaidText removes line breaks and the syntax of Mermaid from a text.
func mermaidText(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ';' || r == '#' || r == ':' || r == '%' || r == '{' || r == '}' || r == '<' || r == '>':
			return '_'
		case unicode.IsControl(r):
			return ' '
		}
		return r
	}, s)
}
