package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/sandbox"
)

// What no sandbox can do as it is asked for is the order's or its service's fault; another failure before the command
// begins is still the agent's.
func TestUnacceptablePlan(t *testing.T) {
	t.Parallel()
	cannot := sandbox.Bind{From: "/tmp/x"}.Check()
	if cannot == nil {
		t.Fatal("a bind in /tmp is taken")
	}
	for _, one := range []struct {
		broken error
		want   string
	}{
		{&sandbox.Unacceptable{Err: cannot}, compute.CauseRejected},
		{fmt.Errorf("run it: %w", &sandbox.Unacceptable{Err: cannot}), compute.CauseRejected},
		{errors.New(cannot.Error()), compute.CauseAgent}, // control: it does not go by the words
	} {
		w := newHarness(t, func(context.Context, *sandbox.Command) (sandbox.Ending, error) {
			return sandbox.Ending{}, one.broken
		}, nil)
		k := ticket()
		w.submit(w.app, parcel(k, "echo"))
		if n := w.end(k); n.Ending == nil || n.Ending.Cause != one.want || !strings.Contains(n.Ending.Sentence, `the bind of "/tmp/x" may not lie in /tmp`) {
			t.Errorf("%#v: got %+v", one.broken, n.Ending)
		}
	}
}
