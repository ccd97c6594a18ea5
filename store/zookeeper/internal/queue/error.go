package queue

import (
	"errors"
	"fmt"

	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// The errors of operations. Errors of the connection are those of package session.
var (
	ErrNotFound   = errors.New("not found")
	ErrNotAllowed = errors.New("the transition is not allowed") // nothing was written
	ErrChanged    = errors.New("it was changed or acquired by another client meanwhile")
	ErrLocked     = errors.New("it is locked")
	ErrPaused     = errors.New("the queue is paused")
	ErrExists     = errors.New("it exists already")
	ErrMalformed  = errors.New("malformed")
	ErrUnfinished = errors.New("jobs of the batch have not ended")
)

// Bad is a node that cannot be used, with the reason.
type Bad struct {
	Path string
	Err  error
}

// String returns the path and the reason.
func (b Bad) String() string { return b.Path + ": " + b.Err.Error() }

// malformed returns an error of a node.
func malformed(path string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrMalformed, path, err)
}

// isMissing reports whether a node of the request does not exist.
func isMissing(err error) bool { return session.KindOf(err) == session.NoNode }

// unusable reports whether a record was not read because of its nodes, and not because of the connection.
func unusable(err error) bool { return errors.Is(err, ErrMalformed) || errors.Is(err, ErrNotFound) }

// refusedAt returns the path of the operation that was refused, "" if the error is no refusal.
func refusedAt(err error) string {
	var e *session.Error
	if !errors.As(err, &e) || !e.Refusal() {
		return ""
	}
	return e.Path
}
