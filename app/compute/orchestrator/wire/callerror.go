package wire

import (
	"errors"
	"fmt"
	"net/http"
)

// How a call to an agent failed. A job may be sent again after ErrNotSent and after a [StatusError]; after ErrLost the
// agent may have it, and only a query there shows it.
var (
	// ErrNotSent: the agent cannot have taken the request, because not all of it was written.
	ErrNotSent = errors.New("the request did not reach the agent")
	// ErrLost: all of the request was written, or may have been, and no usable answer came.
	ErrLost = errors.New("the agent's answer is lost")
)

// errSilent is the cause when nothing has moved for too long.
var errSilent = errors.New("the agent was silent for too long")

// CallError is a call without an answer. errors.Is finds its kind, ErrNotSent or ErrLost, and its cause.
type CallError struct {
	Op   string // submit, retrieve, ...
	Kind error
	Err  error
}

func (e *CallError) Error() string   { return fmt.Sprintf("%s: %v: %v", e.Op, e.Kind, e.Err) }
func (e *CallError) Unwrap() []error { return []error{e.Kind, e.Err} }

// StatusError is an answer with another status than the call expects. Body is the beginning of its body.
type StatusError struct {
	Op   string
	Code int
	Body string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: the agent answered %d: %.200q", e.Op, e.Code, e.Body)
}

// Is takes 404 as ErrNotFound. A gateway's 502 and 504 report nothing of the agent behind it, which may have taken the
// request: ErrLost.
func (e *StatusError) Is(target error) bool {
	switch target {
	case ErrNotFound:
		return e.Code == http.StatusNotFound
	case ErrLost:
		return e.Code == http.StatusBadGateway || e.Code == http.StatusGatewayTimeout
	}
	return false
}

// AnswerError is an answer with a good status that cannot be understood. The request was carried out all the same, so
// it is an ErrLost.
type AnswerError struct {
	Op   string
	Code int
	Err  error
}

func (e *AnswerError) Error() string {
	return fmt.Sprintf("%s: the agent's answer (%d): %v", e.Op, e.Code, e.Err)
}
func (e *AnswerError) Unwrap() []error { return []error{ErrLost, e.Err} }
