package sqlite

import (
	"fmt"
	"testing"
	"time"
)

// TestTouchedBesideApplier counts while the applier writes. With the race detector, a use of the connection by both at
// the same time is found.
func TestTouchedBesideApplier(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{logSize: 1 << 10, applyAfter: time.Microsecond})
	last := int64(0)
	for i := range 300 {
		create(t, s, fmt.Sprintf("tst_%026d", i))
		steps, _ := s.Touched()
		if steps < last {
			t.Fatalf("%d steps after %d", steps, last)
		}
		last = steps
	}
}
