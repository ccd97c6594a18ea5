package flow

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Failure is the reason why a task failed, in a form that can be stored: the type of the error, its text, and its
// causes. In the process where the task failed it also wraps the error itself (errors.Is, errors.As).
type Failure struct {
	Type    string     `json:"type"` // see [Typed]
	Message string     `json:"message"`
	Trace   string     `json:"trace,omitempty"` // of a panic
	Causes  []*Failure `json:"causes,omitempty"`
	err     error
}

// Typed is an error that names its failure type. The type of other errors is the name of their Go type.
type Typed interface{ FailureType() string }

// The types of failures that flows make.
const (
	TypePanic     = "Panic"     // the task panicked
	TypeTimeout   = "Timeout"   // the task took longer than its Timeout, or an awaited signal did not arrive in time
	TypeCancelled = "Cancelled" // the task was waiting when another one failed; of a flow: [Runner.Cancel] ended it
	TypeNotFound  = "NotFound"  // a value that the task needs is missing

	TypeRemoved = "Removed" // the task was executed and the flow no longer has it; everything else was reverted

	TypeInterrupted = "Interrupted" // the task was running or waiting when its flow was ended: see [Runner.Cancel]
)

// Bounds of a stored failure.
const (
	longestMessage = 16 << 10 // bytes
	longestTrace   = 16 << 10 // bytes
	deepestCause   = 16
	mostCauses     = 8 // of one error
)

// FailureOf converts an error to a failure. It returns a *Failure unchanged.
func FailureOf(err error) *Failure { return failureOf(err, 0) }

func failureOf(err error, depth int) *Failure {
	if f, ok := err.(*Failure); ok && f != nil {
		return f
	} else if ok {
		return &Failure{Type: TypePanic, Message: "a nil *Failure was given as an error"}
	}
	f := &Failure{Type: typeOf(err), Message: truncate(err.Error(), longestMessage), err: err}
	if depth == deepestCause {
		return f
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if cause := e.Unwrap(); cause != nil {
			f.Causes = []*Failure{failureOf(cause, depth+1)}
		}
	case interface{ Unwrap() []error }:
		for i, cause := range e.Unwrap() {
			if i == mostCauses {
				break
			}
			f.Causes = append(f.Causes, failureOf(cause, depth+1))
		}
	}
	return f
}

func typeOf(err error) string {
	if t, ok := err.(Typed); ok {
		return t.FailureType()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return TypeTimeout
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
}

func truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " ..."
}

// Error is part of error.
func (f *Failure) Error() string { return f.Message }

// FailureType is part of [Typed].
func (f *Failure) FailureType() string { return f.Type }

// String is the form for listeners and logs.
func (f *Failure) String() string { return "Failure: " + f.Type + ": " + f.Message }

// Unwrap returns the error, or the causes if the failure comes from storage.
func (f *Failure) Unwrap() []error {
	if f.err != nil {
		return []error{f.err}
	}
	causes := make([]error, len(f.Causes))
	for i, c := range f.Causes {
		causes[i] = c
	}
	return causes
}

// Caused reports whether the failure or one of its causes is of a type.
func (f *Failure) Caused(kind string) bool {
	if f.Type == kind {
		return true
	}
	for _, c := range f.Causes {
		if c.Caused(kind) {
			return true
		}
	}
	return false
}

// newFailure makes a failure of a type.
func newFailure(kind, format string, args ...any) *Failure {
	err := fmt.Errorf(format, args...)
	f := failureOf(err, 0)
	f.Type = kind
	return f
}
