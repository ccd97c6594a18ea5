package crash

import (
	"errors"
	"sync"
)

// ErrStopped is what every call gives after the world has stopped.
var ErrStopped = errors.New("the world has stopped")

// Side says on which side of a call the world stops.
type Side string

// The two sides. After a call its effect is there, and nobody has learned of it.
const (
	Before Side = "before"
	After  Side = "after"
)

// Fuse stops the world at one call. The zero Fuse never blows and counts. It is safe for concurrent use.
type Fuse struct {
	At   int // number of the call, from 1; 0 for none
	Side Side

	mu    sync.Mutex // guards what follows, and lets one call pass at a time
	calls int
	blown bool
}

// Call runs do, unless the world has stopped or stops now.
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
		_ = do() // nobody learns how it went
	}
	return ErrStopped
}

// Blown tells whether the world has stopped.
func (f *Fuse) Blown() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.blown
}
