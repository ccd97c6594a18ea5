package compute_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

const hello = "#!/bin/bash\necho hello\n"

func one(x compute.Executor) map[string]compute.Executor {
	return map[string]compute.Executor{"a1": x}
}

func TestJobGoesThroughItsLife(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake()
		w := newHarness(t, quick(t), one(notifier{f}))
		j := w.until(w.upload("ada", hello).ID, compute.Completed, compute.Failed)
		if j.State != compute.Completed {
			t.Fatalf("%s: %s", j.Cause, j.Message)
		}
		if got, want := w.path(j.ID), "Queued Processing Submitted Retrieving Completed"; got != want {
			t.Errorf("it went %s, want %s", got, want)
		}
		if j.Words != "run sh" {
			t.Errorf("its words are %q", j.Words)
		}
		file, r, err := w.app.Results(&j)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		text, _ := io.ReadAll(file)
		if int64(len(text)) != r.Bytes || r.Bytes == 0 {
			t.Errorf("results of %d bytes, %d reported", len(text), r.Bytes)
		}
	})
}

// TestEveryStandingIsFollowed: the states that users see are those that the agent reports.
func TestEveryStandingIsFollowed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake()
		f.auto = false
		w := newHarness(t, quick(t), one(notifier{f}))
		j := w.upload("ada", hello)
		w.until(j.ID, compute.Running)
		f.finish(j.ID, &compute.Ending{Exit: 3, Cause: compute.CauseExit, Sentence: "run.sh exited with 3"})
		got := w.until(j.ID, compute.Failed)
		if got.Cause != compute.CauseExit || got.Message != "run.sh exited with 3" {
			t.Errorf("failed by %s: %q", got.Cause, got.Message)
		}
		if d, err := compute.DataOf(&got); err != nil || d.Results == nil || d.Results.Partial {
			t.Errorf("a failed job keeps its output: %+v, %v", d.Results, err)
		}
	})
}

// TestUnreachable: an agent that cannot be reached is tried as often as it may, then the job fails and reports why
// (failure matrix, row 1; ruling of 2.8).
func TestUnreachable(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*compute.Options)
		tries  string
	}{
		{"default", func(*compute.Options) {}, "5 attempts"},
		{"as the original", func(o *compute.Options) { o.Retries = 1 }, "1 attempts"},
	} {
		runInBubble(t, c.name, func(t *testing.T) {
			f := newFake()
			f.fault = func(call string, _ compute.Ticket) error {
				if call == "submit" {
					return fmt.Errorf("connection refused: %w", compute.ErrNotSent)
				}
				return nil
			}
			o := quick(t)
			c.change(&o)
			w := newHarness(t, o, one(notifier{f}))
			j := w.until(w.upload("ada", hello).ID, compute.Failed)
			if j.Cause != compute.CauseAgents || !strings.Contains(j.Message, c.tries) ||
				!strings.Contains(j.Message, "connection refused") {
				t.Errorf("%s: %q", j.Cause, j.Message)
			}
		})
	}
}

// TestFullAgentIsWaitedFor: a refusal for lack of space is no failed attempt, however often it comes. The job states
// it, and runs once there is space. Control: TestUnreachable, where the same number of attempts fails the job.
func TestFullAgentIsWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var full atomic.Bool
		full.Store(true)
		f := newFake()
		f.fault = func(call string, _ compute.Ticket) error {
			if call == "submit" && full.Load() {
				return &compute.Refusal{Reason: "the agent's disk is full", Here: true, Full: true}
			}
			return nil
		}
		w := newHarness(t, quick(t), one(notifier{f}))
		id := w.upload("ada", hello).ID
		time.Sleep(time.Second) // twenty times RetryFor
		synctest.Wait()
		x, err := explain.New(w.eng).Why(t.Context(), id, time.Time{})
		if err != nil || x.Position.State != compute.Queued || len(x.Blockers) != 1 ||
			x.Blockers[0].Code != "agent-space" || !strings.Contains(x.Blockers[0].Sentence, "disk is full") {
			t.Errorf("%v: %s, %+v", err, x.Position.State, x.Blockers)
		}
		full.Store(false)
		w.until(id, compute.Completed)
	})
}

// TestOtherAgentTakesIt when the first cannot be reached.
func TestOtherAgentTakesIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		bad, good := newFake(), newFake()
		bad.slots = 100 // it is asked first
		bad.fault = func(call string, _ compute.Ticket) error {
			if call == "submit" {
				return compute.ErrNotSent
			}
			return nil
		}
		w := newHarness(t, quick(t), map[string]compute.Executor{"bad": notifier{bad}, "good": notifier{good}})
		synctest.Wait() // both have answered how they stand
		j := w.until(w.upload("ada", hello).ID, compute.Completed, compute.Failed)
		d, err := compute.DataOf(&j)
		if err != nil || j.State != compute.Completed || d.Agent != "good" || len(d.Attempts) == 0 ||
			d.Attempts[0].Agent != "bad" {
			t.Errorf("%s at %q after %+v (%v)", j.State, d.Agent, d.Attempts, err)
		}
	})
}

// TestLostAnswerIsUnknown: an answer that does not come is no failure, the agent is asked by the ticket, and nothing
// runs twice (hole J4).
func TestLostAnswerIsUnknown(t *testing.T) {
	for _, lost := range []string{"answer", "request"} {
		runInBubble(t, lost, func(t *testing.T) {
			f := newFake()
			f.auto = false
			n := 0
			broken := func(call string, _ compute.Ticket) error {
				if call == "submit" {
					if n++; n == 1 {
						return errors.New("connection reset")
					}
				}
				return nil
			}
			if lost == "answer" {
				f.after = broken
			} else {
				f.fault = broken
			}
			w := newHarness(t, quick(t), one(notifier{f}))
			j := w.upload("ada", hello)
			w.until(j.ID, compute.Running)
			f.finish(j.ID, nil)
			got := w.until(j.ID, compute.Completed)
			if path := w.path(got.ID); !strings.Contains(path, "Unknown") {
				t.Errorf("it went %s", path)
			}
			for ticket, runs := range f.runs {
				if runs != 1 {
					t.Errorf("%s ran %d times", ticket, runs)
				}
			}
			if len(f.runs) != 1 {
				t.Errorf("it was begun under %d tickets", len(f.runs))
			}
		})
	}
}

// TestForgetfulAgent: what its memory has lost is lost, and never run again (W6, rule 6 of 1.6).
func TestForgetfulAgent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake()
		f.auto = false
		w := newHarness(t, quick(t), one(notifier{f}))
		j := w.upload("ada", hello)
		w.until(j.ID, compute.Running)
		f.mu.Lock()
		f.payloads, f.instance = map[string]*played{}, "two"
		f.mu.Unlock()
		f.changed(j.ID)
		got := w.until(j.ID, compute.Failed, compute.Completed)
		if got.State != compute.Failed || got.Cause != compute.CauseLost {
			t.Errorf("%s by %s: %s", got.State, got.Cause, got.Message)
		}
	})
}

// TestSilentAgent: while it is silent the job is Unknown; when it answers, it goes on; when it never does, the job is
// lost.
func TestSilentAgent(t *testing.T) {
	for _, back := range []bool{true, false} {
		runInBubble(t, fmt.Sprint("comes back ", back), func(t *testing.T) {
			f := newFake()
			f.auto = false
			o := quick(t)
			o.Recheck = 10 * time.Millisecond
			if !back {
				o.Lost = 700 * time.Millisecond
			}
			w := newHarness(t, o, one(notifier{f}))
			j := w.upload("ada", hello)
			w.until(j.ID, compute.Running)
			f.mu.Lock()
			f.down = errors.New("no route to host")
			f.mu.Unlock()
			w.until(j.ID, compute.Unknown)
			why, err := explain.New(w.eng).Why(t.Context(), j.ID, time.Time{})
			if err != nil || len(why.Blockers) == 0 || !strings.Contains(why.Blockers[0].Sentence, "no route to host") {
				t.Errorf("why: %+v, %v", why.Blockers, err)
			}
			if back {
				f.mu.Lock()
				f.down = nil
				f.mu.Unlock()
				f.finish(j.ID, nil)
				w.until(j.ID, compute.Completed)
				return
			}
			if got := w.until(j.ID, compute.Failed); got.Cause != compute.CauseLost {
				t.Errorf("failed by %s: %s", got.Cause, got.Message)
			}
		})
	}
}

// TestCancel in each state in which a person can cancel a job, and what becomes of one that has ended (W12).
func TestCancel(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake()
		f.auto = false
		o := quick(t)
		o.Services[0].RunsPerUser = 1
		w := newHarness(t, o, one(notifier{f}))
		running := w.upload("ada", hello)
		w.until(running.ID, compute.Running)
		queued := w.upload("ada", hello)
		if j, err := w.app.Cancel(t.Context(), queued.ID, compute.Request{By: lifecycle.Owner}); err != nil ||
			j.State != compute.Killed {
			t.Errorf("queued: %s, %v", j.State, err)
		}
		if _, err := w.app.Cancel(t.Context(), running.ID, compute.Request{By: lifecycle.Owner}); err != nil {
			t.Error(err)
		}
		j := w.until(running.ID, compute.Killed)
		if d, err := compute.DataOf(&j); err != nil || d.Results == nil {
			t.Errorf("what a killed job left is kept: %+v, %v", d.Results, err)
		}
		third := w.upload("ada", hello)
		w.until(third.ID, compute.Running)
		f.finish(third.ID, nil)
		w.until(third.ID, compute.Completed)
		if j, err := w.app.Cancel(t.Context(), third.ID, compute.Request{By: lifecycle.Owner}); err != nil ||
			j.State != compute.Completed {
			t.Errorf("completed: %s, %v", j.State, err)
		}
		if j, _ := w.store.Get(t.Context(), third.ID); j.State != compute.Completed {
			t.Errorf("a completed job became %s", j.State)
		}
	})
}

// TestForgetfulnessIsAsked: every end reaches the agent, so that it clears away.
func TestForgetfulnessIsAsked(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake()
		w := newHarness(t, quick(t), one(notifier{f}))
		j := w.until(w.upload("ada", hello).ID, compute.Completed)
		eventually(t, "it is forgotten", func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return len(f.forgot) == 1 && f.forgot[0].Job == j.ID
		})
	})
}

// TestInvalid: what can never run reports why, without an agent.
func TestInvalid(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newHarness(t, quick(t), one(newFake()))
		j, err := w.order(compute.Order{Owner: "ada", Service: "example"}, map[string]string{"data.txt": "1"})
		if err != nil {
			t.Fatal(err)
		}
		got := w.until(j.ID, compute.Invalid)
		if !strings.Contains(got.Message, "run.sh") {
			t.Errorf("the message is %q", got.Message)
		}
		for _, c := range []struct {
			order compute.Order
			kind  job.ErrorKind
		}{
			{compute.Order{Owner: "ada", Service: "nowhere"}, job.Invalid},
			{compute.Order{Owner: "ada", Service: "example", Limits: compute.Limits{Wall: -1}}, job.Invalid},
		} {
			if _, err := w.order(c.order, map[string]string{compute.Script: hello}); job.KindOf(err) != c.kind {
				t.Errorf("%+v: %v", c.order, err)
			}
		}
	})
}
