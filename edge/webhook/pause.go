package webhook

import "time"

// pauses are those of the specification: about a day and a half for eight attempts.
var pauses = [...]time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour,
	20 * time.Hour, 24 * time.Hour,
}

// Pause returns the wait after so many attempts of a notification, from 1 on, before the next.
func Pause(tries int) time.Duration { return pauses[min(max(tries-1, 0), len(pauses)-1)] }
