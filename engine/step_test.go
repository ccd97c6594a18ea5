package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// unusual is an error with a cause of its own that states whether it is temporary.
type unusual struct {
	cause string
	again bool
}

func (u unusual) Error() string   { return "unusual " + u.cause }
func (u unusual) Cause() string   { return u.cause }
func (u unusual) Temporary() bool { return u.again }

// TestOutcomeOfAStep checks each way in which a step can end: how often it runs and how the job ends.
func TestOutcomeOfAStep(t *testing.T) {
	for _, c := range []struct {
		name  string
		ends  error
		tries int
		state lc.State
		cause string
		says  string
	}{
		{"nil", nil, 1, "Delivered", "", ""},
		{"a named event", engine.Go("finish"), 1, "Delivered", "", ""},
		{"the failure by name", engine.Go("fail"), 1, "Lost", "", ""},
		{"an unknown event", engine.Go("explode"), 5, "Lost", cause.Error,
			"a Riding job does not take the event explode (can: finish, fail)"},
		{"an event of another state", engine.Go("begin"), 5, "Lost", cause.Error,
			"a Riding job does not take the event begin"},
		{"a person's event", engine.Go("retry"), 5, "Lost", cause.Error, "a Riding job cannot be retried"},
		{"retry", engine.Retry(errBroken), 5, "Lost", cause.Error, "the axle broke"},
		{"fail", engine.Fail("axle", errBroken), 1, "Lost", "axle", "the axle broke"},
		{"fail, wrapped", fmt.Errorf("riding: %w", engine.Fail("axle", errBroken)), 1, "Lost", "axle",
			"the axle broke"},
		{"an error that is temporary", unusual{"later", true}, 5, "Lost", "later", "unusual later"},
		{"an error that is not temporary", unusual{"never", false}, 1, "Lost", "never", "unusual never"},
		{"a full disk", &wrapped{syscall.ENOSPC}, 5, "Lost", cause.Disk, "no space left"},
		{"a bad request", job.Errorf(job.Invalid, "x", "", "no such street"), 1, "Lost", cause.Error, "no such street"},
		{"a conflict", job.Errorf(job.Conflict, "x", "", "somebody was faster"), 5, "Lost", cause.Error,
			"somebody was faster"},
		{"a deadline of its own", context.DeadlineExceeded, 5, "Lost", cause.Network, "deadline exceeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{
					"Riding": func(context.Context, *engine.Run) error { tries++; return c.ends },
				}))
				defer w.stop()
				j := w.end(w.post(engine.Order{}).ID)
				if j.State != c.state || j.Cause != c.cause || tries != c.tries ||
					!strings.Contains(j.Message, c.says) {
					t.Errorf("got %s (%s, %q) after %d tries", j.State, j.Cause, j.Message, tries)
				}
				if got := w.times(j.ID, lc.Backoff); got != c.tries-1 {
					t.Errorf("the history has %d backoffs", got)
				}
				w.verify(j.ID)
			})
		})
	}
}

type wrapped struct{ err error }

func (w *wrapped) Error() string { return "write: " + w.err.Error() }
func (w *wrapped) Unwrap() error { return w.err }

// TestStepMustNameItsEventWhereThereAreSeveral checks that nil is an error there, and that the record has it.
func TestStepMustNameItsEventWhereThereAreSeveral(t *testing.T) {
	fork := lc.Must("test.fork",
		lc.OnQueue("Come", "somebody comes, a guide takes him",
			lc.OnPass("left", "Left", lc.Worker, "the left way"), lc.OnPass("right", "Right", lc.Worker,
				"the right way"),
			lc.OnFail("fail", "Fallen", lc.Worker, "he fell")),
		lc.OnEnd("Left", lc.OK, "he went left"), lc.OnEnd("Right", lc.OK, "he went right"), lc.OnEnd("Fallen",
			lc.Failed, "he fell"))
	for _, c := range []struct {
		ends error
		want lc.State
		says string
	}{{nil, "Fallen", "the step for Come must name its event"}, {engine.Go("right"), "Right", ""}} {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, mem.New(), engine.Options{}, engine.Work{Life: fork, Prefix: "frk",
				Steps: map[lc.State]engine.Step{
					"Come": func(context.Context, *engine.Run) error { return c.ends },
				}})
			defer w.stop()
			if j := w.end(w.post(engine.Order{Kind: "test.fork"}).ID); j.State != c.want ||
				!strings.HasSuffix(j.Message, c.says) {
				t.Errorf("got %s (%q)", j.State, j.Message)
			}
		})
	}
}

// TestPanicDoesNotSpread checks that a panic in a step or a gate does not stop the engine. The job fails, and another
// one succeeds.
func TestPanicDoesNotSpread(t *testing.T) {
	work := func() engine.Work {
		w := letters(map[lc.State]engine.Step{"Sorting": func(_ context.Context, r *engine.Run) error {
			if r.Job().Group == "step" {
				panic("no such letter")
			}
			return nil
		}})
		w.Gates = map[lc.State]engine.Gate{"Riding": func(_ context.Context, j *job.Job) *job.Blocker {
			if j.Group == "gate" {
				panic("no such gate")
			}
			return nil
		}}
		return w
	}
	for _, c := range []struct {
		group string
		state lc.State
		cause string
		says  string
	}{
		{"step", "Lost", cause.Panic, "panicked: no such letter"},
		{"gate", "Lost", cause.Panic, "panicked: no such gate"},
		{"neither", "Delivered", "", ""},
	} {
		t.Run(c.group, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, mem.New(), engine.Options{Slots: 1}, work())
				defer w.stop()
				j, other := w.post(engine.Order{Group: c.group}), w.post(engine.Order{})
				if j = w.end(j.ID); j.State != c.state || j.Cause != c.cause || !strings.Contains(j.Message, c.says) {
					t.Errorf("got %s (%s, %q)", j.State, j.Cause, j.Message)
				}
				if other = w.end(other.ID); other.Outcome != lc.OK {
					t.Errorf("the other one: %s", other.Outcome)
				}
				w.verify(j.ID)
			})
		})
	}
}

// TestGateIsAskedBeforeEachStep checks that a closed gate costs no attempt.
func TestGateIsAskedBeforeEachStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked []time.Time
		open := time.Now().Add(time.Minute)
		work := letters(nil)
		work.Gates = map[lc.State]engine.Gate{"Riding": func(context.Context, *job.Job) *job.Blocker {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, time.Now())
			if time.Now().Before(open) {
				return &job.Blocker{Code: "space", Sentence: "3 GB are missing"}
			}
			return nil
		}}
		w := start(t, mem.New(), engine.Options{}, work)
		defer w.stop()
		j := w.end(w.post(engine.Order{}).ID)
		if took := j.Entered.Sub(j.Created); took < time.Minute || took > time.Minute+6*time.Second ||
			len(asked) != 13 {
			t.Errorf("ended after %s, the gate was asked %d times", took, len(asked))
		}
		if w.times(j.ID, lc.Backoff) != 0 || w.times(j.ID, lc.Waiting) != 1 {
			t.Errorf("history %v", w.events(j.ID))
		}
	})
}

// TestSaveKeepsTheClaim checks that what was set is stored at once, and that the step continues under the same epoch.
func TestSaveKeepsTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		var mistakes []error
		note := func(ok bool, format string, args ...any) {
			if !ok {
				mistakes = append(mistakes, fmt.Errorf(format, args...))
			}
		}
		w := start(t, store, engine.Options{}, letters(map[lc.State]engine.Step{"Sorting": func(ctx context.Context,
			r *engine.Run) error {
			epoch := r.Job().Epoch
			if err := r.SetData(map[string]int{"bytes": 3}); err != nil {
				return err
			}
			r.SetMessage("half way")
			r.SetPriority(1000)
			r.PutTask(job.Task{Name: "file", State: "Done"})
			if err := r.Save(ctx); err != nil {
				return err
			}
			j, err := store.Get(ctx, r.Job().ID)
			note(err == nil && j.Epoch == epoch && j.Claimed() && j.Starts == 1, "after Save: %+v, %v", j, err)
			note(j.Message == "half way" && j.Priority == job.LastPriority && string(j.Data) == `{"bytes":3}`,
				"after Save: %+v", j)
			var data struct{ Bytes int }
			note(r.Data(&data) == nil && data.Bytes == 3, "data %+v", data)
			tasks, err := r.Tasks(ctx)
			note(err == nil && len(tasks) == 1 && tasks[0].Epoch == epoch, "tasks %+v, %v", tasks, err)
			note(job.KindOf(r.SetData(func() {})) == job.Internal &&
				job.KindOf(r.Send("mail", "k", func() {})) == job.Internal, "it encodes functions")
			r.SetMessage("done")
			return nil
		}}))
		defer w.stop()
		j := w.end(w.post(engine.Order{Spec: "s"}).ID)
		if err := errors.Join(mistakes...); err != nil {
			t.Error(err)
		}
		if j.Outcome != lc.OK || string(j.Data) != `{"bytes":3}` || w.times(j.ID, "next") != 1 {
			t.Errorf("got %+v", j)
		}
		w.verify(j.ID)
	})
}

// TestFenceDiffersPerAttemptAndKeyDoesNot.
func TestFenceDiffersPerAttemptAndKeyDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, fences := map[string]bool{}, map[string]bool{}
		w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{"Riding": func(_ context.Context,
			r *engine.Run) error {
			keys[r.Key()], fences[r.Fence()] = true, true
			return errBroken
		}}))
		defer w.stop()
		w.end(w.post(engine.Order{}).ID)
		if len(keys) != 1 || len(fences) != 5 {
			t.Errorf("got keys %v, fences %v", keys, fences)
		}
	})
}

// H
func TestSaveThatFailedForgetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startKillable(t, mem.New(), engine.Options{},
			letters(map[lc.State]engine.Step{"Sorting": func(ctx context.Context, r *engine.Run) error {
				if err := r.SetData("sorted"); err != nil {
					return err
				}
				if err := r.Send("mail", r.Key(), "sorted"); err != nil {
					return err
				}
				if err := r.Save(ctx); err != nil {
					return r.Save(ctx) // once more
				}
				return nil
			}}))
		defer m.stop()
		m.line.decide(func(op string, nth int) fate {
			if op == "Commit" && nth == 2 {
				return refused
			}
			return answered
		})
		j := m.end(m.post(engine.Order{}).ID)
		if string(j.Data) != `"sorted"` || len(m.messages(j.ID)) != 1 {
			t.Errorf("data %s, %d messages", j.Data, len(m.messages(j.ID)))
		}
	})
}

// TestGoByAPersonsEvent checks that the refusal of an event that only people may cause names those of the worker.
func TestGoByAPersonsEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := letters(map[lc.State]engine.Step{"Sorting": func(context.Context, *engine.Run) error {
			return engine.Go("stop")
		}})
		work.Policy.MaxAttempts = 1
		w := start(t, mem.New(), engine.Options{}, work)
		defer w.stop()
		j := w.end(w.post(engine.Order{}).ID)
		if !strings.Contains(j.Message, "only operator may (can: next, fail") {
			t.Errorf("got %q", j.Message)
		}
	})
}
