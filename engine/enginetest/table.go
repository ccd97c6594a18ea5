package enginetest

import (
	"fmt"

	lc "github.com/stagepost/stagepost/lifecycle"
)

// TransitionLines lists the transitions of a table except loops: from, event, target and actors.
func TransitionLines(t *lc.Table) []string {
	var lines []string
	for _, s := range t.Stages() {
		for _, a := range s.Transitions {
			to := string(a.To)
			if a.Class == lc.Reenter {
				to = fmt.Sprint(a.States)
			}
			if a.Class != lc.Loop {
				lines = append(lines, fmt.Sprintf("%s %s %s %s", s.State, a.Event, to, a.By))
			}
		}
	}
	return lines
}
