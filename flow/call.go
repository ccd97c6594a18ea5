package flow

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/stagepost/stagepost/quantity"
)

// Call is the argument of a task or retry controller. It is valid during the call. Progress and Log may be used from
// other goroutines.
type Call struct {
	Atom string
	Flow string // the flow's name
	// 1 for the first execution. A retry or a reset continues the count, so that Key differs. An execution that is
	// repeated after a crash has the number of the interrupted one
	Attempt int

	Result  Value    // Revert: the result of Execute
	Failure *Failure // Revert: why Execute failed; nil if it succeeded
	// Revert: every failed Execute of this attempt at the flow, by atom; shared with other reverts and read-only
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

// Get returns an argument, or nil.
func (c *Call) Get(arg string) any {
	v := c.args[arg]
	if own, ok := v.(Value); ok {
		return own.Any()
	}
	return v
}

// Has reports whether an argument has a value; an optional one may have none.
func (c *Call) Has(arg string) bool {
	_, ok := c.args[arg]
	return ok
}

// Args returns all arguments.
func (c *Call) Args() Values {
	all := make(Values, len(c.args))
	for arg := range c.args {
		all[arg] = c.Get(arg)
	}
	return all
}

// Into decodes an argument into the variable that into points to.
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

// Key is an idempotency key for outside systems: the same when the call is repeated after a crash, and a new one for
// each further attempt.
func (c *Call) Key() string {
	return fmt.Sprintf("%s/%s/%d", inKey.Replace(c.id), inKey.Replace(c.Atom), c.Attempt)
}

// inKey escapes slashes: the flow "f" with the atom "a/b" and the flow "f/a" with the atom "b" have different keys.
var inKey = strings.NewReplacer("/", "%2F", "%", "%25")

// Progress reports to listeners the part that is done, from 0 to 1.
func (c *Call) Progress(part float64) { c.progress(part, nil) }

// ProgressDetails is Progress with details for the listeners.
func (c *Call) ProgressDetails(part float64, details any) { c.progress(part, details) }

// Signal returns the value of the oldest signal of a name that is not taken; ok is false if there is none. Execute of
// a task takes the signal: the commit that stores its result removes the signal. Until then the task reads the same
// signal, and other tasks read the next one. Reverts and controllers take no signals.
func (c *Call) Signal(name string) (v Value, ok bool) { return c.signal(name) }

// Due is the time of the last [Await] of this execution; zero if it did not wait.
func (c *Call) Due() time.Time { return c.due }

// Now returns the time by the flow's clock.
func (c *Call) Now() time.Time { return c.now() }

// Log returns the log of the flow.
func (c *Call) Log() *slog.Logger { return c.log }

// awaiting is the error that Execute returns to wait.
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

// Await makes the error that Execute returns to wait without holding a worker: for a signal to the flow, until a time,
// or for the first of both. An empty name is no signal; a zero time is no end. The task declares the signal in
// [Task.Signals]. Then Execute is called again with the same Key and reads the signal with [Call.Signal]. The task
// stays RUNNING meanwhile. Revert cannot wait.
func Await(signal string, until time.Time) error { return &awaiting{signal, until} }

// Wait makes a task that waits for a signal to the flow. The task's result is the value of the signal, of any type;
// [Signal.Wait] is for one type. If within is positive and the signal does not arrive in that time, the task fails
// with [TypeTimeout].
func Wait(name, signal string, within time.Duration) *Task {
	from := func(c *Call) (any, bool, error) {
		v, ok := c.Signal(signal)
		return v, ok, nil
	}
	return &Task{Name: name, span: within, Signals: []AnySignal{Signal[any](signal)},
		Execute: doWaitSignal(signal, within, from)}
}

// doWaitSignal makes a Do that waits until from returns the value of a signal.
func doWaitSignal(signal string, within time.Duration, from func(*Call) (any, bool, error)) Do {
	return doUntil(within, func(c *Call, until time.Time) (any, error) {
		if v, ok, err := from(c); ok || err != nil {
			return v, err
		}
		if !until.IsZero() && !c.Now().Before(until) {
			return nil, newFailure(TypeTimeout, "the signal %s did not come within %s", signal,
				quantity.FormatDuration(within))
		}
		return nil, Await(signal, until)
	})
}

// Sleep makes a task that waits for a span of time. It has no result.
func Sleep(name string, d time.Duration) *Task {
	return &Task{Name: name, span: d, Execute: doUntil(d, func(c *Call, until time.Time) (any, error) {
		if until.IsZero() || !c.Now().Before(until) {
			return nil, nil
		}
		return nil, Await("", until)
	})}
}

// doUntil makes a Do that calls do with the end of a span of time. The span begins with the first call. The end is zero
// if within is 0.
func doUntil(within time.Duration, do func(c *Call, until time.Time) (any, error)) Do {
	return func(_ context.Context, c *Call) (any, error) {
		until := c.Due()
		if until.IsZero() && within > 0 {
			until = c.Now().Add(within)
		}
		return do(c, until)
	}
}
