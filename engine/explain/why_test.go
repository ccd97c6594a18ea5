package explain_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/engine/status"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

func (w *harness) why(id job.ID) api.Explanation {
	w.t.Helper()
	x, err := w.Why(w.t.Context(), id, time.Time{})
	if err != nil {
		w.t.Fatal(err)
	}
	return x
}

// blocker returns the only blocker of a job, which must have the code.
func (w *harness) blocker(id job.ID, code string) job.Blocker {
	w.t.Helper()
	x := w.why(id)
	if len(x.Blockers) != 1 || x.Blockers[0].Code != code {
		w.t.Fatalf("got %+v, want the one blocker %s", x.Blockers, code)
	}
	return x.Blockers[0]
}

// fits checks a blocker's parts. since and until are times after began; -1 stands for no time.
func fits(t *testing.T, b job.Blocker, began time.Time, since, until time.Duration, holder, sentence, remedy string) {
	t.Helper()
	at := func(d time.Duration) time.Time {
		if d < 0 {
			return time.Time{}
		}
		return began.Add(d)
	}
	if !b.Since.Equal(at(since)) || !b.Until.Equal(at(until)) {
		t.Errorf("%s: since %s until %s, want %s, %s", b.Code, b.Since.Sub(began), b.Until.Sub(began), since, until)
	}
	can := b.Remedy
	for _, r := range b.Remedies {
		can += "\n" + r.Command + "\n" + r.Method + " " + r.Path
	}
	if b.Holder != holder || !strings.Contains(b.Sentence, sentence) || !strings.Contains(can, remedy) {
		t.Errorf("%s: holder %q, sentence %q, remedies %q", b.Code, b.Holder, b.Sentence, can)
	}
}

func TestWhyHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(nil))
		defer w.stop()
		began := time.Now()
		if _, err := w.Operator().Hold(t.Context(), job.Scope{Group: "maps"}, "ann", "flood",
			began.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := w.Operator().Hold(t.Context(), job.Scope{}, "ben", "fire", time.Time{}); err != nil {
			t.Fatal(err)
		}
		j := w.post(engine.Order{Group: "maps"})
		x := w.why(j.ID)
		if len(x.Blockers) != 2 {
			t.Fatalf("two holds concern it, got %+v", x.Blockers)
		}
		fits(t, x.Blockers[0], began, 0, time.Hour, "ann", "group=maps is on hold: flood",
			"stagepost release --group maps\nDELETE /api/v1/holds?group=maps")
		fits(t, x.Blockers[1], began, time.Minute, -1, "ben", "everything is on hold: fire",
			"stagepost admin resume\nDELETE /api/v1/holds?everything=true")
		if _, err := w.Operator().Release(t.Context(), job.Scope{}, "ann", "over"); err != nil {
			t.Fatal(err)
		}
		w.blocker(j.ID, cause.Hold)
		time.Sleep(time.Hour)
		if x := w.why(j.ID); blocks(x, cause.Hold) {
			t.Errorf("the hold is over: %+v", x.Blockers)
		}
	})
}

func TestWhyDueAndBackoffAndReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{"Sorting": func(_ context.Context,
			r *engine.Run) error {
			if r.Job().Group == "failing" {
				return engine.RetryAfter(time.Hour, errBroken)
			}
			return engine.Wait(job.Blocker{Code: "snow", Sentence: "the pass is shut",
				Until: r.Now().Add(2 * time.Hour)})
		}}))
		defer w.stop()
		began := time.Now()
		later := w.post(engine.Order{Due: began.Add(30 * time.Minute)})
		failing, waiting := w.post(engine.Order{Group: "failing"}), w.post(engine.Order{})
		time.Sleep(time.Minute)
		fits(t, w.blocker(later.ID, explain.BlockDue), began, 0, 30*time.Minute, "a timer", "not due before", "")
		fits(t, w.blocker(failing.ID, explain.BlockDue), began, 0, time.Hour, "a timer",
			"attempt 1 failed (the axle broke)", "stagepost logs "+string(failing.ID))
		fits(t, w.blocker(waiting.ID, "snow"), began, 0, 2*time.Hour, "a timer", "the pass is shut", "")
		if x := w.why(failing.ID); x.Attempts != "1 of 5 attempts in this state failed" {
			t.Errorf("got %q", x.Attempts)
		}
	})
}

func TestWhyClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{"Sorting": func(ctx context.Context,
			r *engine.Run) error {
			r.Progress(3, 10, "letters")
			return blocked(ctx, r)
		}}))
		defer w.stop()
		began := time.Now()
		j := w.post(engine.Order{})
		time.Sleep(12 * time.Second)
		b := w.blocker(j.ID, explain.BlockClaim)
		fits(t, b, began, 0, 25*time.Second, w.Status().Worker, "is at work on Sorting, 3 of 10 letters done",
			"another worker takes over")
		if p, ok := w.Progress(j.ID); !ok || p.State != "Sorting" || p.Done != 3 || !p.At.Equal(began) {
			t.Errorf("got %+v, %v", p, ok)
		}
		if _, err := w.Do(t.Context(), operator.Act{Job: j.ID, Event: "stop",
			By: lc.Operator, Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, ok := w.Progress(j.ID); ok {
			t.Error("there is progress of a job that has ended")
		}
	})
}

func TestWhyLimitBusyBehindStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := letters(map[lc.State]engine.Step{"Posted": takes(time.Hour)})
		work.Limits = []job.Limit{{Name: "per owner", Kind: "test.letter", Guard: []lc.State{"Posted"}, PerOwner: true,
			Max: 1}}
		w := start(t, mem.New(), engine.Options{Slots: 2}, work)
		began := time.Now()
		w.post(engine.Order{Owner: "ann"})
		synctest.Wait()
		second := w.post(engine.Order{Owner: "ann"})
		synctest.Wait()
		fits(t, w.blocker(second.ID, explain.BlockLimit), began, -1, -1, "per owner",
			"1 of 1 are under way by the limit per owner", "raise the limit")
		w.post(engine.Order{Owner: "ben"})
		synctest.Wait()
		third := w.post(engine.Order{Owner: "cid"})
		fits(t, w.blocker(third.ID, explain.BlockBusy), began, -1, -1, w.Status().Worker, "all 2 slots are taken",
			"more slots")
		if x := w.why(second.ID); len(x.Blockers) != 2 || !blocks(x, explain.BlockLimit) ||
			!blocks(x, explain.BlockBusy) {
			t.Errorf("every reason, not the first: got %+v", x.Blockers)
		}
		w.stop()
		b := w.blocker(third.ID, cause.Stopped)
		fits(t, b, began, -1, -1, w.Status().Worker, "no worker takes jobs", "stagepost admin health")
	})
}

// TestWhyImpaired checks that an impairment of the server is a reason for every job that has not ended.
func TestWhyImpaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var in *status.Impairment
		work := letters(map[lc.State]engine.Step{"Posted": takes(time.Hour)})
		w := start(t, mem.New(), engine.Options{Impaired: func() *status.Impairment { return in }}, work)
		defer w.stop()
		j := w.post(engine.Order{})
		synctest.Wait()
		if x := w.why(j.ID); blocks(x, explain.BlockStorage) ||
			!slices.Contains(x.Not, "the server's storage accepts writes") {
			t.Errorf("control: got %+v", x)
		}
		since := time.Now()
		in = &status.Impairment{Since: since, Err: &job.Full{Dir: "/srv", Free: 0}}
		x := w.why(j.ID)
		i := slices.IndexFunc(x.Blockers, func(b job.Blocker) bool { return b.Code == explain.BlockStorage })
		if i < 0 {
			t.Fatalf("got %+v", x.Blockers)
		}
		fits(t, x.Blockers[i], since, 0, -1, "the storage of the server", "storage full: /srv has 0 bytes free",
			"stagepost admin health")
	})
}

// TestWhyBehind checks the last of three jobs that wait for two free slots: the reason has the jobs before it. The hold
// is released in the store alone, so that the engine finds it at its next sweep.
func TestWhyBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{Slots: 2, Sweep: time.Hour}, letters(nil))
		defer w.stop()
		if _, err := w.Operator().Hold(t.Context(), job.Scope{}, "ann", "flood", time.Time{}); err != nil {
			t.Fatal(err)
		}
		last := w.post(engine.Order{Priority: new(9)})
		first, second := w.post(engine.Order{Priority: new(1)}), w.post(engine.Order{Priority: new(1)})
		synctest.Wait()
		if _, err := w.store.Release(t.Context(), job.Hold{}); err != nil {
			t.Fatal(err)
		}
		fits(t, w.blocker(last.ID, explain.BlockBehind), time.Now(), -1, -1, w.Status().Worker, "2 others go first",
			"stagepost priority 0 "+string(last.ID))
		for _, j := range []job.Job{first, second} {
			if x := w.why(j.ID); len(x.Blockers) != 0 {
				t.Errorf("it is next, and yet %+v", x.Blockers)
			}
		}
	})
}

func TestWhyPersonTimerOutside(t *testing.T) {
	life := lc.Must("test.visit",
		lc.OnQueue("Rung", "a guest comes, a servant opens", lc.OnPass("open", "Seated", lc.Worker, "the door is open"),
			lc.OnFail("fail", "Away", lc.Worker, "the addressee is away")),
		lc.OnWait("Seated", "the guest has a seat until the tea is cold",
			lc.OnPass("serve", "Served", lc.Operator, "tea is there"), lc.OnFail("leave", "Away", lc.Timer,
				"the tea is cold")),
		lc.OnWait("Served", "the guest drinks until the carriage comes",
			lc.OnPass("go", "Away2", lc.Engine, "the carriage is there")),
		lc.OnEnd("Away", lc.Failed, "the guest is away"), lc.OnEnd("Away2", lc.OK, "the guest is away"),
	)
	synctest.Test(t, func(t *testing.T) {
		visits := engine.Work{Life: life, Prefix: "vis",
			Policies: map[lc.State]engine.Policy{"Seated": {Timeout: time.Hour}},
			Steps: map[lc.State]engine.Step{"Rung": func(_ context.Context, r *engine.Run) error {
				r.SetMessage("the tea is not made")
				return nil
			}}}
		w := start(t, mem.New(), engine.Options{}, visits, letters(map[lc.State]engine.Step{
			"Posted": func(context.Context, *engine.Run) error { return engine.Go("hold") },
		}))
		defer w.stop()
		began := time.Now()
		letter, visit := w.post(engine.Order{}), w.post(engine.Order{Kind: "test.visit"})
		time.Sleep(time.Minute)
		fits(t, w.blocker(letter.ID, explain.BlockPerson), began, 0, -1, "operator", "Held: its town is shut",
			"stagepost release "+string(letter.ID))
		fits(t, w.blocker(visit.ID, explain.BlockTimer), began, 0, time.Hour, "a timer", "Seated lasts until",
			"stagepost event serve "+string(visit.ID))
		fits(t, w.blocker(visit.ID, explain.BlockTimer), began, 0, time.Hour, "a timer", ": the tea is not made", "")
		if _, err := w.Do(t.Context(), operator.Act{Job: visit.ID, Event: "serve",
			By: lc.Operator, Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		fits(t, w.blocker(visit.ID, explain.BlockOutside), began, time.Minute, -1, "",
			"Served waits for something outside", "")
	})
}

func TestWhyChildrenAndGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		gated := letters(nil)
		gated.Gates = map[lc.State]engine.Gate{"Riding": func(context.Context, *job.Job) *job.Blocker {
			return &job.Blocker{Code: "space", Sentence: "3 GB are missing", Since: began, Holder: "the disk",
				Remedy: "free space"}
		}}
		w := start(t, mem.New(), engine.Options{}, bagOf(2, "test.letter"), gated)
		defer w.stop()
		batch := w.post(engine.Order{Kind: "test.bag"})
		time.Sleep(time.Minute + 2*time.Second) // between two checks of the gate
		synctest.Wait()
		fits(t, w.blocker(batch.ID, cause.Children), began, 0, 24*time.Hour, "the jobs of the batch",
			"2 of 2 jobs have not ended", "stagepost list --open --parent "+string(batch.ID))
		page, err := w.store.List(t.Context(), job.Query{Parent: batch.ID})
		if err != nil || len(page.Jobs) != 2 {
			t.Fatal(err)
		}
		x := w.why(page.Jobs[0].ID)
		if !blocks(x, "space") || page.Jobs[0].State != "Riding" {
			t.Errorf("got %+v", x.Blockers)
		}
		for _, b := range x.Blockers {
			if b.Holder == "the disk" {
				fits(t, b, began, 0, -1, "the disk", "3 GB are missing", "free space")
			}
		}
	})
}

// TestWhyEnded checks the entries since the last success, the rule, and the remaining events with their actors.
func TestWhyEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := letters(map[lc.State]engine.Step{"Riding": func(context.Context, *engine.Run) error {
			return errBroken
		}})
		work.Policy.MaxAttempts = 2
		w := start(t, mem.New(), engine.Options{}, work)
		defer w.stop()
		j := w.end(w.post(engine.Order{}).ID)
		x := w.why(j.ID)
		fits(t, w.blocker(j.ID, explain.BlockEnded), j.Entered, 0, -1, "", "the axle broke",
			"stagepost retry "+string(j.ID))
		var chain []lc.Event
		for _, h := range x.Chain {
			chain = append(chain, h.Event)
		}
		if diff := cmp.Diff([]lc.Event{"next", lc.Backoff, "fail"}, chain); diff != "" {
			t.Errorf("chain (-want +got):\n%s", diff)
		}
		if x.Rule != "Riding -fail-> Lost: the axle broke [error]" {
			t.Errorf("rule %q", x.Rule)
		}
		again := job.Causing("retry", j.ID, false, "try again where it went wrong")
		away := job.Causing("delete", j.ID, false, "it is not needed")
		want := []api.Move{
			{Event: "retry", To: "Riding", By: lc.Operator | lc.Owner, Doc: again.Doc, Remedy: &again},
			{Event: "delete", To: "Burnt", By: lc.Operator | lc.Timer, Doc: away.Doc, Remedy: &away},
		}
		if diff := cmp.Diff(want, x.Moves); diff != "" {
			t.Errorf("moves (-want +got):\n%s", diff)
		}
		gone, err := w.Do(t.Context(), operator.Act{Job: j.ID, Event: "delete", By: lc.Operator, Actor: "ann"})
		if err != nil || len(w.why(gone.ID).Moves) != 0 {
			t.Errorf("a tombstone has moves: %v", err)
		}
	})
}

// TestWhyThen checks past moments, which are explained from the history.
func TestWhyThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{
			"Sorting": func(ctx context.Context, r *engine.Run) error {
				if r.Job().Cause == "" {
					return engine.Wait(job.Blocker{Code: "snow", Sentence: "the pass is shut",
						Until: r.Now().Add(time.Hour)})
				}
				return takes(10*time.Minute)(ctx, r)
			},
			"Riding": func(context.Context, *engine.Run) error { return engine.Fail("axle", errBroken) },
		}))
		defer w.stop()
		time.Sleep(time.Minute)
		began := time.Now()
		j := w.end(w.post(engine.Order{Due: began.Add(10 * time.Minute)}).ID)
		for _, c := range []struct {
			after    time.Duration
			state    lc.State
			code     string
			sentence string
			holder   string
			moves    int
		}{
			{5 * time.Minute, "Posted", "create", "begin by worker moved it to Sorting", w.Status().Worker, 3},
			{30 * time.Minute, "Sorting", "snow", "the pass is shut", "", 3},
			{2 * time.Hour, "Lost", "axle", "the axle broke", "", 2},
		} {
			x, err := w.Why(t.Context(), j.ID, began.Add(c.after))
			if err != nil || len(x.Blockers) == 0 || !x.At.Equal(began.Add(c.after)) {
				t.Fatalf("after %s: %+v, %v", c.after, x, err)
			}
			b := x.Blockers[0]
			if x.Position.State != c.state || b.Code != c.code || b.Holder != c.holder ||
				!strings.Contains(b.Sentence, c.sentence) || len(x.Moves) != c.moves {
				t.Errorf("after %s: %s, %+v, %d moves", c.after, x.Position.State, b, len(x.Moves))
			}
			if (len(x.Chain) > 0) != (c.state == "Lost") {
				t.Errorf("after %s: chain %v", c.after, x.Chain)
			}
		}
		if _, err := w.Why(t.Context(), j.ID, began.Add(-time.Second)); job.KindOf(err) != job.NotFound {
			t.Errorf("before it was created: %v", err)
		}
		if _, err := w.Why(t.Context(), "let_none", time.Time{}); job.KindOf(err) != job.NotFound {
			t.Errorf("no such job: %v", err)
		}
	})
}

// TestWhyKnowsItsKinds checks the error for a job of a kind that the engine does not have.
func TestWhyKnowsItsKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		w := start(t, store, engine.Options{Name: "notes"}, notes())
		w.stop()
		j := w.post(engine.Order{Kind: "test.note"})
		other := start(t, store, engine.Options{Name: "letters"}, letters(nil))
		defer other.stop()
		if _, err := other.Why(t.Context(), j.ID, time.Time{}); job.KindOf(err) != job.Refused ||
			!strings.Contains(err.Error(), "test.note") {
			t.Errorf("why: %v", err)
		}
		if _, err := other.Do(t.Context(), operator.Act{Job: j.ID, Event: "send",
			By: lc.Operator, Actor: "ann"}); job.KindOf(err) != job.Refused {
			t.Errorf("do: %v", err)
		}
		if got := fmt.Sprint(other.Kinds()); got != "[test.letter]" {
			t.Errorf("kinds %s", got)
		}
	})
}

// TestWhyClaimSince checks that the time of a claim is that of the claim, not of the creation of the job.
func TestWhyClaimSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{"Posted": blocked}))
		defer w.stop()
		if _, err := w.Operator().Hold(t.Context(), job.Scope{}, "ann", "flood", time.Time{}); err != nil {
			t.Fatal(err)
		}
		j := w.post(engine.Order{})
		time.Sleep(time.Hour)
		claimed := time.Now()
		if _, err := w.Operator().Release(t.Context(), job.Scope{}, "ann", "over"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if b := w.blocker(j.ID, explain.BlockClaim); !b.Since.Equal(claimed) {
			t.Errorf("claimed %s ago, why reports %s", time.Since(claimed), time.Since(b.Since))
		}
	})
}

// TestWhyWaitAfterAttempts checks that a wait after failed attempts is reported as a wait.
func TestWhyWaitAfterAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{"Posted": func(_ context.Context,
			r *engine.Run) error {
			if r.Job().Attempts == 0 {
				return errBroken
			}
			return engine.Wait(job.Blocker{Code: "snow", Sentence: "the pass is shut", Until: r.Now().Add(time.Hour)})
		}}))
		defer w.stop()
		j := w.post(engine.Order{})
		time.Sleep(time.Minute)
		w.blocker(j.ID, "snow")
	})
}

// TestWhyReportsWhatARuleRefuses checks that an event that the lifecycle has and the application's rule forbids has the
// reason that Do returns, and only while the rule forbids it.
func TestWhyReportsWhatARuleRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forbidden := true
		work := letters(map[lc.State]engine.Step{
			"Riding": func(context.Context, *engine.Run) error { return engine.Fail("axle", errBroken) },
		})
		work.Allow = func(_ context.Context, j *job.Job, a *operator.Act) (job.Require, error) {
			if a.Event == "retry" && forbidden {
				return job.Require{}, job.Errorf(job.Refused, "retry", j.ID, "the axle is still broken")
			}
			return job.Require{}, nil
		}
		w := start(t, mem.New(), engine.Options{}, work)
		defer w.stop()
		j := w.end(w.post(engine.Order{}).ID)
		refusals := func() map[lc.Event]string {
			x, err := w.Why(t.Context(), j.ID, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			reported := map[lc.Event]string{}
			for _, m := range x.Moves {
				reported[m.Event] = m.Refused
			}
			return reported
		}
		if got := refusals(); got["retry"] != "the axle is still broken" || got["delete"] != "" || len(got) != 2 {
			t.Errorf("got %q", got)
		}
		if _, err := w.Do(t.Context(), operator.Act{Job: j.ID, Event: "retry",
			By: lc.Owner, Actor: "ann"}); job.KindOf(err) != job.Refused {
			t.Errorf("why and Do disagree: got %v", err)
		}
		forbidden = false
		if got := refusals(); got["retry"] != "" {
			t.Errorf("control: nothing forbids it any more; got %q", got)
		}
	})
}
