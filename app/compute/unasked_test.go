package compute_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
)

// slowToAnswer is an executor that takes its time for the first answer.
type slowToAnswer struct {
	*fake
	ready <-chan struct{}
}

func (s slowToAnswer) Capacity(ctx context.Context) (compute.Capacity, error) {
	select {
	case <-s.ready:
		return s.fake.Capacity(ctx)
	case <-ctx.Done():
		return compute.Capacity{}, ctx.Err()
	}
}

// TestAgentThatWasNotAskedYet costs no attempt: a server that has just started does not know how its agents stand. In
// the control the agent is known not to answer, and the one attempt is used up.
func TestAgentThatWasNotAskedYet(t *testing.T) {
	for _, answers := range []bool{true, false} {
		runInBubble(t, fmt.Sprint("answers ", answers), func(t *testing.T) {
			ready := make(chan struct{})
			o := quick(t)
			o.Retries, o.Answer = 1, 2*time.Second
			if !answers {
				o.Answer = 20 * time.Millisecond
			}
			w := newHarness(t, o, one(slowToAnswer{newFake(), ready}))
			j := w.upload("ada", hello)
			if answers {
				time.AfterFunc(100*time.Millisecond, func() { close(ready) }) // the job is there before the answer
			}
			got := w.until(j.ID, compute.Completed, compute.Failed)
			if (got.State == compute.Completed) != answers {
				t.Errorf("the agent answers: %t; the job ended as %s by %s: %s", answers, got.State, got.Cause, got.Message)
			}
		})
	}
}
