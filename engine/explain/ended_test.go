package explain_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestWhyEndedInWords: the explanation of an ended job begins with what happened, and names a person who ended it.
func TestWhyEndedInWords(t *testing.T) {
	blocks := func(ctx context.Context, _ *engine.Run) error {
		<-ctx.Done()
		time.Sleep(5 * time.Second) // the sweep, not the step, ends the state
		return ctx.Err()
	}
	for name, c := range map[string]struct {
		step engine.Step
		life time.Duration
		act  operator.Act
		want string
	}{
		"success": {want: "Delivered: the addressee has it"},
		"message": {step: fails("the axle broke"), want: "the axle broke"},
		"timeout": {step: blocks, life: time.Minute, want: "more than 1m in Riding"},
		"person": {act: operator.Act{Event: "delete", By: lc.Operator, Actor: "ann"},
			want: "Burnt: only the record is left (delete by ann)"},
		"person's reason": {act: operator.Act{Event: "delete", By: lc.Operator, Actor: "ann", Note: "burn it"},
			want: "Burnt: burn it (delete by ann)"},
		"unnamed operator": {act: operator.Act{Event: "delete", By: lc.Operator},
			want: "Burnt: only the record is left (delete by operator)"},
	} {
		synctest.Test(t, func(t *testing.T) {
			steps := map[lc.State]engine.Step{}
			if c.step != nil {
				steps["Riding"] = c.step
			}
			work := letters(steps)
			work.Policy.MaxAttempts, work.Policy.Timeout = 1, c.life
			w := start(t, mem.New(), engine.Options{}, work)
			defer w.stop()
			j := w.end(w.post(engine.Order{}).ID)
			if c.act.Event != "" {
				j = w.caused(j, c.act)
			}
			if b := w.blocker(j.ID, explain.BlockEnded); b.Sentence != c.want {
				t.Errorf("%s: %q, want %q", name, b.Sentence, c.want)
			}
		})
	}
}

// caused is the job after an act of a person. Entries of earlier versions may lack the person: Do refuses that.
func (w *harness) caused(j job.Job, a operator.Act) job.Job {
	w.t.Helper()
	a.Job = j.ID
	if a.Actor != "" {
		j, err := w.Do(w.t.Context(), a)
		if err != nil {
			w.t.Fatal(err)
		}
		return j
	}
	to, err := w.Life(j.Kind).Next(j.Position, a.Event, a.By)
	if err != nil {
		w.t.Fatal(err)
	}
	results, err := w.store.Commit(w.t.Context(), job.Change{Job: j.ID, Version: j.Version, From: j.State, To: to,
		Event: a.Event, By: a.By, At: w.Clock().Now(), Ended: true, Gone: true,
		Set: job.Fields{Cause: new(""), Message: new("")}})
	if err != nil || results[0].Err != nil {
		w.t.Fatal(err, results)
	}
	return results[0].Job
}

// fails is a step that fails with a message.
func fails(text string) engine.Step {
	return func(context.Context, *engine.Run) error { return job.Errorf(job.Invalid, "ride", "", "%s", text) }
}
