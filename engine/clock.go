package engine

import "time"

// Clock tells the time. Now never jumps while the process lives: leases, due times and timeouts use it. Wall is what the machine says
// and may jump; only retention uses it, guarded (reliability rule R12). Timers are those of package time.
type Clock interface {
	Now() time.Time
	Wall() time.Time
}

// SystemClock is the machine's clock.
func SystemClock() Clock { return steady{time.Now()} }

type steady struct{ start time.Time }

// Now adds the monotonic time that has passed to the wall time of the start.
func (s steady) Now() time.Time { return s.start.Add(time.Since(s.start)).Round(0) }

func (s steady) Wall() time.Time { return time.Now().Round(0) }
