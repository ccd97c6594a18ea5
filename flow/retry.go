package flow

import (
	"context"
	"time"
)

// Retry is a retry controller: it governs a flow and what is in it, up to inner flows that have one of their own. It
// runs before them and gives a value for the attempt; when something fails it decides; when it decides to retry,
// everything it governs and everything after that is reverted and done again. It runs in the goroutine of the flow and
// should be quick.
type Retry struct {
	Name     string // defaults to the flow's name and "_retry"
	Version  string // defaults to "1.0"
	Was      []string
	Priority int
	Args     Args
	Result   string // the name under which the value of the attempt is there; empty: none

	// gives the value of an attempt; [Call.History] reports those before
	Execute Do
	// something failed; the last attempt in the history states what
	Decide func(ctx context.Context, c *Call) (Decision, error)
	Revert Do // called when it is abandoned; nil takes nothing back
	// between an attempt that was reverted and the next; nil: none. Nothing else waits for it
	Pause func(attempt int) time.Duration
}

// Decision is what a retry controller answers to a failure.
type Decision string

// The decisions.
const (
	DecideRetry     Decision = "RETRY"      // revert what it governs, and run that again
	DecideRevert    Decision = "REVERT"     // stop trying: revert what it governs, and ask the controller above
	DecideRevertAll Decision = "REVERT_ALL" // stop trying: revert the whole flow
)

// Attempt is one try of a retry controller.
type Attempt struct {
	Value    Value        `json:"value"`
	Failures []FailedAtom `json:"failures,omitempty"` // in the order in which they happened; each atom once
}

// FailedAtom is what failed.
type FailedAtom struct {
	Atom    string   `json:"atom"`
	Failure *Failure `json:"failure"`
}

// History reports the attempts of a retry controller, the present one last.
type History []Attempt

// Provided lists the values of the attempts.
func (h History) Provided() []any {
	all := make([]any, len(h))
	for i, a := range h {
		all[i] = a.Value.Any()
	}
	return all
}

// CausedBy reports whether anything that failed in an attempt was of a type; attempt -1 is the last, -2 the one before.
func (h History) CausedBy(kind string, attempt int) bool {
	if attempt < 0 {
		attempt += len(h)
	}
	if attempt < 0 || attempt >= len(h) {
		return false
	}
	for _, f := range h[attempt].Failures {
		if f.Failure.Caused(kind) {
			return true
		}
	}
	return false
}

func (r *Retry) version() string {
	if r.Version == "" {
		return "1.0"
	}
	return r.Version
}

// AlwaysRevert never tries again: when something fails, what it governs is reverted, and the controller above is asked.
func AlwaysRevert() *Retry { return always(DecideRevert) }

// AlwaysRevertAll never tries again: when something fails, the whole flow is reverted.
func AlwaysRevertAll() *Retry { return always(DecideRevertAll) }

func always(d Decision) *Retry {
	return &Retry{
		Execute: func(context.Context, *Call) (any, error) { return nil, nil },
		Decide:  func(context.Context, *Call) (Decision, error) { return d, nil },
	}
}

// Times lets its part of the flow run n times in all (at least once), then stops trying. Its value is the number of the
// attempt, from 1.
func Times(n int) *Retry {
	return &Retry{
		Execute: func(_ context.Context, c *Call) (any, error) { return len(c.History) + 1, nil },
		Decide: func(_ context.Context, c *Call) (Decision, error) {
			if len(c.History) < n {
				return DecideRetry, nil
			}
			return DecideRevert, nil
		},
	}
}

// ForEach runs its part of the flow with one value after another, until it succeeds or none is left. A value that is
// there twice is tried twice.
func ForEach(values ...any) *Retry {
	return forEach(func(*Call) ([]any, error) { return values, nil })
}

// ParameterizedForEach is [ForEach] over a list that is a value of the flow: the argument "values", which can be
// rebound.
func ParameterizedForEach() *Retry {
	r := forEach(func(c *Call) (values []any, err error) { return values, c.Into("values", &values) })
	r.Args.Requires = []string{"values"}
	return r
}

func forEach(values func(*Call) ([]any, error)) *Retry {
	return &Retry{
		Execute: func(_ context.Context, c *Call) (any, error) {
			all, err := values(c)
			if err != nil {
				return nil, err
			}
			left := untried(all, c.History)
			if len(left) == 0 {
				return nil, newFailure(TypeNotFound, "No elements left in collection of iterable retry controller %s",
					c.Atom)
			}
			return left[0], nil
		},
		Decide: func(_ context.Context, c *Call) (Decision, error) {
			all, err := values(c)
			if err != nil {
				return "", err
			}
			if len(untried(all, c.History)) > 0 {
				return DecideRetry, nil
			}
			return DecideRevert, nil
		},
	}
}

// untried gives the values that no attempt has had yet, in order, each as often as it is left.
func untried(all []any, h History) []any {
	left := make([]Value, len(all))
	for i := range all {
		left[i] = ValueOf(all[i])
	}
	for _, a := range h {
		for i := range left {
			if left[i].Equal(a.Value) {
				left = append(left[:i], left[i+1:]...)
				break
			}
		}
	}
	out := make([]any, len(left))
	for i := range left {
		out[i] = left[i].Any()
	}
	return out
}

// RevertingAll makes a controller that stops trying revert the whole flow and not its own part only.
func (r *Retry) RevertingAll() *Retry {
	decide := r.Decide
	r.Decide = func(ctx context.Context, c *Call) (Decision, error) {
		d, err := decide(ctx, c)
		if d == DecideRevert {
			d = DecideRevertAll
		}
		return d, err
	}
	return r
}
