// Package cause names the causes that the engine records with a job: why it failed, or what it waits for. Applications
// add causes of their own.
package cause

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/stagepost/stagepost/job"
)

// Causes of failures.
const (
	Poison   = "poison"    // its workers crashed repeatedly without a report
	Panic    = "panic"     // the step is defective
	Timeout  = "timeout"   // the state or the job took too long
	Attempts = "attempts"  // its attempts failed where there is no failure exit: it waits for a person
	Error    = "error"     // an error that states no cause
	Network  = "network"   // a connection or an address failed
	Disk     = "disk-full" // a disk or a quota is full
)

// Causes of waiting. Gates and steps add theirs; package explain has those of its answers.
const (
	Children = "children" // jobs of the batch have not ended
	Hold     = "hold"     // a hold on the job or on its group, owner, tag, kind, state or batch
	Stopped  = "stopped"  // no worker takes jobs
)

// Of returns the cause of an error: the one that its method Cause returns, else Disk, Network or Error.
func Of(err error) string {
	var c interface{ Cause() string }
	var n net.Error
	switch {
	case errors.As(err, &c):
		return c.Cause()
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return Disk
	case errors.As(err, &n):
		return Network
	}
	return Error
}

// Temporary reports whether a later attempt may succeed where this one failed. A full disk and a deadline are
// temporary. Else the method Temporary of an error decides if it has one: an archive that is cut off stays so. Without
// one, an interrupted transfer and unknown errors are temporary; a refusal is not.
func Temporary(err error) bool {
	var t interface{ Temporary() bool }
	var e *job.Error
	cut := errors.Is(err, io.ErrUnexpectedEOF)
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, context.Canceled):
		return true
	case errors.As(err, &t):
		_, network := t.(net.Error) // such as *url.Error, which reports nothing about an interrupted transfer
		return t.Temporary() || network && cut
	case cut:
		return true
	case errors.As(err, &e):
		return e.Kind.Retryable() || e.Kind == job.Internal
	}
	return true
}
