package flow

import (
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// Event is what listeners are notified: a change of state of the flow or of an atom, or something that happened within
// a state (Within). A change is reported after it was stored, in the order in which changes were made.
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
	Details  *Value    // with Within [Progressed], if the task stated something about it
	Due      time.Time // with Within [TriedAgain] and [Waits]
}

// Within is what can happen to an atom that stays in its state.
type Within string

// What can happen.
const (
	Progressed Within = "progress" // see [Call.Progress]; also 0 when it begins and 1 when it is done
	TriedAgain Within = "backoff"  // it failed and will be executed again at Due
	Waits      Within = "wait"     // it waits for Due or a signal
)

// Subject returns the name of the atom that the event is about, or of the flow.
func (e *Event) Subject() string {
	if e.Atom == "" {
		return e.Flow
	}
	return e.Atom
}

// Listener is notified what happens, in the goroutine that runs the flow: it must be quick. It may call
// [Runner.Suspend] and [Runner.Stop]. A panic in it is logged and changes nothing.
type Listener func(Event)
