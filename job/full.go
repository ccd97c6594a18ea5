package job

import (
	"errors"
	"fmt"
	"syscall"
)

// Full is the reason of an [Error] of kind Unavailable: a file system has no space for what was to be written.
// errors.Is matches it with syscall.ENOSPC.
type Full struct {
	Dir     string // the directory whose file system is full
	Free    int64  // bytes free for the server; negative: unknown
	Reserve int64  // of these, bytes reserved for the server itself; 0: none
	Need    int64  // bytes to be written; 0: unknown
}

// Error states the directory, the bytes and the next step.
func (f *Full) Error() string {
	text := "storage full: " + f.Dir
	if f.Free >= 0 {
		text += fmt.Sprintf(" has %d bytes free", f.Free)
	}
	if f.Reserve > 0 {
		text += fmt.Sprintf(" and keeps %d in reserve", f.Reserve)
	}
	if f.Need > 0 {
		text += fmt.Sprintf(", and %d more are needed", f.Need)
	}
	return text + "; free space and the server continues by itself"
}

// Is makes errors.Is(err, syscall.ENOSPC) true.
func (f *Full) Is(target error) bool { return target == syscall.ENOSPC }

// IsFull reports whether err means that a file system or a quota has no free space: a [Full] or the operating
// system's error.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
