package sqldbtest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Losses runs a workload without a loss, and then with one at every stride-th call, and compares the contents. run
// loses the connection at a call, 0 for none, and returns all rows, the number of calls, and how the connection was
// lost.
func Losses(t *testing.T, stride int, run func(at int) (all []string, calls int, cut string)) {
	t.Helper()
	want, calls, _ := run(0)
	cuts := map[string]int{}
	for at := 1; at <= calls; at += stride {
		got, _, cut := run(at)
		cuts[cut]++
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("call %d, %s (-without a loss +with it):\n%s", at, cut, diff)
		}
	}
	t.Logf("of %d calls: %v", calls, cuts)
	if len(cuts) < 3 {
		t.Errorf("lost: %v", cuts)
	}
}
