package notation

import (
	"fmt"

	"github.com/stagepost/stagepost/lifecycle"
)

// Difference is a state or a connection that only one of two descriptions has.
type Difference struct {
	State lifecycle.State
	To    lifecycle.State // empty if the state itself is missing
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

// Compare reports the states, and the connections between two states, that only one of two descriptions has. Names of
// states are compared without case and separators. Loops and the names of events are not compared.
func Compare(a, b []lifecycle.Stage) []Difference {
	return append(lacking(a, b, true), lacking(b, a, false)...)
}

// lacking lists the states and connections of a that b does not have.
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
