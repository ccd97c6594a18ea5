// Package polltest waits in tests for conditions whose changes nothing reports: counts on the other side of a
// connection, processes that end, counters that follow a commit. Where there is a signal, tests wait for it instead.
package polltest

import (
	"testing"
	"time"
)

// patience is the time after which a condition counts as one that never holds: longer than any of them takes on a busy
// machine.
const patience = 2 * time.Minute

// Until polls until the condition holds. It ends the test if it never does; what names the condition.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("it never came about: %s", what)
		}
	}
}
