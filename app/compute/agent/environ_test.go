package agent

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/sandbox"
)

// An environment that the system does not take is the job's fault, and not the agent's death; another failure to start
// is still the agent's.
func TestLargeEnvironment(t *testing.T) {
	for want, broken := range map[string]error{
		compute.CauseRejected: fmt.Errorf("run /bin/bash: %w", syscall.E2BIG),
		compute.CauseAgent:    errors.New("no space for a process"),
	} {
		w := newHarness(t, func(context.Context, *sandbox.Command) (sandbox.Ending, error) {
			return sandbox.Ending{}, broken
		}, nil)
		k := ticket()
		w.submit(w.app, parcel(k, "echo"))
		if n := w.end(k); n.Ending == nil || n.Ending.Cause != want {
			t.Errorf("%v: got %+v", broken, n.Ending)
		}
	}
}
