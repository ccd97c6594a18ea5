package flowtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/flowtest"
)

// TestTiming measures in the flow's time, retries included.
func TestTiming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var timing flowtest.Timing
		n := 0
		a := flow.Proc0("a", func(context.Context) error {
			time.Sleep(3 * time.Second)
			if n++; n == 1 {
				return errors.New("woot")
			}
			return nil
		}, nil)
		r, err := flow.New(flow.Linear("f", flow.Sleep("s", time.Second), a).With(flow.Times(2)),
			flow.Options{Listeners: []flow.Listener{timing.Listen}})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := timing.Table(&out); err != nil {
			t.Fatal(err)
		}
		want := `FLOW  ATOM     STATE      TIMES  TOOK
f     -        PENDING    1      0s
f     -        RUNNING    1      8s
f     f_retry  PENDING    1      0s
f     f_retry  RETRYING   1      0s
f     f_retry  RUNNING    2      0s
f     f_retry  SUCCESS    1      4s
f     s        PENDING    2      0s
f     s        REVERTED   1      0s
f     s        REVERTING  1      0s
f     s        RUNNING    2      2s
f     s        SUCCESS    1      3s
f     a        FAILURE    1      0s
f     a        PENDING    2      2s
f     a        REVERTED   1      0s
f     a        REVERTING  1      0s
f     a        RUNNING    2      6s
`
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("table (-want +got):\n%s", diff)
		}
	})
}
