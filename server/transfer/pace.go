// Package transfer reads and writes large bodies: at the speed of the other side, with a lower limit, and while the
// disk has space.
package transfer

import "time"

// pace moves the deadline of a transfer: 30 s for each piece, and 1 KiB/s on average after the first minute.
type pace struct {
	set   func(until time.Time) error // the deadline; an error is ignored: a recorder in a test has none
	start time.Time
	moved time.Time
	n     int64
}

func newPace(set func(time.Time) error) *pace { return &pace{set: set, start: time.Now()} }

// step is called for each piece, with its bytes.
func (p *pace) step(n int) {
	p.n += int64(n)
	if now := time.Now(); now.Sub(p.moved) >= time.Second {
		p.moved = now
		_ = p.set(Deadline(p.start, now, p.n))
	}
}

// Deadline is the time by which the next piece must be transferred, after n bytes since start.
func Deadline(start, now time.Time, n int64) time.Time {
	until := now.Add(30 * time.Second)
	if slowest := start.Add(time.Minute + time.Duration(n/1024)*time.Second); slowest.Before(until) {
		return slowest
	}
	return until
}
