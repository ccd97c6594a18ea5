package job

import (
	"context"
	"time"
)

// ClockKeeper is a store that keeps what an engine knew of the time, so that a later process can tell whether the clock of its machine is right.
// A store need not: who wants it asks for it.
type ClockKeeper interface {
	// KeptClock gives what was kept last; the zero value if nothing was.
	KeptClock(ctx context.Context) (KeptClock, error)

	// KeepClock replaces what is kept. Times are kept to the microsecond.
	KeepClock(ctx context.Context, k KeptClock) error
}

// KeptClock is what a store keeps of the time.
type KeptClock struct {
	Trusted   time.Time // the last time that was trusted: the true time is not before it
	Latest    time.Time // the latest time that a record may have been given; after Trusted if the clock was ahead
	Confirmed time.Time // when a person confirmed a clock that had gone forward; zero: never
}
