package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestSuspendedClock checks that the time for which a machine was suspended is added to the steady time, and that noise
// is not.
func TestSuspendedClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slept := 5 * time.Minute // before the process began
		c := newSteady(func() (time.Duration, bool) { return slept, true })
		began := c.Now()
		for _, add := range []time.Duration{0, time.Millisecond, time.Second, 2 * time.Hour, 0} {
			slept += add
			time.Sleep(time.Minute)
			_ = c.Now()
		}
		if got, want := c.Now().Sub(began), 5*time.Minute+2*time.Hour+time.Second+time.Millisecond; got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		unknown := newSteady(func() (time.Duration, bool) { return 0, false })
		time.Sleep(time.Hour)
		if got := unknown.Wall().Sub(unknown.Now()); got != 0 {
			t.Errorf("without a clock that goes on: %v apart", got)
		}
	})
}
