package webhook

import (
	"testing"
	"time"
)

// TestPause: they grow, eight tries take a day and a half, and no number of tries is out of bounds.
func TestPause(t *testing.T) {
	all := time.Duration(0)
	for n := 1; n < 8; n++ {
		if all += Pause(n); Pause(n+1) <= Pause(n) {
			t.Errorf("after %d tries %s, then %s", n, Pause(n), Pause(n+1))
		}
	}
	if all < 30*time.Hour || all > 40*time.Hour || Pause(0) != Pause(1) || Pause(-1) != Pause(1) ||
		Pause(1000) != Pause(9) {
		t.Errorf("eight tries take %s", all)
	}
}
