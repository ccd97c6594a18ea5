// Package flowtest has listeners for tests of programs with flows.
package flowtest

import (
	"strings"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/internal/recorder"
	"github.com/stagepost/stagepost/lifecycle"
)

// Capture keeps the events of flows. The zero Capture works; add its Listen to [flow.Options.Listeners].
type Capture struct{ recorder.Recorder[flow.Event] }

// Changes lists the changes of state as "NAME STATE", in order. NAME is that of an atom or of the flow itself.
func (c *Capture) Changes() []string {
	var all []string
	for _, e := range c.Events() {
		if e.Within == "" {
			all = append(all, e.Subject()+" "+string(e.New))
		}
	}
	return all
}

// String returns the changes with commas between them.
func (c *Capture) String() string { return strings.Join(c.Changes(), ", ") }

// Reached is a condition for Await: the atom, or the flow, of a name has come into a state.
func Reached(name string, s lifecycle.State) func(flow.Event) bool {
	return func(e flow.Event) bool { return e.Within == "" && e.Subject() == name && e.New == s }
}
