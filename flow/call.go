package flow

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/stagepost/stagepost/quantity"
)

// Call is what a task or retry controller is called with. It belongs to the one call; Progress and Log may be used from
// other goroutines.
type Call struct {
	Atom string
	Flow string // the flow's name
	// 1 for the first execution; goes on counting after a retry or a reset, so that Key differs. A resumption after a
	// crash counts as the attempt it repeats
	Attempt int

	Result  Value    // Revert: what Execute gave
	Failure *Failure // Revert: why Execute failed; nil if it succeeded
	// Revert: every failed Execute of this attempt at the flow, by atom; shared with other reverts, not to be changed
	Failures map[string]*Failure
	History  History // retry controllers: their attempts

	args     Values
	signal   func(name string) (Value, bool)
	id       string
	due      time.Time
	now      func() time.Time
	log      *slog.Logger
	progress func(part float64, details any)
}

// Get gives an argument, or nil.
func (c *Call) Get(arg string) any {
	v := c.args[arg]
	if own, ok := v.(Value); ok {
		return own.Any()
	}
	return v
}

// Has reports whether an argument is there: optional ones may not be.
func (c *Call) Has(arg string) bool {
	_, ok := c.args[arg]
	return ok
}

// Args gives all arguments.
func (c *Call) Args() Values {
	all := make(Values, len(c.args))
	for arg := range c.args {
		all[arg] = c.Get(arg)
	}
	return all
}

// Into decodes an argument into what into points to.
func (c *Call) Into(arg string, into any) error {
	v, ok := c.args[arg]
	if !ok {
		return wrong(ErrNotFound, []string{c.Atom}, "%s has no argument %q", c.Atom, arg)
	}
	if err := ValueOf(v).Into(into); err != nil {
		return fmt.Errorf("argument %q of %s: %w", arg, c.Atom, err)
	}
	return nil
}

// Key names the work for the one who must not do it twice: the same when the call is repeated after a crash, another
// for a further attempt.
func (c *Call) Key() string {
	return fmt.Sprintf("%s/%s/%d", inKey.Replace(c.id), inKey.Replace(c.Atom), c.Attempt)
}

// inKey keeps "f" with the atom "a/b" apart from "f/a" with "b".
var inKey = strings.NewReplacer("/", "%2F", "%", "%25")

// Progress reports to listeners how much is done, from 0 to 1.
func (c *Call) Progress(part float64) { c.progress(part, nil) }

// ProgressDetails is Progress with something to state about it.
func (c *Call) ProgressDetails(part float64, details any) { c.progress(part, details) }

// Signal gives what came with the first signal of a name that no one has taken; ok is false as long as there is none.
// Execute of a task takes it: when its result is stored, the signal is gone, by the same commit. Until then it reads
// the same one, and others read the next. Reverts and controllers take nothing.
func (c *Call) Signal(name string) (v Value, ok bool) { return c.signal(name) }

// Due is the time that [Await] was given when this execution was last interrupted; zero if it was not.
func (c *Call) Due() time.Time { return c.due }

// Now is the flow's time.
func (c *Call) Now() time.Time { return c.now() }

// Log is for the people who watch the flow.
func (c *Call) Log() *slog.Logger { return c.log }

// awaiting is what Execute returns to wait.
type awaiting struct {
	signal string
	until  time.Time
}

func (a *awaiting) Error() string {
	if a.signal == "" {
		return "waits until " + a.until.Format(time.RFC3339)
	}
	return "waits for the signal " + a.signal
}

// Await is what Execute returns to wait without holding a worker: for a signal to the flow, until a time, or for
// whichever comes first (an empty name: no signal; a zero time: no end). The task declares the signal in
// [Task.Signals]. Execute is called again then, with the same Key; it finds the signal with [Call.Signal]. The task
// stays RUNNING meanwhile. Revert cannot wait.
func Await(signal string, until time.Time) error { return &awaiting{signal, until} }

// Wait makes a task that waits for a signal to the flow; what comes with it, of any type, is its result ([Signal.Wait]
// is for one type). If within is positive and the signal does not come in that time, the task fails with [TypeTimeout].
func Wait(name, signal string, within time.Duration) *Task {
	from := func(c *Call) (any, bool, error) {
		v, ok := c.Signal(signal)
		return v, ok, nil
	}
	return &Task{Name: name, span: within, Signals: []AnySignal{Signal[any](signal)},
		Execute: waitFor(signal, within, from)}
}

// waitFor makes a Do that waits until from gives what came with a signal.
func waitFor(signal string, within time.Duration, from func(*Call) (any, bool, error)) Do {
	return waiting(within, func(c *Call, until time.Time) (any, error) {
		if v, ok, err := from(c); ok || err != nil {
			return v, err
		}
		if !until.IsZero() && !c.Now().Before(until) {
			return nil, failed(TypeTimeout, "the signal %s did not come within %s", signal,
				quantity.FormatDuration(within))
		}
		return nil, Await(signal, until)
	})
}

// Sleep makes a task that waits for a time to pass. It gives nothing.
func Sleep(name string, d time.Duration) *Task {
	return &Task{Name: name, span: d, Execute: waiting(d, func(c *Call, until time.Time) (any, error) {
		if until.IsZero() || !c.Now().Before(until) {
			return nil, nil
		}
		return nil, Await("", until)
	})}
}

// waiting makes a Do that is called with the end of a span of time that began with its first call; zero if within is.
func waiting(within time.Duration, do func(c *Call, until time.Time) (any, error)) Do {
	return func(_ context.Context, c *Call) (any, error) {
		until := c.Due()
		if until.IsZero() && within > 0 {
			until = c.Now().Add(within)
		}
		return do(c, until)
	}
}
