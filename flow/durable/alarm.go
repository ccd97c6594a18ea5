package durable

import "time"

// alarm is a timer that is set anew only when its time changes.
type alarm struct {
	at    time.Time
	timer *time.Timer
}

// set gives the channel that receives at a time; nil for none.
func (a *alarm) set(at, now time.Time) <-chan time.Time {
	if !at.Equal(a.at) {
		a.stop()
		if a.at = at; !at.IsZero() {
			a.timer = time.NewTimer(max(at.Sub(now), 0))
		}
	}
	if a.timer == nil {
		return nil
	}
	return a.timer.C
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}
