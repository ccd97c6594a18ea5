package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// lastCommits is the time in which steps and deliveries whose contexts have ended must return.
const lastCommits = 10 * time.Second

// enter begins a run. Another run must not be under way, and no step of an earlier one.
func (e *Engine) enter() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.started {
		return job.Errorf(job.Refused, "run", "", "the engine runs already")
	}
	select {
	case <-e.drained:
	default:
		return job.Errorf(job.Refused, "run", "", "steps of the last run have not ended: %d", len(e.running))
	}
	e.started = true
	return nil
}

// exit ends a run.
func (e *Engine) exit() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.started = false
}

// endSteps gives the running steps Grace. Then end ends their contexts, and they get lastCommits to return. The jobs of
// those that still run return to their queue; the error names them.
func (e *Engine) endSteps(ctx context.Context, end func()) error {
	drained := make(chan struct{})
	e.mu.Lock()
	e.drained = drained
	e.mu.Unlock()
	go func() { e.steps.Wait(); close(drained) }()
	within := func(d time.Duration) bool {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-drained:
			return true
		case <-timer.C:
			return false
		}
	}
	if within(e.options.Grace) {
		return nil
	}
	end()
	if within(lastCommits) {
		return nil
	}
	return e.abandonSteps(ctx)
}

// abandonSteps returns the jobs to their queue whose steps did not end with their contexts. What such a step commits
// from now on is refused, because its claim is over.
func (e *Engine) abandonSteps(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lastCommits)
	defer cancel()
	var left []string
	for _, id := range e.Running() {
		j, err := e.store.Get(ctx, id)
		if err == nil && j.Claimed() && e.holds(&j) {
			t := newTransition(e.workOf(j.Kind), &j, e.clock.Now())
			t.stay(lifecycle.Yield, &outcome{verdict: yields}, time.Time{})
			t.underClaim(e.name)
			_, err = e.one(ctx, t)
		}
		left = append(left, fmt.Sprintf("%s (%s)", id, j.State))
		e.log.Error("the step still runs although its context has ended", "job", id, "state", j.State, "error", err)
	}
	return stillRun("steps", left)
}

// stillRun is the error for steps or deliveries that were abandoned; nil without any.
func stillRun(what string, left []string) error {
	if len(left) == 0 {
		return nil
	}
	slices.Sort(left)
	return job.Errorf(job.Internal, "stop", "", "%s still run although their contexts have ended: %s", what,
		strings.Join(left, ", "))
}
