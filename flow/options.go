package flow

import (
	"log/slog"
	"math/rand/v2"
	"time"
)

// Options of a Runner. The zero Options work: serial, in memory only.
type Options struct {
	ID      string  // of the flow among all flows; part of [Call.Key]; defaults to the flow's name
	Storage Storage // defaults to none: the Runner keeps the records in memory
	Workers *Pool   // runs tasks concurrently; defaults to none: one by one, in the goroutine of Run
	Inject  Values  // values of the flow, stored by its first run; they override the results of atoms

	Listeners []Listener

	// A retry controller that decides REVERT also reverts the flow above it, up to the next controller. Without it, as
	// in TaskFlow, the atoms before its part are not reverted, and the flow still ends REVERTED.
	DeferReverts bool
	NeverResolve bool // a failure reverts and retries nothing; the flow ends in FAILURE

	// Errors of the flow itself (a decider, a hook, a missing value) revert it like the failure of a task. Without it
	// the flow ends in FAILURE and can be run again.
	RevertErrors bool

	MaxAttempts int // executions of one atom after which no controller can retry it; defaults to 1000

	// Upgrade is called before a run if another version of the flow made the stored records. Nil refuses changes of
	// meaning ([Difference.Meaning]) with [ErrChanged]; [AcceptChanges] accepts all changes.
	Upgrade func(*Difference) error

	Grace time.Duration    // for a task to return after its context ended; then the run continues; defaults to 10 s
	Now   func() time.Time // defaults to time.Now
	Rand  *rand.Rand       // for jitter; defaults to a random seed
	Log   *slog.Logger     // of tasks and of errors in listeners; defaults to none

	machine func(string) // for tests: called when the machine enters a state
}
