package engine_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// relay is a lifecycle in which the time for a state and the deadline of the job are two things.
var relay = lc.Must("test.relay",
	lc.OnQueue("Ready", "A runner enters.",
		lc.OnPass("begin", "Running", lc.Worker, "It starts."),
		lc.OnFail("fail", "Late", lc.Worker|lc.Timer, "It cannot start."),
		lc.OnFail("timeout", "Late", lc.Timer, "The deadline passed.").Sets(lc.TimedOut)),
	lc.OnWork("Running", "It runs.",
		lc.OnPass("finish", "Home", lc.Worker, "It arrives."),
		lc.OnFail("error", "Resting", lc.Worker|lc.Timer, "It falls, or takes too long."),
		lc.OnFail("timeout", "Late", lc.Timer, "The deadline passed.").Sets(lc.TimedOut)),
	lc.OnWait("Resting", "It pauses.",
		lc.OnReenter("retry", lc.Timer|lc.Operator, "The pause is over.", "Running").Within("the deadline"),
		lc.OnFail("timeout", "Late", lc.Timer, "The deadline passed.").Sets(lc.TimedOut)),
	lc.OnEnd("Home", lc.OK, "It arrived."),
	lc.OnEnd("Late", lc.TimedOut, "Too late."),
)

// relayWork falls the given number of times and then runs for the given time. The deadline is set when it starts.
func relayWork(falls int, run, deadline time.Duration) engine.Work {
	return engine.Work{
		Life: relay, Prefix: "rel",
		Steps: map[lc.State]engine.Step{
			"Ready": func(_ context.Context, r *engine.Run) error {
				if deadline != 0 {
					r.SetDeadline(r.Now().Add(deadline))
				}
				return nil
			},
			"Running": func(ctx context.Context, r *engine.Run) error {
				if falls--; falls >= 0 {
					return engine.Fail(cause.Network, errBroken)
				}
				return takes(run)(ctx, r)
			},
		},
		Policies: map[lc.State]engine.Policy{"Running": {Timeout: 30 * time.Minute}},
		Patience: func(_ *job.Job, s lc.State) time.Duration {
			if s == "Resting" {
				return 10 * time.Minute
			}
			return 0
		},
		Elapsed: map[lc.State]lc.Event{"Running": "error", "Resting": "retry"},
	}
}

// TestElapsed: the time for a state takes the event that the work names, the deadline takes timeout, in a step and in
// a wait. A deadline that a step sets counts from the state that follows, and the earlier of the two times counts.
func TestElapsed(t *testing.T) {
	for _, c := range []struct {
		name     string
		falls    int
		run      time.Duration
		deadline time.Duration
		elapsed  bool
		want     string
		after    time.Duration
	}{
		{"no deadline", 2, time.Minute, 0, true, "create begin error retry error retry finish", 21 * time.Minute},
		{"in time", 2, time.Minute, time.Hour, true, "create begin error retry error retry finish", 21 * time.Minute},
		{"deadline in the wait", 2, time.Minute, 15 * time.Minute, true, "create begin error retry error timeout",
			15 * time.Minute},
		{"deadline in the step", 0, time.Hour, 20 * time.Minute, true, "create begin timeout", 20 * time.Minute},
		{"the step takes too long", 0, time.Hour, 65 * time.Minute, true, "create begin error retry timeout",
			65 * time.Minute},
		{"control: no event is named", 2, time.Minute, 0, false, "create begin error timeout", 10 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				work := relayWork(c.falls, c.run, c.deadline)
				if !c.elapsed {
					work.Elapsed = nil
				}
				w := start(t, mem.New(), engine.Options{}, work)
				defer w.stop()
				began := time.Now()
				j := w.end(w.post(engine.Order{Kind: "test.relay"}).ID)
				took := time.Since(began)
				var events []string
				for _, e := range w.events(j.ID) {
					events = append(events, string(e))
				}
				if got := strings.Join(events, " "); got != c.want || took < c.after || took > c.after+5*time.Second {
					t.Errorf("got %s after %s, want %s after %s", got, took, c.want, c.after)
				}
				if late := strings.Contains(j.Message, "deadline"); c.deadline != 0 && j.State == "Late" && !late &&
					j.Cause != cause.Timeout {
					t.Errorf("got cause %q, message %q", j.Cause, j.Message)
				}
				w.verify(j.ID)
			})
		})
	}
}

// TestElapsedNamesATimer: a work that names an event which no timer takes is refused.
func TestElapsedNamesATimer(t *testing.T) {
	for event, good := range map[lc.Event]bool{"error": true, "finish": false, "nothing": false} {
		work := relayWork(0, 0, 0)
		work.Elapsed = map[lc.State]lc.Event{"Running": event}
		_, err := engine.New(mem.New(), []engine.Work{work}, engine.Options{})
		if (err == nil) != good {
			t.Errorf("%s: got %v", event, err)
		}
	}
}
