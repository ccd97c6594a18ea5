package flow

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/lifecycle"
)

// What can be wrong with a flow, for errors.Is. The errors themselves are of type [Error] and name the atoms.
var (
	ErrDuplicate = errors.New("duplicate")            // two atoms of one name, or one stored as the other kind
	ErrAmbiguous = errors.New("ambiguous dependency") // two providers for one requirement
	ErrCyclic    = errors.New("cyclic dependency")    // a link would close a circle
	ErrMissing   = errors.New("missing dependency")   // no one provides what an atom requires
	ErrNotFound  = errors.New("not found")            // a value that was promised is not there
	ErrInvalid   = errors.New("invalid")              // it is not a flow, or an argument is invalid
	ErrState     = errors.New("invalid state")        // a change of state that the lifecycle does not have
	ErrBusy      = errors.New("busy")                 // it runs already
	// it is not the flow that was begun, and nothing states that this is meant
	ErrChanged  = errors.New("changed flow")
	ErrUnstored = errors.New("cannot be stored") // a value is not JSON, or too large
	ErrLimit    = errors.New("attempts used up") // an atom ran more often than Options.MaxAttempts allows
	ErrStopped  = errors.New("stopped")          // Stop ended the run; the flow goes on when it is run again
)

// Error states what is wrong, where.
type Error struct {
	Kind  error    // one of the above
	Atoms []string // whose fault it is, or who suffers
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

// Unwrap gives the kind and the cause.
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

// StateError is an [ErrState] with its evidence: who was to make which change.
type StateError struct {
	Kind     string // "Flow", "Task", "Retry"
	Name     string
	From, To lifecycle.State
}

// Error is part of error.
func (e *StateError) Error() string {
	return fmt.Sprintf("%s transition of %q from '%s' to '%s' is not allowed", e.Kind, e.Name, e.From, e.To)
}

// Unwrap gives ErrState.
func (e *StateError) Unwrap() error { return ErrState }

// FailureType is part of [Typed].
func (e *StateError) FailureType() string { return "InvalidState" }

// Failures is the error of a flow for which several atoms are to blame, in the order of the flow.
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

// Unwrap gives the failures. Of several of one type errors.As finds the first; All has each.
func (f *Failures) Unwrap() []error {
	all := make([]error, len(f.All))
	for i, one := range f.All {
		all[i] = one
	}
	return all
}
