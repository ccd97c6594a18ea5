package crash

import (
	"errors"
	"sync"
)

// ErrStopped is the result of every call after the simulated crash.
var ErrStopped = errors.New("the process has crashed (simulated)")

// Side is the side of a call on which the crash happens.
type Side string

// The two sides. After a call its effect exists, but the caller got no answer.
const (
	Before Side = "before"
	After  Side = "after"
)

// Fuse simulates a crash at one call. The zero Fuse never blows and counts. It is safe for concurrent use.
type Fuse struct {
	At   int // number of the call, from 1; 0 for none
	Side Side

	mu    sync.Mutex // guards what follows, and lets one call pass at a time
	calls int
	blown bool
}

// Call runs do, unless the crash has happened or happens now.
func (f *Fuse) Call(do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.blown {
		return ErrStopped
	}
	f.calls++
	if f.calls != f.At {
		return do()
	}
	f.blown = true
	if f.Side == After {
		_ = do() // no caller gets the result
	}
	return ErrStopped
}

// Blown reports whether the crash has happened.
func (f *Fuse) Blown() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.blown
}
