package flow

import (
	"fmt"
	"strings"
)

// String prints an entry on one line.
func (e entry) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s %s", e.run, e.what, e.atom)
	switch e.what {
	case "commit":
		if e.commit.Move != nil {
			fmt.Fprintf(&b, "flow %s;", e.commit.Move.To)
		}
		for _, r := range e.commit.Atoms {
			fmt.Fprintf(&b, " %s %s/%s %d", r.Name, r.State, r.Intention, r.Attempts)
			if r.Waits {
				b.WriteString(" waits")
			}
			for _, a := range r.History {
				fmt.Fprintf(&b, " (%v", a.Value.Any())
				for _, f := range a.Failures {
					b.WriteString(" " + f.Atom)
				}
				b.WriteString(")")
			}
			b.WriteString(",")
		}
	case "told":
		fmt.Fprintf(&b, "%s %s>%s", e.event.Atom, e.event.Old, e.event.New)
	case "begin", "end":
		fmt.Fprintf(&b, " undo %t attempt %d err %v fault %t", e.undo, e.attempt, e.err, e.fault)
	case "ask":
		fmt.Fprintf(&b, " %s %v", e.decision, e.err)
	case "return":
		fmt.Fprintf(&b, "%s %v %v", e.state, e.rest, e.err)
	default:
		fmt.Fprintf(&b, "%s %v", e.text, e.err)
	}
	return b.String()
}

// logText prints the last entries of a log up to the violation.
func logText(log []entry, upto, most int) string {
	var b strings.Builder
	for k := max(0, upto-most); k <= upto && k < len(log); k++ {
		fmt.Fprintf(&b, "%4d %s\n", k, log[k])
	}
	return b.String()
}
