package job

import (
	"errors"
	"fmt"
	"strings"
)

// ErrorKind classifies errors by what the caller can do. Package server maps it to an HTTP status, the commands map
// it to exit codes.
type ErrorKind string

// The kinds of error.
const (
	Invalid     ErrorKind = "invalid"     // the request is invalid; a repetition does not help
	NotFound    ErrorKind = "not-found"   // the object does not exist
	Conflict    ErrorKind = "conflict"    // a concurrent change: read again and decide again
	Refused     ErrorKind = "refused"     // the lifecycle, a hold or a rule refuses it
	Stale       ErrorKind = "stale"       // the claim has ended: its epoch is older than the record's
	Gone        ErrorKind = "gone"        // it existed and was deleted
	Unavailable ErrorKind = "unavailable" // a later attempt may succeed
	Internal    ErrorKind = "internal"    // a defect of Stagepost or damage to its data
)

// Retryable reports whether the same call may succeed later without a change.
func (k ErrorKind) Retryable() bool { return k == Conflict || k == Unavailable }

// Error is the error type of engine, stores and API.
type Error struct {
	Op   string // the operation: "commit", "claim", "create"
	Kind ErrorKind
	ID   ID // the job, if the error concerns one
	Err  error
}

func (e *Error) Error() string {
	parts := []string{}
	if e.ID != "" {
		parts = append(parts, string(e.ID))
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	} else {
		parts = append(parts, e.Op+": "+string(e.Kind))
	}
	return strings.Join(parts, ": ")
}

func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, &Error{Kind: k}) match every error of kind k.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind && t.Op == "" && t.ID == "" && t.Err == nil
}

// Errorf returns an error of kind k about job id (which may be empty).
func Errorf(k ErrorKind, op string, id ID, format string, args ...any) *Error {
	return &Error{Op: op, Kind: k, ID: id, Err: fmt.Errorf(format, args...)}
}

// KindOf returns the kind of an error, Internal for one without a kind, and "" for nil.
func KindOf(err error) ErrorKind {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Internal
}

// Reason returns the text of an error without the job's id.
func Reason(err error) string {
	var e *Error
	if errors.As(err, &e) && e.Err != nil {
		return e.Err.Error()
	}
	return err.Error()
}
