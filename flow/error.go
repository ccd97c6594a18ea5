package flow

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/lifecycle"
)

// The kinds of errors of a flow, for errors.Is. The errors are of type [Error] and name the atoms.
var (
	ErrDuplicate = errors.New("duplicate")            // two atoms have one name, or one is stored as the other kind
	ErrAmbiguous = errors.New("ambiguous dependency") // two items provide one required value
	ErrCyclic    = errors.New("cyclic dependency")    // a link would close a cycle
	ErrMissing   = errors.New("missing dependency")   // a required value has no provider
	ErrNotFound  = errors.New("not found")            // a value is missing although it has a provider
	ErrInvalid   = errors.New("invalid")              // it is not a flow, or an argument is invalid
	ErrState     = errors.New("invalid state")        // a change of state that the lifecycle does not have
	ErrBusy      = errors.New("busy")                 // the flow is already running
	ErrChanged   = errors.New("changed flow")         // the stored flow differs, and Options.Upgrade does not accept it
	ErrUnstored  = errors.New("cannot be stored")     // a value is not JSON, or too large
	ErrLimit     = errors.New("attempts used up")     // an atom ran more often than Options.MaxAttempts allows
	ErrStopped   = errors.New("stopped")              // Stop ended the run; the next run continues
)

// Error is an error of a flow and the atoms that it concerns.
type Error struct {
	Kind  error    // one of the kinds above
	Atoms []string // that cause the error or that it affects
	Text  string
	Err   error // the cause, if it is another error
}

func wrong(kind error, atoms []string, format string, args ...any) *Error {
	return &Error{Kind: kind, Atoms: atoms, Text: fmt.Sprintf(format, args...)}
}

// Error is part of error.
func (e *Error) Error() string {
	text := e.Text
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// FailureType is part of [Typed]: the kind, as one word.
func (e *Error) FailureType() string {
	if e.Kind == ErrNotFound {
		return TypeNotFound
	}
	word := ""
	for part := range strings.FieldsSeq(e.Kind.Error()) {
		word += strings.ToUpper(part[:1]) + part[1:]
	}
	return word
}

// StateError is an [ErrState] that names the atom or flow and the change.
type StateError struct {
	Kind     string // "Flow", "Task", "Retry"
	Name     string
	From, To lifecycle.State
}

// Error is part of error.
func (e *StateError) Error() string {
	return fmt.Sprintf("%s transition of %q from '%s' to '%s' is not allowed", e.Kind, e.Name, e.From, e.To)
}

// Unwrap returns ErrState.
func (e *StateError) Unwrap() error { return ErrState }

// FailureType is part of [Typed].
func (e *StateError) FailureType() string { return "InvalidState" }

// Failures is the error of a flow that several atoms caused, in the order of the flow.
type Failures struct {
	Atoms []string
	All   []*Failure // of the atoms
}

// Error is part of error.
func (f *Failures) Error() string {
	parts := make([]string, len(f.All))
	for i, one := range f.All {
		parts[i] = one.Message
		if f.Atoms[i] != "" {
			parts[i] = f.Atoms[i] + ": " + one.Message
		}
	}
	return strings.Join(parts, "; ")
}

// FailureType is part of [Typed].
func (f *Failures) FailureType() string { return "Failures" }

// Caused reports whether one of the failures or of their causes is of a type.
func (f *Failures) Caused(kind string) bool {
	return slices.ContainsFunc(f.All, func(one *Failure) bool { return one.Caused(kind) })
}

// Unwrap returns the failures. errors.As finds the first of a type; All has every one.
func (f *Failures) Unwrap() []error {
	all := make([]error, len(f.All))
	for i, one := range f.All {
		all[i] = one
	}
	return all
}
