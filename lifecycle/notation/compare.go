package notation

import (
	"fmt"

	"github.com/stagepost/stagepost/lifecycle"
)

// Difference is something that one description of a lifecycle has and another lacks.
type Difference struct {
	State lifecycle.State
	To    lifecycle.State // empty when the state itself is lacking
	First bool            // the first description has it
}

func (d Difference) String() string {
	where := "only the second has "
	if d.First {
		where = "only the first has "
	}
	if d.To == "" {
		return where + "the state " + string(d.State)
	}
	return fmt.Sprintf("%s%s -> %s", where, d.State, d.To)
}

// Compare reports which states, and which ways from one state to another, only one of two descriptions has. States are
// the same when their names differ only in capitals and separators. Loops and the names of events do not count.
func Compare(a, b []lifecycle.Stage) []Difference {
	return append(lacking(a, b, true), lacking(b, a, false)...)
}

// lacking lists what is in a and not in b.
func lacking(a, b []lifecycle.Stage, first bool) []Difference {
	var lack []Difference
	type way struct{ from, to string }
	states, ways := map[string]bool{}, map[way]bool{}
	for _, s := range b {
		states[bare(string(s.State))] = true
		for _, transition := range s.Transitions {
			for _, to := range transition.Targets() {
				ways[way{bare(string(s.State)), bare(string(to))}] = true
			}
		}
	}
	for _, s := range a {
		if !states[bare(string(s.State))] {
			lack = append(lack, Difference{State: s.State, First: first})
		}
		for _, transition := range s.Transitions {
			for _, to := range transition.Targets() {
				w := way{bare(string(s.State)), bare(string(to))}
				if transition.Class != lifecycle.Loop && !ways[w] {
					ways[w] = true
					lack = append(lack, Difference{State: s.State, To: to, First: first})
				}
			}
		}
	}
	return lack
}
