package flow

import (
	"sync"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// Meter counts the changes of flows. Many goroutines that run flows call its methods concurrently: they must be quick
// and must not block.
type Meter interface {
	Changed(c Changed)
	TriedAgain(f Again)
}

// Changed is a change of state of a flow or an atom.
type Changed struct {
	Flow     string // the flow's name
	Atom     string // empty: the flow itself
	Kind     Kind   // of the atom
	From, To lifecycle.State
	Took     time.Duration // in From; zero if it entered From before the listener was added
	Cause    string        // the type of the failure; empty: none
}

// Again is a failed attempt of a task that is followed by another.
type Again struct {
	Flow, Atom string
	Cause      string // the type of the failure
	Pause      time.Duration
}

// Metering makes a listener that passes the changes of one flow to a meter. It keeps the time at which each atom
// entered its state.
func Metering(m Meter) Listener {
	since := map[string]time.Time{}
	var mu sync.Mutex // guards since
	return func(e Event) {
		cause := ""
		if e.Failure != nil {
			cause = e.Failure.Type
		}
		switch e.Within {
		case "":
			mu.Lock()
			from, there := since[e.Atom]
			since[e.Atom] = e.At
			mu.Unlock()
			c := Changed{Flow: e.Flow, Atom: e.Atom, Kind: e.Kind, From: e.Old, To: e.New, Cause: cause}
			if there {
				c.Took = max(e.At.Sub(from), 0)
			}
			m.Changed(c)
		case TriedAgain:
			m.TriedAgain(Again{Flow: e.Flow, Atom: e.Atom, Cause: cause, Pause: max(e.Due.Sub(e.At), 0)})
		}
	}
}
