package engine

import "time"

// SteadyClock is SystemClock with another measure of suspension.
func SteadyClock(suspended func() (time.Duration, bool)) Clock { return newSteady(suspended) }
