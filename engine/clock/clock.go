// Package clock has the clock of engines, and the guard that decides whether ages can be computed by it.
package clock

import (
	"sync"
	"sync/atomic"
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

	first time.Duration // at the start
	asked atomic.Int64  // when suspended was asked last, in nanoseconds since the start
	added atomic.Int64  // nanoseconds of suspension since the start
	mu    sync.Mutex    // is held while it is asked
}

func newSteady(suspended func() (time.Duration, bool)) *steady {
	s := &steady{start: time.Now(), suspended: suspended}
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
	since := time.Since(s.start)
	if since-time.Duration(s.asked.Load()) >= suspendAsked {
		s.ask(since)
	}
	return s.start.Add(since + time.Duration(s.added.Load())).Round(0)
}

// ask asks for the suspension, unless another call does or has.
func (s *steady) ask(since time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since-time.Duration(s.asked.Load()) < suspendAsked {
		return
	}
	if all, ok := s.suspended(); ok && all-s.first >= time.Duration(s.added.Load())+suspendLeast {
		s.added.Store(int64(all - s.first))
	}
	s.asked.Store(int64(since))
}

func (s *steady) Wall() time.Time { return time.Now().Round(0) }
