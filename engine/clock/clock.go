// Package clock has the clock of engines, and the guard that decides whether ages can be computed by it.
package clock

import (
	"sync"
	"time"
)

// Clock returns the time. Now never jumps while the process runs: leases, due times and timeouts use it. Wall is the
// time of the machine and may jump; only retention uses it, through a [Guard]. Timers are those of package time.
type Clock interface {
	Now() time.Time
	Wall() time.Time
}

// System is the machine's clock. Its Now continues while the machine is suspended, where the system reports the
// duration of that (Linux).
func System() Clock { return newSteady(suspended) }

// steady adds to the wall time of the start the monotonic time that has passed, which stops while the machine is
// suspended, and the duration of that.
type steady struct {
	start     time.Time
	suspended func() (since time.Duration, ok bool) // for how long the machine was suspended since it began to run

	mu    sync.Mutex    // guards the rest
	asked time.Time     // when suspended was asked last
	first time.Duration // at the start
	added time.Duration // since the start
}

func newSteady(suspended func() (time.Duration, bool)) *steady {
	s := &steady{start: time.Now(), suspended: suspended}
	s.asked = s.start
	s.first, _ = suspended()
	return s
}

// Bounds of the question for suspension: it is not asked more often than once in suspendAsked, and less than
// suspendLeast is the noise of two clocks that are read one after the other.
const (
	suspendAsked = 100 * time.Millisecond
	suspendLeast = 2 * time.Second
)

// Now adds the time that has passed, suspension included, to the wall time of the start.
func (s *steady) Now() time.Time {
	s.mu.Lock()
	if time.Since(s.asked) >= suspendAsked {
		s.asked = time.Now()
		if all, ok := s.suspended(); ok && all-s.first >= s.added+suspendLeast {
			s.added = all - s.first
		}
	}
	added := s.added
	s.mu.Unlock()
	return s.start.Add(time.Since(s.start) + added).Round(0)
}

func (s *steady) Wall() time.Time { return time.Now().Round(0) }
