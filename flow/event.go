package flow

import (
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// Event is a change of state of the flow or of an atom, or something that happens within a state (Within). Listeners
// get a change after it is stored. They get changes in the order in which they were made.
type Event struct {
	Flow    string // the flow's name
	ID      string // as in Options
	Atom    string // empty: the flow itself
	Kind    Kind   // of the atom
	Old     lifecycle.State
	New     lifecycle.State
	Result  *Value   // with SUCCESS and REVERTED
	Failure *Failure // with FAILURE and REVERT_FAILURE, and with Within [TriedAgain]
	At      time.Time

	Within   Within    // empty: a change of state
	Progress float64   // with Within [Progressed]
	Details  *Value    // with Within [Progressed]: the details that the task reported, if any
	Due      time.Time // with Within [TriedAgain] and [Waits]
}

// Within names what happens to an atom that stays in its state.
type Within string

// What happens within a state.
const (
	Progressed Within = "progress" // see [Call.Progress]; also 0 at its start and 1 at its end
	TriedAgain Within = "backoff"  // it failed and is executed again at Due
	Waits      Within = "wait"     // it waits for Due or a signal
)

// Subject returns the name of the atom that the event concerns, or of the flow.
func (e *Event) Subject() string {
	if e.Atom == "" {
		return e.Flow
	}
	return e.Atom
}

// Listener gets the events of a flow, in the goroutine that runs the flow: it must be quick. It may call
// [Runner.Suspend] and [Runner.Stop]. A panic in it is logged and has no other effect.
type Listener func(Event)
