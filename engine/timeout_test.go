package engine_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// race is a lifecycle in which a timer has an event of its own.
var race = lc.Must("test.race",
	lc.OnQueue("Lined", "a runner enters it, a starter takes it",
		lc.OnPass("begin", "Running", lc.Worker, "the pistol"),
		lc.OnFail("fail", "Fallen", lc.Worker, "the runner does not start"),
		lc.OnFail("timeout", "Late", lc.Timer, "no start signal came").Sets(lc.TimedOut)),
	lc.OnWork("Running", "the runner runs",
		lc.OnPass("finish", "Home", lc.Worker, "the tape"),
		lc.OnFail("fail", "Fallen", lc.Worker, "the runner fell"),
		lc.OnFail("timeout", "Late", lc.Timer, "the time limit passed").Sets(lc.TimedOut)),
	lc.OnEnd("Home", lc.OK, "the runner is home"),
	lc.OnEnd("Fallen", lc.Failed, "the runner fell"),
	lc.OnEnd("Late", lc.TimedOut, "the time limit passed",
		lc.OnReenter("retry", lc.Operator, "once more", "Lined", "Running")),
)

func deaf(d time.Duration) engine.Step {
	return func(context.Context, *engine.Run) error { <-time.After(d); return nil }
}

func TestTimeoutCutsARunningStep(t *testing.T) {
	const slack = time.Second // of the sweep
	for _, c := range []struct {
		name    string
		step    engine.Step
		timeout time.Duration
		state   lc.State
		after   time.Duration
	}{
		{"hears", takes(time.Hour), time.Minute, "Lost", time.Minute},
		{"is deaf", deaf(time.Hour), time.Minute, "Lost", time.Minute},
		{"control: is quick", takes(50 * time.Second), time.Minute, "Delivered", 50 * time.Second},
		{"control: has no limit", takes(time.Hour), 0, "Delivered", time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				work := letters(map[lc.State]engine.Step{"Sorting": c.step})
				work.Policies = map[lc.State]engine.Policy{"Sorting": {Timeout: c.timeout}}
				w := start(t, mem.New(), engine.Options{}, work)
				defer w.stop()
				began := time.Now()
				j := w.end(w.post(engine.Order{}).ID)
				took := time.Since(began)
				if j.State != c.state || took < c.after || took > c.after+slack {
					t.Errorf("got %s after %s, want %s after %s", j.State, took, c.state, c.after)
				}
				if j.State == "Lost" && (j.Cause != cause.Timeout || j.Origin != "Sorting" || j.Attempts != 0) {
					t.Errorf("got cause %q, origin %s, %d attempts", j.Cause, j.Origin, j.Attempts)
				}
				time.Sleep(2 * time.Hour) // the late outcome is refused
				if after := w.get(j.ID); after.Seq != j.Seq {
					t.Errorf("it moved on after its end: %v", w.events(j.ID))
				}
				w.verify(j.ID)
			})
		})
	}
}

// TestTimeoutCountsWaiting checks that a state's time includes waiting in it: for a backoff, for a reason, for a hold.
func TestTimeoutCountsWaiting(t *testing.T) {
	for _, c := range []struct {
		name string
		step engine.Step
		hold bool
	}{
		{"backoff", func(context.Context, *engine.Run) error {
			return engine.RetryAfter(25*time.Minute, errBroken)
		}, false},
		{"reason", func(_ context.Context, r *engine.Run) error {
			return engine.Wait(job.Blocker{Code: "snow", Sentence: "snow", Until: r.Now().Add(7 * time.Minute)})
		}, false},
		{"hold", takes(0), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				work := letters(map[lc.State]engine.Step{"Posted": c.step})
				work.Policies = map[lc.State]engine.Policy{"Posted": {Timeout: time.Hour}}
				w := start(t, mem.New(), engine.Options{}, work)
				defer w.stop()
				if c.hold {
					if _, err := w.Operator().Hold(t.Context(), job.Scope{}, "ann", "flood", time.Time{}); err != nil {
						t.Fatal(err)
					}
				}
				began := time.Now()
				j := w.end(w.post(engine.Order{}).ID)
				if took := time.Since(began); j.State != "Lost" || j.Cause != cause.Timeout || took < time.Hour ||
					took > time.Hour+time.Second {
					t.Errorf("got %s (%s) after %s", j.State, j.Cause, took)
				}
				if !strings.Contains(j.Message, "more than 1h in ") || !strings.Contains(j.Message, "Posted") {
					t.Errorf("got message %q", j.Message)
				}
				w.verify(j.ID)
			})
		})
	}
}

// TestDeadlineIsTheLastWord checks that a deadline covers all states, and that the earlier of deadline and timeout
// applies.
func TestDeadlineIsTheLastWord(t *testing.T) {
	for _, c := range []struct {
		name     string
		deadline time.Duration
		timeout  time.Duration
		held     bool
		state    lc.State
		after    time.Duration
	}{
		{"running, before the state's time", 50 * time.Minute, 2 * time.Hour, false, "Lost", 50 * time.Minute},
		{"running, after the state's time", 3 * time.Hour, time.Hour, false, "Lost", time.Hour},
		{"held", 20 * time.Minute, 0, true, "Lost", 20 * time.Minute},
		{"passed before it came", -time.Minute, 0, true, "Lost", 0},
		{"control: late enough", 3 * time.Hour, 2 * time.Hour, false, "Delivered", 100 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				work := letters(map[lc.State]engine.Step{"Posted": takes(10 * time.Minute),
					"Sorting": takes(90 * time.Minute)})
				work.Policies = map[lc.State]engine.Policy{"Sorting": {Timeout: c.timeout}}
				if c.timeout == time.Hour {
					c.after += 10 * time.Minute // it was in Posted before
				}
				w := start(t, mem.New(), engine.Options{}, work)
				defer w.stop()
				if c.held {
					if _, err := w.Operator().Hold(t.Context(), job.Scope{Kind: "test.letter"}, "ann", "flood",
						time.Time{}); err != nil {
						t.Fatal(err)
					}
				}
				began := time.Now()
				j := w.end(w.post(engine.Order{Deadline: began.Add(c.deadline)}).ID)
				took := time.Since(began)
				if j.State != c.state || took < c.after || took > c.after+time.Second {
					t.Errorf("got %s after %s, want %s after %s", j.State, took, c.state, c.after)
				}
				if inTime := strings.Contains(j.Message, "deadline"); c.held && !inTime {
					t.Errorf("the message does not have the deadline: %q", j.Message)
				}
				w.verify(j.ID)
			})
		})
	}
}

// TestDeadlineLeavesAloneWhatNoTimerMoves checks that a state without a timer transition does not expire. The deadline
// applies again in the next state.
func TestDeadlineLeavesAloneWhatNoTimerMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{
			"Posted": func(context.Context, *engine.Run) error { return engine.Go("hold") },
		}))
		defer w.stop()
		j := w.post(engine.Order{Deadline: time.Now().Add(time.Minute)})
		time.Sleep(time.Hour)
		if j = w.get(j.ID); j.State != "Held" || !j.Expires.IsZero() {
			t.Fatalf("got %s, expires %s", j.State, j.Expires)
		}
		if _, err := w.Do(t.Context(), operator.Act{Job: j.ID, Event: "release",
			By: lc.Operator, Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		if j = w.end(j.ID); j.State != "Lost" && j.State != "Held" {
			t.Errorf("got %s", j.State)
		}
		w.verify(j.ID)
	})
}

// TestTimeoutStatesItsTime checks that the reason has the time that a state allows, not that of the sweep after it.
func TestTimeoutStatesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := letters(nil)
		work.Policy.Timeout = 4 * time.Second
		w := start(t, mem.New(), engine.Options{}, work)
		defer w.stop()
		if _, err := w.Operator().Hold(t.Context(), job.Scope{}, "ann", "flood", time.Time{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond) // the next sweep after 4 s comes 0.7 s later
		if j := w.end(w.post(engine.Order{}).ID); j.Message != "more than 4s in Posted" {
			t.Errorf("got %q", j.Message)
		}
	})
}

func runs(step engine.Step, p engine.Policy) engine.Work {
	return engine.Work{Life: race, Prefix: "rac", Policy: p,
		Steps: map[lc.State]engine.Step{"Lined": takes(0), "Running": step}}
}

// TestTimeoutByItsOwnEvent checks that a timer takes the event timeout where the table has it, not the failure's.
func TestTimeoutByItsOwnEvent(t *testing.T) {
	for _, c := range []struct {
		name string
		step engine.Step
		want lc.State
	}{
		{"hears", takes(time.Hour), "Late"},
		{"is deaf", deaf(time.Minute + 5*time.Second), "Late"},
		{"control: fails", func(context.Context, *engine.Run) error {
			return engine.Fail("stone", errBroken)
		}, "Fallen"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, mem.New(), engine.Options{}, runs(c.step, engine.Policy{Timeout: time.Minute}))
				defer w.stop()
				j := w.end(w.post(engine.Order{Kind: "test.race"}).ID)
				if j.State != c.want {
					t.Errorf("got %s", j.State)
				}
				if c.want == "Late" && (j.Outcome != lc.TimedOut || j.Cause != cause.Timeout ||
					w.times(j.ID, "timeout") != 1) {
					t.Errorf("got outcome %s, cause %s, %v", j.Outcome, j.Cause, w.events(j.ID))
				}
				w.verify(j.ID)
			})
		})
	}
}

// TestTimeStartsAnewWithARetry checks that a retry gives the job the whole time of the state again.
func TestTimeStartsAnewWithARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		w := start(t, mem.New(), engine.Options{}, runs(func(ctx context.Context, r *engine.Run) error {
			if tries++; tries == 1 {
				return blocked(ctx, r)
			}
			return takes(50*time.Second)(ctx, r)
		}, engine.Policy{Timeout: time.Minute}))
		defer w.stop()
		j := w.end(w.post(engine.Order{Kind: "test.race"}).ID)
		if j.State != "Late" || !j.Expires.IsZero() {
			t.Fatalf("got %s, expires %s", j.State, j.Expires)
		}
		time.Sleep(time.Hour)
		j, err := w.Do(t.Context(), operator.Act{Job: j.ID, Event: "retry", By: lc.Operator, Actor: "ann"})
		if err != nil || j.State != "Running" || !j.Expires.Equal(time.Now().Add(time.Minute)) {
			t.Fatalf("got %s until %s, %v", j.State, j.Expires, err)
		}
		if j = w.end(j.ID); j.State != "Home" {
			t.Errorf("got %s (%s)", j.State, j.Message)
		}
		w.verify(j.ID)
	})
}
