package flow

import (
	"context"
	"time"
)

// Retry is a retry controller. It governs a flow and its items, except inner flows that have their own controller. It
// runs before the items and returns a value for the attempt. After a failure it decides. If it decides to retry, its
// items and everything after them are reverted and executed again. It runs in the goroutine of the flow and should be
// quick.
type Retry struct {
	Name     string // defaults to the flow's name and "_retry"
	Version  string // defaults to "1.0"
	Was      []string
	Priority int
	Args     Args
	Result   string // the name of the attempt's value; empty: none

	Execute Do // returns the value of an attempt; [Call.History] has the earlier attempts
	Revert  Do // called when the controller itself is reverted; nil does nothing

	// Decide is called after a failure. The last attempt in the history has the failure.
	Decide func(ctx context.Context, c *Call) (Decision, error)
	// Pause returns the time between a reverted attempt and the next; nil: none. Other parts of the flow do not wait.
	Pause func(attempt int) time.Duration
}

// Decision is the decision of a retry controller about a failure.
type Decision string

// The decisions.
const (
	DecideRetry     Decision = "RETRY"      // revert its part and run it again
	DecideRevert    Decision = "REVERT"     // revert its part and ask the controller above
	DecideRevertAll Decision = "REVERT_ALL" // revert the whole flow
)

// Attempt is one attempt of a retry controller.
type Attempt struct {
	Value    Value        `json:"value"`
	Failures []FailedAtom `json:"failures,omitempty"` // in the order in which they happened; each atom once
}

// FailedAtom is an atom and its failure.
type FailedAtom struct {
	Atom    string   `json:"atom"`
	Failure *Failure `json:"failure"`
}

// History has the attempts of a retry controller, the present one last.
type History []Attempt

// Provided lists the values of the attempts.
func (h History) Provided() []any {
	all := make([]any, len(h))
	for i, a := range h {
		all[i] = a.Value.Any()
	}
	return all
}

// CausedBy reports whether an attempt has a failure of a type; attempt -1 is the last, -2 the one before.
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

// AlwaysRevert never retries: after a failure its part is reverted, and the controller above decides.
func AlwaysRevert() *Retry { return always(DecideRevert) }

// AlwaysRevertAll never retries: after a failure the whole flow is reverted.
func AlwaysRevertAll() *Retry { return always(DecideRevertAll) }

func always(d Decision) *Retry {
	return &Retry{
		Execute: func(context.Context, *Call) (any, error) { return nil, nil },
		Decide:  func(context.Context, *Call) (Decision, error) { return d, nil },
	}
}

// Times runs its part of the flow at most n times, and at least once. Its value is the number of the attempt, from 1.
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

// ForEach runs its part of the flow with one value after another, until it succeeds or no value is left. A value that
// the list has twice is used twice.
func ForEach(values ...any) *Retry {
	return forEach(func(*Call) ([]any, error) { return values, nil })
}

// ParameterizedForEach is [ForEach] with the list in the argument "values", which can be rebound.
func ParameterizedForEach() *Retry {
	r := forEach(func(c *Call) ([]any, error) {
		v, there := c.args["values"]
		if !there {
			return nil, wrong(ErrNotFound, []string{c.Atom}, "%s has no argument %q", c.Atom, "values")
		}
		all, err := ValueOf(v).list()
		if err != nil {
			return nil, newFailure("InvalidArgument", "the argument \"values\" of %s must be a list: %w", c.Atom, err)
		}
		return all, nil
	})
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
				return nil, newFailure(TypeNotFound,
					"No elements left in collection of iterable retry controller %s", c.Atom)
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

// untried returns the values that no attempt has had yet, in order. A value occurs as often as it is left.
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

// RevertingAll makes the controller decide REVERT_ALL in place of REVERT.
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
