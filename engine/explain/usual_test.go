package explain_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// sorting makes a harness whose Sorting takes the time in the job's group, and blocks for a group that is no time.
func sorting(t *testing.T) *harness {
	t.Helper()
	work := letters(map[lc.State]engine.Step{"Sorting": func(ctx context.Context, r *engine.Run) error {
		d, err := time.ParseDuration(r.Job().Group)
		if err != nil {
			return blocked(ctx, r)
		}
		return takes(d)(ctx, r)
	}})
	return start(t, mem.New(), engine.Options{Slots: 64}, work)
}

func stuckJobs(t *testing.T, w *harness, q explain.StuckQuery) explain.StuckReport {
	t.Helper()
	r, err := w.Stuck(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func codes(j explain.StuckJob) string {
	var all []string
	for _, r := range j.Reasons {
		all = append(all, r.Code)
	}
	return strings.Join(all, ",")
}

// TestUsualIsThe95thPercentile checks the percentile of the stays of jobs that left the state, the floor, the default
// for fewer than 20 stays, and the cache of a minute.
func TestUsualIsThe95thPercentile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sorting(t)
		defer w.stop()
		usual := func() explain.Usual {
			t.Helper()
			u, err := w.Usual(t.Context(), "test.letter")
			if err != nil {
				t.Fatal(err)
			}
			return u["Sorting"]
		}
		for i := range 19 {
			w.post(engine.Order{Group: fmt.Sprintf("%dm", i+1)})
		}
		time.Sleep(30 * time.Minute)
		if got, want := usual(), (explain.Usual{Limit: time.Hour, Stays: 19}); got != want {
			t.Errorf("19 stays: got %+v, want %+v", got, want)
		}
		w.post(engine.Order{Group: "20m"})
		time.Sleep(59 * time.Second)
		if got := usual(); got.Stays != 19 {
			t.Errorf("it is remembered for a minute: got %+v", got)
		}
		time.Sleep(30 * time.Minute)
		if got := usual(); !got.Known || got.Stays != 20 || got.Limit.Round(time.Second) != 19*time.Minute {
			t.Errorf("20 stays of 1 to 20 minutes: got %+v, want 19m", got)
		}
		for range 400 {
			w.post(engine.Order{Group: "1s"})
		}
		time.Sleep(2 * time.Minute)
		if got := usual(); got.Limit != time.Minute {
			t.Errorf("the floor: got %+v", got)
		}
		if u, _ := w.Usual(t.Context(), "test.letter"); u["Posted"].Limit != time.Minute || len(u) != 4 {
			t.Errorf("every state but the ends: got %+v", u)
		}
		if _, err := w.Usual(t.Context(), "test.nothing"); job.KindOf(err) != job.NotFound {
			t.Errorf("got %v", err)
		}
	})
}

// TestStuckListsTheWorstFirst checks the order, the reasons and the remedies, and that jobs with usual times are not
// listed.
func TestStuckListsTheWorstFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sorting(t)
		defer w.stop()
		for range 40 {
			w.post(engine.Order{Group: "2m"})
		}
		time.Sleep(10 * time.Minute)
		first := w.post(engine.Order{Group: "indefinitely"})
		time.Sleep(5 * time.Minute)
		second := w.post(engine.Order{Group: "indefinitely"})
		w.post(engine.Order{Group: "119s"})
		time.Sleep(110 * time.Second)
		if r := stuckJobs(t, w, explain.StuckQuery{}); len(r.Stuck) != 1 || r.Stuck[0].Job != first.ID {
			t.Errorf("control: got %+v", r.Stuck)
		}
		time.Sleep(5 * time.Minute)
		r := stuckJobs(t, w, explain.StuckQuery{})
		if len(r.Stuck) != 2 || r.Found != 2 || r.Stuck[0].Job != first.ID || r.Stuck[1].Job != second.ID ||
			len(r.Cut) > 0 {
			t.Fatalf("got %+v", r)
		}
		j := r.Stuck[0]
		if codes(j) != explain.StuckSlow || j.State != "Sorting" || j.Usual != 120 || j.Seconds < 700 ||
			j.Basis != "p95 of 41 stays" {
			t.Errorf("got %+v", j)
		}
		if len(j.Blockers) == 0 || j.Blockers[0].Code != explain.BlockClaim || j.Blockers[0].Remedy == "" {
			t.Errorf("why: got %+v", j.Blockers)
		}
		if r := stuckJobs(t, w, explain.StuckQuery{Factor: 10}); len(r.Stuck) != 0 {
			t.Errorf("ten times the usual: got %+v", r.Stuck)
		}
		if r := stuckJobs(t, w, explain.StuckQuery{Limit: 1}); len(r.Stuck) != 1 || r.Found != 2 {
			t.Errorf("one row: got %d of %d", len(r.Stuck), r.Found)
		}
		unknown := explain.StuckQuery{Kinds: []job.Kind{"test.nothing"}}
		if _, err := w.Stuck(t.Context(), unknown); job.KindOf(err) != job.Invalid {
			t.Errorf("got %v", err)
		}
	})
}

// TestStuckFindsWhatTimeForgot checks jobs that are held for long, overdue, or whose lease has expired. The engine is
// stopped, so that its sweep does not move them.
func TestStuckFindsWhatTimeForgot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sorting(t)
		held, silent := w.post(engine.Order{Group: "indefinitely"}), job.Job{}
		if _, err := w.Operator().Hold(t.Context(), job.Scope{Group: "flood"}, "ann", "flood",
			time.Time{}); err != nil {
			t.Fatal(err)
		}
		held = w.post(engine.Order{Group: "flood"})
		put := w.post(engine.Order{Group: "flood"})
		if _, err := w.Do(t.Context(), operator.Act{Job: put.ID, Event: "hold",
			By: lc.Operator, Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.stop()
		now := w.Clock().Now()
		silent = w.post(engine.Order{})
		claimed, err := w.store.Claim(t.Context(), job.Claim{Worker: "other/1",
			From: []job.KindState{{Kind: "test.letter", State: "Posted"}}, N: 1, Now: now, Lease: time.Minute})
		if err != nil || len(claimed) != 1 || claimed[0].ID != silent.ID {
			t.Fatalf("got %+v, %v", claimed, err)
		}
		overdue := w.post(engine.Order{Deadline: now.Add(time.Minute)})
		want := map[job.ID]string{silent.ID: explain.StuckSilent, overdue.ID: explain.StuckOverdue}
		check := func(when string) {
			t.Helper()
			got := map[job.ID]string{}
			for _, j := range stuckJobs(t, w, explain.StuckQuery{}).Stuck {
				if _, of := want[j.Job]; of || j.Job == held.ID || j.Job == put.ID {
					got[j.Job] = codes(j)
				}
			}
			for id, code := range want {
				if !strings.Contains(got[id], code) {
					t.Errorf("%s: %s is %q, want %s", when, id, got[id], code)
				}
			}
			for id, code := range got {
				if want[id] == "" {
					t.Errorf("%s: %s is %q", when, id, code)
				}
			}
		}
		time.Sleep(2 * time.Minute)
		check("after two minutes")
		want[held.ID], want[put.ID] = explain.StuckHeld, explain.StuckHeld
		time.Sleep(8 * 24 * time.Hour)
		check("after eight days")
	})
}

// TestStuckListsMessages checks that abandoned messages are listed without their bodies.
func TestStuckListsMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sorting(t)
		defer w.stop()
		j := w.post(engine.Order{Group: "indefinitely"})
		m := job.Message{Key: "k", Job: j.ID, Topic: "mail", Body: []byte(`"secret"`), Created: w.Clock().Now(),
			Due: w.Clock().Now().Add(time.Hour)}
		if _, err := w.SubmitAll(t.Context(), engine.Order{Kind: "test.letter", Outbox: []job.Message{m},
			Group: "1s"}); err != nil {
			t.Fatal(err)
		}
		if r := stuckJobs(t, w, explain.StuckQuery{}); len(r.Messages) != 0 {
			t.Errorf("control: got %+v", r.Messages)
		}
		m.Settled, m.Error = job.Abandoned, "no such address"
		if err := w.store.Settle(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		r := stuckJobs(t, w, explain.StuckQuery{Kinds: []job.Kind{"test.letter"}})
		if len(r.Messages) != 1 || r.Messages[0].Key != "k" || r.Messages[0].Error == "" || r.Messages[0].Body != nil {
			t.Errorf("got %+v", r.Messages)
		}
	})
}

// TestExpect: a job that waits or works states its usual step and its end once 20 others ended well. It states nothing
// before, under a hold, or when it has ended.
func TestExpect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sorting(t)
		defer w.stop()
		expect := func(id job.ID) api.Expected {
			t.Helper()
			x, err := w.Expect(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return x
		}
		for i := range 19 {
			w.post(engine.Order{Group: fmt.Sprintf("%dm", i+1)})
		}
		time.Sleep(30 * time.Minute)
		early := w.post(engine.Order{Group: "20m"})
		time.Sleep(time.Minute)
		if x := expect(early.ID); x.StepMS != 0 || !x.Finish.IsZero() || x.Longer {
			t.Errorf("after 19 others: got %+v", x)
		}
		time.Sleep(30 * time.Minute)
		late := w.post(engine.Order{Group: "90m"})
		time.Sleep(time.Minute)
		if x := expect(late.ID); time.Duration(x.StepMS)*time.Millisecond != 10*time.Minute ||
			x.Finish.Sub(x.At).Round(time.Minute) != 9*time.Minute || x.Longer {
			t.Errorf("after 20 others of 1 to 20 minutes, in the second minute: got %+v", x)
		}
		if _, err := w.Operator().Hold(t.Context(), job.Scope{Job: late.ID}, "ann", "x", time.Time{}); err != nil {
			t.Fatal(err)
		}
		if x := expect(late.ID); x.StepMS != 0 || !x.Finish.IsZero() {
			t.Errorf("under a hold: got %+v", x)
		}
		if _, err := w.Operator().Release(t.Context(), job.Scope{Job: late.ID}, "ann", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		if x := expect(late.ID); !x.Finish.IsZero() || !x.Longer {
			t.Errorf("longer than all others: got %+v", x)
		}
		if x := expect(early.ID); x.StepMS != 0 || !x.Finish.IsZero() || x.Longer {
			t.Errorf("a job that has ended: got %+v", x)
		}
		if _, err := w.Expect(t.Context(), "let_none"); job.KindOf(err) != job.NotFound {
			t.Errorf("got %v", err)
		}
	})
}
