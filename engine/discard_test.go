package engine_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// audited returns the audit list.
func (w *harness) audited() []job.Audit {
	w.t.Helper()
	list, err := w.store.Audit(w.t.Context(), 0, 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// TestDiscard checks that an ended job is cleared once at a person's request, by the timer's transition, and that the
// history and the audit list have the person. Another job is kept.
func TestDiscard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := letters(nil)
		work.Keep = 24 * time.Hour
		announced := 0
		work.Announce = func(_ *job.Job, c *job.Change) []job.Message {
			if c.Gone {
				announced++
			}
			return nil
		}
		w := start(t, mem.New(), engine.Options{Sweep: time.Minute}, work)
		defer w.stop()
		j, other := w.end(w.post(engine.Order{}).ID), w.end(w.post(engine.Order{}).ID)
		act := operator.Act{Job: j.ID, By: lc.Owner, Actor: "ada", Note: "no space", Version: j.Version}
		got, err := w.Operator().Discard(t.Context(), act)
		if err != nil || got.State != "Burnt" || !got.Gone {
			t.Fatalf("%+v, %v", got, err)
		}
		history, err := w.store.History(t.Context(), j.ID, 0, 0)
		if last := history[len(history)-1]; err != nil || last.Event != "delete" || last.By != lc.Timer ||
			last.Actor != "ada" || last.Note != "ada (owner) requested it early: no space" {
			t.Errorf("the history ends with %+v, %v", last, err)
		}
		list := w.audited()
		if len(list) != 1 || list[0].Actor != "ada" || list[0].By != lc.Owner || list[0].Event != "delete" ||
			list[0].Object != string(j.ID) || list[0].Note != "no space" {
			t.Errorf("the audit list is %+v", list)
		}
		act.Version = 0
		if again, err := w.Operator().Discard(t.Context(), act); err != nil || again.Version != got.Version {
			t.Errorf("a second time: %+v, %v", again, err)
		}
		if n := len(w.audited()); n != 1 || announced != 1 {
			t.Errorf("%d entries and %d announcements after the second time", n, announced)
		}
		time.Sleep(20 * time.Hour)
		if now := w.get(other.ID); now.Version != other.Version {
			t.Errorf("the other job: %+v", now)
		}
	})
}

// TestDiscardRefused checks that a job is refused that has not ended, that changed concurrently, or that the report of
// its batch still needs. Nothing is audited then.
func TestDiscardRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{"Riding": func(ctx context.Context,
			r *engine.Run) error {
			if r.Job().Group == "slow" {
				return blocked(ctx, r)
			}
			return nil
		}}), sacksOf(time.Hour, "slow", "fast"))
		defer w.stop()
		open := w.post(engine.Order{Group: "slow"})
		ended := w.end(w.post(engine.Order{}).ID)
		batch := w.post(engine.Order{Kind: "test.sack"})
		synctest.Wait()
		page, err := w.store.List(t.Context(), job.Query{Parent: batch.ID, States: []lc.State{"Delivered"}})
		if err != nil || len(page.Jobs) != 1 {
			t.Fatal(page.Jobs, err)
		}
		letter := page.Jobs[0]
		before := len(w.audited())
		for _, c := range []struct {
			what string
			act  operator.Act
			kind job.ErrorKind
			says string
		}{
			{"open", operator.Act{Job: open.ID, Actor: "ada"}, job.Refused, "has not ended"},
			{"seen before", operator.Act{Job: ended.ID, Actor: "ada", Version: 1}, job.Conflict, "changed meanwhile"},
			{"no person", operator.Act{Job: ended.ID}, job.Invalid, "needs an actor"},
			{"unknown", operator.Act{Job: "let_none", Actor: "ada"}, job.NotFound, ""},
			{"of a batch", operator.Act{Job: letter.ID, Actor: "ada"}, job.Refused,
				"has not ended, and the batch's report"},
		} {
			if _, err := w.Operator().Discard(t.Context(), c.act); job.KindOf(err) != c.kind ||
				!strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", c.what, err)
			}
		}
		if n := len(w.audited()); n != before {
			t.Errorf("%d entries of acts that were refused", n-before)
		}
		// the control
		if got, err := w.Operator().Discard(t.Context(), operator.Act{Job: ended.ID, Actor: "ada"}); err != nil ||
			got.State != "Burnt" {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// TestOrderCreated checks that a job of another system keeps the time of its creation. Its history and its retention
// begin now. Without that time it is created now.
func TestOrderCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(nil))
		defer w.stop()
		now, old := time.Now(), time.Now().AddDate(-2, 0, 0)
		for want, o := range map[time.Time]engine.Order{old: {Created: old}, now: {}} {
			j := w.end(w.post(o).ID)
			history, err := w.store.History(t.Context(), j.ID, 0, 0)
			if err != nil || !j.Created.Equal(want) || !j.Entered.Equal(now) ||
				!history[0].At.Equal(now.Truncate(time.Microsecond)) {
				t.Errorf("created %v, ended %v, history from %v, %v; want %v", j.Created, j.Entered, history[0].At, err,
					want)
			}
		}
		if _, err := w.Submit(t.Context(), engine.Order{Kind: "test.letter",
			Created: now.Add(time.Second)}); job.KindOf(err) != job.Invalid {
			t.Errorf("from the future: %v", err)
		}
	})
}
