package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestServerOnlyStates checks that remote workers cannot claim, enter or report on a state that has a step here, not
// even under the name of the engine. States without a step are the control.
func TestServerOnlyStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := remoteLetters()
		work.Steps = map[lc.State]engine.Step{"Sorting": func(context.Context, *engine.Run) error { return nil }}
		w := outside(t, mem.New(), work)
		id := w.post(engine.Order{}).ID
		at := func(s lc.State) []job.KindState { return []job.KindState{{Kind: "test.letter", State: s}} }
		for _, s := range []lc.State{"Sorting", "Held", "Delivered", "Nowhere"} {
			if _, err := w.Remote().Claim(t.Context(), remote.Claim{Worker: "ann", From: at(s), N: 1}); job.KindOf(err) != job.Refused {
				t.Errorf("%s: got %v", s, err)
			}
		}
		jobs, err := w.Remote().Claim(t.Context(), remote.Claim{Worker: "ann", From: at("Posted"), N: 1})
		if err != nil || len(jobs) != 1 {
			t.Fatalf("control: got %v, %v", jobs, err)
		}
		if r := w.report("ann", jobs[0], remote.Report{Again: true}); r.Err != nil || r.Job.State != "Sorting" ||
			r.Job.Claimed() {
			t.Fatalf("ann goes on in %s, %v", r.Job.State, r.Err)
		}
		now := w.Clock().Now()
		jobs, err = w.store.Claim(t.Context(), job.Claim{Worker: "host", From: at("Sorting"), N: 1, Now: now,
			Lease: 1e9})
		if err != nil || len(jobs) != 1 {
			t.Fatalf("got %v, %v", jobs, err)
		}
		if r := w.report("host", jobs[0], remote.Report{}); job.KindOf(r.Err) != job.Refused {
			t.Errorf("a report on the engine's own claim: got %v", r.Err)
		}
		if j := w.get(id); j.State != "Sorting" {
			t.Errorf("it is %s", j.State)
		}
	})
}

// owing is the letters work in which a letter may leave Riding only with the data for it.
func owing(w engine.Work) engine.Work {
	w.Owes = func(_ context.Context, j *job.Job, c *job.Change) error {
		if j.State == "Riding" && string(c.Set.Data) != `"signed"` {
			return engine.Fail("unsigned", errors.New("the signature is missing"))
		}
		return nil
	}
	return w
}

// TestPostconditionOfReports checks that a success that was not achieved is refused and leaves the job in its state.
// Failures are accepted.
func TestPostconditionOfReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := outside(t, mem.New(), owing(remoteLetters()))
		for _, c := range []struct {
			report remote.Report
			kind   job.ErrorKind
			state  lc.State
		}{
			{remote.Report{}, job.Refused, "Riding"}, {remote.Report{Event: "finish", Data: []byte(`"empty"`)},
				job.Refused, "Riding"},
			{remote.Report{Retry: "axle"}, "", "Riding"}, {remote.Report{Fail: "bridge"}, "",
				"Lost"}, {remote.Report{Data: []byte(`"signed"`)}, "", "Delivered"},
		} {
			id := w.post(engine.Order{}).ID
			j := w.acquire("ann", 1)[0]
			for range 2 {
				r := w.report("ann", j, remote.Report{Again: true})
				if r.Err != nil {
					t.Fatal(r.Err)
				}
				j = r.Job
			}
			if r := w.report("ann", j, c.report); job.KindOf(r.Err) != c.kind && (r.Err != nil || c.kind != "") {
				t.Errorf("%+v: got %v", c.report, r.Err)
			}
			if j := w.get(id); j.State != c.state {
				t.Errorf("%+v: it is %s", c.report, j.State)
			}
		}
	})
}

// TestPostconditionOfSteps checks that the error is the outcome of the step, whether the step returns or moves the job.
func TestPostconditionOfSteps(t *testing.T) {
	for name, step := range map[string]engine.Step{
		"returns": func(context.Context, *engine.Run) error { return nil },
		"names":   func(context.Context, *engine.Run) error { return engine.Go("finish") },
		"moves":   func(ctx context.Context, r *engine.Run) error { return r.Move(ctx, "finish") },
		"signed":  func(_ context.Context, r *engine.Run) error { return r.SetData("signed") },
		"waits once": func(_ context.Context, r *engine.Run) error {
			if r.Job().Cause != "snow" {
				return engine.Wait(job.Blocker{Code: "snow", Sentence: "shut"})
			}
			return r.SetData("signed")
		},
		"tries twice": func(_ context.Context, r *engine.Run) error {
			if r.Job().Attempts == 0 {
				return engine.Retry(errors.New("axle"))
			}
			return r.SetData("signed")
		},
		"signed and moves": func(ctx context.Context, r *engine.Run) error {
			if err := r.SetData("signed"); err != nil {
				return err
			}
			return r.Move(ctx, "finish")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, mem.New(), engine.Options{}, owing(letters(map[lc.State]engine.Step{"Riding": step})))
				defer w.stop()
				j := w.end(w.post(engine.Order{}).ID)
				signed := !slices.Contains([]string{"returns", "names", "moves"}, name)
				if signed && j.State != "Delivered" || !signed &&
					(j.State != "Lost" || j.Cause != "unsigned" || j.Message != "the signature is missing") {
					t.Errorf("it is %s (%s: %s)", j.State, j.Cause, j.Message)
				}
			})
		})
	}
}
