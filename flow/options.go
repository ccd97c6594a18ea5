package flow

import (
	"log/slog"
	"math/rand/v2"
	"time"
)

// Options of a Runner. The zero Options work: serial, in memory only.
type Options struct {
	ID      string  // of the flow among all flows; part of [Call.Key]; defaults to the flow's name
	Storage Storage // defaults to none: what is known of the flow lives in the Runner
	Workers *Pool   // tasks run at once in it; defaults to none: one after another, in the goroutine that runs the flow
	Inject  Values  // values of the flow, stored when it is first run; they go before every result of an atom

	Listeners []Listener

	// a retry controller that stops trying has the flow above reverted too, up to the next controller. Off by default
	// as in TaskFlow: then what is before its part stays done, and the flow still ends REVERTED
	DeferReverts bool
	NeverResolve bool // a failure is left as it is: nothing is reverted or retried, the flow ends in FAILURE
	// errors of the flow itself (a decider, a hook, a missing value) revert it like the failure of a task; off by
	// default: it ends in FAILURE and can be run again
	RevertErrors bool

	// executions of one atom before its flow stops trying whatever its controllers state; defaults to 1000
	MaxAttempts int

	// Upgrade is asked when what is stored was made by another version of the flow, before anything is done. Nil
	// refuses what would change the meaning ([Difference.Meaning]) with [ErrChanged]; [AcceptChanges] accepts all.
	Upgrade func(*Difference) error

	// that a task gets to return after its context ended; then it is left behind; defaults to 10 s
	Grace time.Duration
	Now   func() time.Time // defaults to time.Now
	Rand  *rand.Rand       // for jitter; defaults to a random seed
	Log   *slog.Logger     // of tasks and of what goes wrong in listeners; defaults to none

	machine func(string) // tests: notified when the machine enters a state
}
