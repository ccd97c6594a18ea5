package session

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// Kind is what an error means for the caller.
type Kind string

// The kinds of errors. After those from NoNode to Refused the servers have written nothing.
const (
	NoNode     Kind = "no node"     // a node of the request does not exist
	NodeExists Kind = "node exists" // a node to be created exists
	BadVersion Kind = "bad version" // a node has another version
	NotEmpty   Kind = "not empty"   // a node to be removed has children
	Refused    Kind = "refused"     // invalid for another reason
	Unsent     Kind = "unsent"      // no server was reached: the request may be repeated
	Unknown    Kind = "unknown"     // sent, without an answer: a write may have been made, or may be made later
	Lost       Kind = "lost"        // the session has ended, with its ephemeral nodes; a write may have been made
)

// Error is the error of a request.
type Error struct {
	Kind Kind
	Op   string // "get", "multi"
	Path string // of a multi: of the operation that was refused, if that is known
	Err  error
}

// Error returns the text of the error.
func (e *Error) Error() string { return fmt.Sprintf("zookeeper: %s %s: %v", e.Op, e.Path, e.Err) }

// Refusal reports whether an operation was refused because of the nodes: nothing was written.
func (e *Error) Refusal() bool {
	switch e.Kind {
	case NoNode, NodeExists, BadVersion, NotEmpty:
		return true
	}
	return false
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of an error of this package, "" for nil, and Refused for any other error.
func KindOf(err error) Kind {
	var e *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Kind
	}
	return Refused
}

// Denied reports whether a node is for another user.
func Denied(err error) bool { return errors.Is(err, zk.ErrNoAuth) }

// kinds are those of the errors of the library. Others are errors of the network, after which the result is Unknown.
var kinds = map[error]Kind{
	zk.ErrNoNode:         NoNode,
	zk.ErrNodeExists:     NodeExists,
	zk.ErrBadVersion:     BadVersion,
	zk.ErrNotEmpty:       NotEmpty,
	zk.ErrNoServer:       Unsent,
	zk.ErrSessionExpired: Lost,

	zk.ErrNoAuth:                  Refused,
	zk.ErrNoChildrenForEphemerals: Refused,
	zk.ErrInvalidACL:              Refused,
	zk.ErrInvalidFlags:            Refused,
	zk.ErrAuthFailed:              Refused,
	zk.ErrBadArguments:            Refused,
	zk.ErrInvalidPath:             Refused,
}

// classify makes an Error of an error of the library.
func classify(op, path string, err error) error {
	if err == nil {
		return nil
	}
	kind, listed := kinds[err]
	if !listed {
		kind = Unknown
	}
	return &Error{kind, op, path, err}
}
