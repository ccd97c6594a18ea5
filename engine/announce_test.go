package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// announcing is the letters work with a message for each transition, under the number of its history entry.
func announcing(steps map[lc.State]engine.Step) engine.Work {
	w := letters(steps)
	w.Parks = func(*job.Hold) bool { return true }
	w.Policy = engine.Policy{MaxStarts: 2, MaxAttempts: 3}
	w.Policies = map[lc.State]engine.Policy{"Riding": {Timeout: time.Hour, MaxStarts: 2, MaxAttempts: 3}}
	w.Announce = func(j *job.Job, c *job.Change) []job.Message {
		after, e, err := job.Apply(*j, c)
		if err != nil {
			return nil
		}
		body := fmt.Sprintf("%q", fmt.Sprint(e.Event, " to ", after.State))
		return []job.Message{{Key: fmt.Sprintf("%s/%d", j.ID, e.Seq), Job: j.ID, Topic: "mail", Body: []byte(body),
			Created: c.At, Due: c.At}}
	}
	return w
}

// announced compares the messages of a job with its history, and returns their events.
func (w *harness) announced(id job.ID) string {
	w.t.Helper()
	history, err := w.store.History(w.t.Context(), id, 0, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	var want, words []string
	for _, e := range history[1:] { // its creation is no transition
		want = append(want, fmt.Sprintf("%s/%d %q", id, e.Seq, fmt.Sprint(e.Event, " to ", e.To)))
		words = append(words, string(e.Event))
	}
	var got []string
	for _, m := range w.messages(id) {
		got = append(got, m.Key+" "+string(m.Body))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("%s: (-history +announced)\n%s", id, diff)
	}
	return strings.Join(words, " ")
}

// TestEveryTransitionIsAnnounced checks transitions by a step, its errors, a panic, a timer, an expired lease, a hold,
// a person and a remote worker.
func TestEveryTransitionIsAnnounced(t *testing.T) {
	for name, c := range map[string]struct {
		sorting, riding engine.Step
		then            func(w *harness, id job.ID)
		want            string
	}{
		"success": {want: "begin next finish"},
		"failure": {riding: func(context.Context, *engine.Run) error {
			return engine.Fail("axle", errBroken)
		}, want: "begin next fail"},
		"retries": {riding: func(context.Context, *engine.Run) error {
			return errBroken
		}, want: "begin next backoff backoff fail"},
		"panic": {sorting: func(context.Context, *engine.Run) error { panic("no") }, want: "begin backoff fail"},
		"timeout": {riding: func(context.Context, *engine.Run) error {
			return engine.Wait(job.Blocker{Code: "x", Sentence: "x", Until: time.Now().Add(24 * time.Hour)})
		}, want: "begin next wait fail"},
		"a person": {sorting: takes(time.Hour), want: "begin stop retry next finish",
			then: func(w *harness, id job.ID) {
				time.Sleep(time.Minute)
				for _, ev := range []lc.Event{"stop", "retry"} {
					if _, err := w.Do(w.t.Context(), operator.Act{Job: id, Event: ev, By: lc.Operator,
						Actor: "ann"}); err != nil {
						w.t.Fatal(err)
					}
				}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				steps := map[lc.State]engine.Step{}
				if c.sorting != nil {
					steps["Sorting"] = c.sorting
				}
				if c.riding != nil {
					steps["Riding"] = c.riding
				}
				w := start(t, mem.New(), (&postbox{}).options(), announcing(steps))
				defer w.stop()
				j := w.post(engine.Order{})
				if c.then != nil {
					c.then(w, j.ID)
				}
				w.end(j.ID)
				if got := w.announced(j.ID); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestHoldsAndSilenceAreAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), (&postbox{}).options(), announcing(nil))
		defer w.stop()
		scope := job.Scope{Group: "maps"}
		if _, err := w.Operator().Hold(t.Context(), scope, "ann", "flood", time.Time{}); err != nil {
			t.Fatal(err)
		}
		held := w.post(engine.Order{Group: "maps"})
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := w.announced(held.ID); got != "hold" {
			t.Errorf("got %s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) { // a worker outside takes it and stops renewing its lease
		store := mem.New()
		e, err := engine.New(store, []engine.Work{outward(announcing(nil))}, engine.Options{Name: "other"})
		if err != nil {
			t.Fatal(err)
		}
		j, err := e.Submit(t.Context(), engine.Order{Kind: "test.letter"})
		if err != nil {
			t.Fatal(err)
		}
		if jobs, err := e.Remote().Claim(t.Context(), remote.Claim{Worker: "outside", From: []job.KindState{{Kind: "test.letter", State: "Posted"}}, N: 1, Lease: time.Second}); err != nil || len(jobs) != 1 {
			t.Fatalf("got %v, %v", jobs, err)
		}
		w := start(t, store, (&postbox{}).options(), announcing(nil))
		defer w.stop()
		w.end(j.ID)
		if got := w.announced(j.ID); got != "lost begin next finish" {
			t.Errorf("got %s", got)
		}
	})
}

// TestOutsideWorkersAreAnnounced checks that the reports of remote workers are announced too.
func TestOutsideWorkersAreAnnounced(t *testing.T) {
	e, err := engine.New(mem.New(), []engine.Work{outward(announcing(nil))}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &harness{Engine: e, t: t, store: e.Store()}
	j := w.post(engine.Order{})
	jobs, err := e.Remote().Claim(t.Context(), remote.Claim{Worker: "outside", From: []job.KindState{{Kind: "test.letter", State: "Posted"}}, N: 1, Lease: time.Minute})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("got %v, %v", jobs, err)
	}
	results, err := e.Remote().Report(t.Context(), "outside", jobs, []remote.Report{{Job: j.ID, Epoch: jobs[0].Epoch}})
	if err != nil || results[0].Err != nil {
		t.Fatalf("got %v, %v", results, err)
	}
	if got := w.announced(j.ID); got != "begin" {
		t.Errorf("got %s", got)
	}
}

// TestDeliveriesAreRemembered checks that a message has the time and the error of each delivery, and that a requested
// pause is kept.
func TestDeliveriesAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &postbox{answer: func(nth int) error {
			time.Sleep(time.Second)
			switch nth {
			case 1:
				return engine.RetryAfter(time.Hour, errBroken)
			case 2:
				return engine.Fail("gone", errors.New("no such resident"))
			}
			return nil
		}}
		w := start(t, mem.New(), p.options(), mailing(func(context.Context, *engine.Run) error { return nil }))
		defer w.stop()
		j := w.end(w.post(engine.Order{}).ID)
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		m := w.messages(j.ID)[0]
		if len(p.keys()) != 1 || len(m.Tried) != 1 || m.Tried[0].Took != 1000 ||
			m.Tried[0].Error != errBroken.Error() || !m.Tried[0].At.Equal(j.Entered) {
			t.Errorf("got %v and %+v", p.keys(), m)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		m = w.messages(j.ID)[0]
		if len(m.Tried) != 2 || m.Settled != job.Abandoned || m.Error != "no such resident" ||
			m.Tried[1].Error != m.Error {
			t.Errorf("abandoned: got %+v", m)
		}
	})
}
