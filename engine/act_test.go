package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// counted is a step that takes no time and counts its runs.
func counted(n *int) engine.Step {
	return func(context.Context, *engine.Run) error { *n++; return nil }
}

func blocks(x api.Explanation, code string) bool {
	for _, b := range x.Blockers {
		if b.Code == code {
			return true
		}
	}
	return false
}

// TestActOnWhatOneSaw checks that an act with a version applies to that version of the record only (rule R11).
func TestActOnWhatOneSaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{"Sorting": blocked}))
		defer w.stop()
		j := w.post(engine.Order{})
		synctest.Wait()
		seen := w.get(j.ID)
		if _, err := w.Operator().SetPriority(t.Context(), j.ID, seen.Version, 7, "ann", "sooner"); err != nil {
			t.Fatal(err)
		}
		stop := operator.Act{Job: j.ID, Event: "stop", By: lc.Operator, Actor: "ann", Note: "wrong town",
			Version: seen.Version}
		if _, err := w.Do(t.Context(), stop); job.KindOf(err) != job.Conflict ||
			!strings.Contains(err.Error(), "you saw version") {
			t.Errorf("with the old version: %v", err)
		}
		if _, err := w.Operator().SetPriority(t.Context(), j.ID, seen.Version, 8, "ann",
			"sooner"); job.KindOf(err) != job.Conflict {
			t.Errorf("priority with the old version: %v", err)
		}
		stop.Version = w.get(j.ID).Version
		got, err := w.Do(t.Context(), stop)
		if err != nil || got.State != "Lost" || got.Priority != 7 {
			t.Errorf("with the current version: %s, %v", got.State, err)
		}
		history, err := w.store.History(t.Context(), j.ID, 0, 0)
		last := history[len(history)-1]
		if err != nil || last.Event != "stop" || last.By != lc.Operator || last.Actor != "ann" ||
			last.Note != "wrong town" {
			t.Errorf("the history has %+v, %v", last, err)
		}
		if _, err := w.Operator().SetPriority(t.Context(), j.ID, 0, 1, "ann",
			"sooner"); job.KindOf(err) != job.Refused {
			t.Errorf("priority of an ended job: %v", err)
		}
		if _, err := w.Operator().SetPriority(t.Context(), w.post(engine.Order{}).ID, 0, 100, "ann",
			"sooner"); job.KindOf(err) != job.Invalid {
			t.Errorf("priority 100: %v", err)
		}
		w.verify(j.ID)
	})
}

// TestActWithoutAVersionRereads checks that an act without a version applies to the current record, however often it
// changes concurrently. The control with a version fails.
func TestActWithoutAVersionRereads(t *testing.T) {
	for _, c := range []struct {
		name    string
		version bool
		races   int32
		want    job.ErrorKind
	}{{"no version", false, 3, ""}, {"control: a version", true, 1, job.Conflict}, {"control: never quiet", false, 99,
		job.Conflict}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &racer{Store: mem.New()}
				w := start(t, r, engine.Options{}, letters(map[lc.State]engine.Step{"Sorting": blocked}))
				defer w.stop()
				j := w.post(engine.Order{})
				synctest.Wait()
				a := operator.Act{Job: j.ID, Event: "stop", By: lc.Operator, Actor: "ann"}
				if c.version {
					a.Version = w.get(j.ID).Version
				}
				r.left.Store(c.races)
				if _, err := w.Do(t.Context(), a); job.KindOf(err) != c.want {
					t.Errorf("got %v", err)
				}
				r.left.Store(0)
			})
		})
	}
}

// racer changes the record just before an act reads it.
type racer struct {
	job.Store
	left atomic.Int32
}

func (r *racer) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	if c := changes[0]; c.Event == "stop" && r.left.Add(-1) >= 0 {
		p := int(r.left.Load()) % 50
		if _, err := r.Store.Commit(ctx, job.Change{Job: c.Job, Version: c.Version, At: c.At,
			Set: job.Fields{Priority: &p}}); err != nil {
			return nil, err
		}
	}
	return r.Store.Commit(ctx, changes...)
}

// TestIllegalActListsTheMoves checks that the error lists the legal events of the actor.
func TestIllegalActListsTheMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{
			"Sorting": blocked,
			"Posted": func(_ context.Context, r *engine.Run) error {
				if r.Job().Group == "shut" {
					return engine.Go("hold")
				}
				return nil
			},
		}))
		defer w.stop()
		sorting, held := w.post(engine.Order{}), w.post(engine.Order{Group: "shut"})
		synctest.Wait()
		for _, c := range []struct {
			act operator.Act
			can string
		}{
			{operator.Act{Job: sorting.ID, Event: "release", By: lc.Operator, Actor: "ann"}, "(can: stop)"},
			{operator.Act{Job: sorting.ID, Event: "stop", By: lc.Owner, Actor: "ann"}, "(can: nothing)"},
			{operator.Act{Job: held.ID, Event: "retry", By: lc.Operator, Actor: "ann"}, "(can: release, delete)"},
			{operator.Act{Job: held.ID, Event: "explode", By: lc.Operator, Actor: "ann"}, "(can: release, delete)"},
			{operator.Act{Job: sorting.ID, Event: "next", By: lc.Operator, Actor: "ann"}, "only worker may"},
		} {
			before := w.get(c.act.Job)
			_, err := w.Do(t.Context(), c.act)
			var illegal *lc.Illegal
			if job.KindOf(err) != job.Refused || !errors.As(err, &illegal) || !strings.Contains(err.Error(), c.can) {
				t.Errorf("%s: got %v, want %s", c.act.Event, err, c.can)
			}
			if after := w.get(c.act.Job); after.Version != before.Version {
				t.Errorf("%s: the refusal changed the record", c.act.Event)
			}
		}
		if _, err := w.Do(t.Context(), operator.Act{Job: "let_none", Event: "stop",
			By: lc.Operator, Actor: "ann"}); job.KindOf(err) != job.NotFound {
			t.Errorf("no such job: %v", err)
		}
	})
}

// TestAllowIsEnforcedInTheCommit checks that the conditions of Allow must be true at the commit, not only at the call.
func TestAllowIsEnforcedInTheCommit(t *testing.T) {
	for _, c := range []struct {
		name    string
		require job.Require
		want    job.ErrorKind
	}{
		{"refuses", job.Require{ParentIn: []lc.State{"Open"}}, job.Refused},
		{"control: allows", job.Require{ParentIn: []lc.State{"Open", "Emptied"}}, ""},
		{"control: requires nothing", job.Require{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				child := letters(map[lc.State]engine.Step{
					"Riding": func(context.Context, *engine.Run) error { return engine.Fail("axle", errBroken) },
				})
				child.Allow = func(_ context.Context, j *job.Job, a *operator.Act) (job.Require, error) {
					if a.Event == "delete" && !a.Confirm {
						return job.Require{}, job.Errorf(job.Refused, "delete", j.ID, "confirm it")
					}
					return c.require, nil
				}
				w := start(t, mem.New(), engine.Options{}, bagOf(2, "test.letter"), child)
				defer w.stop()
				batch := w.end(w.post(engine.Order{Kind: "test.bag"}).ID)
				page, err := w.store.List(t.Context(), job.Query{Parent: batch.ID})
				if err != nil || len(page.Jobs) != 2 || batch.State != "Emptied" {
					t.Fatalf("%d children of one that is %s, %v", len(page.Jobs), batch.State, err)
				}
				j, err := w.Do(t.Context(), operator.Act{Job: page.Jobs[0].ID, Event: "retry",
					By: lc.Owner, Actor: "ann"})
				if job.KindOf(err) != c.want {
					t.Errorf("got %s, %v", j.State, err)
				}
				if c.want != "" && (!strings.Contains(err.Error(), "Emptied (must be Open)") ||
					w.get(j.ID).State != "Lost") {
					t.Errorf("got %v, it is %s", err, w.get(j.ID).State)
				}
				remove := operator.Act{Job: page.Jobs[1].ID, Event: "delete", By: lc.Operator, Actor: "ann"}
				if _, err := w.Do(t.Context(), remove); job.KindOf(err) != job.Refused {
					t.Errorf("not confirmed: %v", err)
				}
				remove.Confirm = true
				if _, err := w.Do(t.Context(), remove); job.KindOf(err) != c.want {
					t.Errorf("confirmed: %v", err)
				}
			})
		})
	}
}

// TestStopByAnOperatorFencesTheStep checks that the step's context ends at once with the cause, and that its later
// commits are refused.
func TestStopByAnOperatorFencesTheStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended time.Time
		var save error
		w := start(t, mem.New(), engine.Options{Sweep: time.Hour, Lease: time.Hour}, letters(map[lc.State]engine.Step{
			"Sorting": func(ctx context.Context, r *engine.Run) error {
				<-ctx.Done()
				ended = time.Now()
				save = r.Save(context.WithoutCancel(ctx))
				return nil
			},
		}))
		defer w.stop()
		j := w.post(engine.Order{})
		time.Sleep(time.Minute)
		if _, err := w.Do(t.Context(), operator.Act{Job: j.ID, Event: "stop",
			By: lc.Operator, Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !ended.Equal(time.Now()) || job.KindOf(save) != job.Stale {
			t.Errorf("the context ended at %s, now is %s; save: %v", ended, time.Now(), save)
		}
		if j = w.get(j.ID); j.State != "Lost" || j.Claimed() {
			t.Errorf("got %s", j.State)
		}
		w.verify(j.ID)
	})
}

// TestRetryGoesBackToWhereItFailed checks each state in which a job can fail. The counts start again.
func TestRetryGoesBackToWhereItFailed(t *testing.T) {
	for _, origin := range []lc.State{"Posted", "Sorting", "Riding"} {
		t.Run(string(origin), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries, others := 0, 0
				steps := map[lc.State]engine.Step{}
				for _, s := range []lc.State{"Posted", "Sorting", "Riding"} {
					steps[s] = func(_ context.Context, r *engine.Run) error {
						if s != origin {
							others++
							return nil
						}
						if tries++; tries <= 12 {
							return errBroken
						}
						return nil
					}
				}
				w := start(t, mem.New(), engine.Options{}, letters(steps))
				defer w.stop()
				j := w.post(engine.Order{})
				for i := 1; i <= 2; i++ {
					if j = w.end(j.ID); j.State != "Lost" || j.Origin != origin || tries != 5*i {
						t.Fatalf("got %s from %s after %d tries", j.State, j.Origin, tries)
					}
					retried, err := w.Do(t.Context(), operator.Act{Job: j.ID, Event: "retry",
						By: lc.Operator, Actor: "ann"})
					if err != nil || retried.State != origin || retried.Attempts != 0 || retried.Retries != i ||
						retried.Outcome != lc.None || retried.Ended {
						t.Fatalf("got %+v, %v", retried, err)
					}
				}
				if j = w.end(j.ID); j.Outcome != lc.OK || tries != 13 || others != 2 {
					t.Errorf("got %s after %d tries and %d others", j.Outcome, tries, others)
				}
				if _, err := w.Do(t.Context(), operator.Act{Job: j.ID, Event: "retry",
					By: lc.Operator, Actor: "ann"}); job.KindOf(err) != job.Refused {
					t.Errorf("retry of a success: %v", err)
				}
				w.verify(j.ID)
			})
		})
	}
}

// I
func TestRetryAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{"Sorting": func(ctx context.Context,
			r *engine.Run) error {
			if tries++; tries == 1 {
				return blocked(ctx, r)
			}
			return takes(time.Second)(ctx, r)
		}}))
		defer w.stop()
		j := w.end(w.post(engine.Order{Deadline: time.Now().Add(time.Minute)}).ID)
		time.Sleep(time.Minute)
		if _, err := w.Do(t.Context(), operator.Act{Job: j.ID, Event: "retry",
			By: lc.Operator, Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		if j = w.end(j.ID); j.Outcome != lc.OK {
			t.Errorf("a retry was accepted and could not succeed: %s", j.Message)
		}
	})
}

// TestActsWithoutAnActorAreRefused checks that an act of a person needs the person's name. Control: with the name, and
// a timer's event without one.
func TestActsWithoutAnActorAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{"Posted": blocked}))
		defer w.stop()
		id, act := w.post(engine.Order{}).ID, w.Operator()
		do := func(who string, by lc.Actor, e lc.Event) error {
			_, err := w.Do(t.Context(), operator.Act{Job: id, Event: e, By: by, Actor: who})
			return err
		}
		scope := job.Scope{Group: "maps"}
		acts := []func(who string) error{
			func(who string) error { _, err := act.SetPriority(t.Context(), id, 0, 7, who, ""); return err },
			func(who string) error {
				_, err := act.Hold(t.Context(), scope, who, "flood", time.Time{})
				return err
			},
			func(who string) error { _, err := act.Release(t.Context(), scope, who, ""); return err },
			func(who string) error { return do(who, lc.Operator, "hold") },
			func(who string) error {
				_, err := w.Submit(t.Context(), engine.Order{Kind: "test.letter", By: lc.Operator, Actor: who})
				return err
			},
		}
		for i, one := range acts {
			if err := one(""); job.KindOf(err) != job.Invalid || !strings.Contains(err.Error(), "needs an actor") {
				t.Errorf("act %d: got %v", i, err)
			}
			if err := one("ann"); err != nil {
				t.Errorf("control: act %d: got %v", i, err)
			}
		}
		if err := do("", lc.Owner, "release"); job.KindOf(err) != job.Invalid {
			t.Errorf("an owner: got %v", err)
		}
		if err := do("ann", lc.Operator, "release"); err != nil {
			t.Fatal(err)
		}
		if err := do("", lc.Timer, "fail"); err != nil {
			t.Errorf("control: a timer: got %v", err)
		}
	})
}
