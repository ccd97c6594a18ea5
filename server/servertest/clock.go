package servertest

import (
	"sync"
	"time"
)

// Clock is a clock that a test sets.
type Clock struct {
	mu  sync.Mutex // guards now
	now time.Time
}

// NewClock makes a clock that stands at the present time.
func NewClock() *Clock { return &Clock{now: time.Now()} }

// Now returns the time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Add moves the clock.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
