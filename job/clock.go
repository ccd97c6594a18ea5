package job

import (
	"context"
	"time"
)

// ClockStore is a store that persists the clock state of an engine, so that a later process can detect a wrong clock
// of its machine. Each store whose Properties state Durable implements it; for others the interface is optional. A
// caller asserts it.
type ClockStore interface {
	// KeptClock returns the stored state, or the zero value if there is none.
	KeptClock(ctx context.Context) (KeptClock, error)

	// KeepClock replaces the stored state. Times are stored to the microsecond.
	KeepClock(ctx context.Context, k KeptClock) error
}

// KeptClock is the clock state of a store.
type KeptClock struct {
	Trusted   time.Time // the last time that was trusted: the true time is not before it
	Latest    time.Time // the latest time that a record may have; after Trusted if the clock was ahead
	Confirmed time.Time // when a person confirmed a clock that had jumped forward; zero: never
}
