package explain_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"

	lc "github.com/stagepost/stagepost/lifecycle"
)

// unread is a store whose audit log may be read for the entries of holds alone.
type unread struct{ *mem.Store }

func (unread) Audit(context.Context, int64, int) ([]job.Audit, error) {
	return nil, errors.New("the whole audit log is read")
}

// TestWhyThenHolds: the holds of a past moment are those that were put before it and not released, also if the clock
// was set back between. The other entries of the audit log are not read.
func TestWhyThenHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, unread{mem.New()}, engine.Options{}, letters(map[lc.State]engine.Step{"Posted": blocked}))
		defer w.stop()
		hold := func(group string, at time.Time) {
			t.Helper()
			if _, err := w.store.Hold(t.Context(), job.Hold{Scope: job.Scope{Group: group}, Who: "ann", Why: "flood",
				Since: at}); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		hold("maps", began.Add(time.Hour)) // the clock is set back afterwards
		hold("maps", began)
		hold("other", began)
		j := w.post(engine.Order{Group: "maps"})
		time.Sleep(time.Minute)
		released := job.Hold{Scope: job.Scope{Group: "maps"}, Who: "ann", Since: time.Now()}
		if _, err := w.store.Release(t.Context(), released); err != nil {
			t.Fatal(err)
		}
		for after, want := range map[time.Duration]bool{time.Second: true, 2 * time.Minute: false} {
			x, err := w.Why(t.Context(), j.ID, began.Add(after))
			if err != nil || blocks(x, cause.Hold) != want {
				t.Errorf("after %s: %+v, %v, want held: %v", after, x.Blockers, err, want)
			}
		}
	})
}

// TestWhyThenStay: the time of a state is that of its entry, whatever was entered since, and the entry that moved the
// job is the next one that changed the state. A failed attempt before the moment is stated, and what is not recorded.
func TestWhyThenStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{
			"Posted": func(_ context.Context, r *engine.Run) error {
				if r.Job().Attempts == 0 {
					return errBroken
				}
				return nil
			},
		}))
		defer w.stop()
		began := time.Now()
		j := w.post(engine.Order{})
		time.Sleep(100 * time.Millisecond) // of virtual time: the first attempt fails
		failed := time.Now()
		time.Sleep(time.Millisecond)
		first := w.why(j.ID)
		if !first.Entered.Equal(j.Entered) {
			t.Errorf("now: entered %s, want %s", first.Entered, j.Entered)
		}
		if _, err := w.Operator().SetPriority(t.Context(), j.ID, 0, 9, "ann", "urgent"); err != nil {
			t.Fatal(err)
		}
		w.end(j.ID)
		x, err := w.Why(t.Context(), j.ID, failed)
		if err != nil || len(x.Blockers) != 2 || !x.Entered.Equal(began) || len(x.Unknown) == 0 {
			t.Fatalf("got %+v, %v", x, err)
		}
		if b := x.Blockers[0]; b.Code != explain.BlockDue || !strings.Contains(b.Sentence, errBroken.Error()) {
			t.Errorf("the attempt: %+v", b)
		}
		if b := x.Blockers[1]; !b.Since.Equal(began) || !strings.Contains(b.Sentence, "moved it to Sorting") ||
			strings.Contains(b.Sentence, "priority") {
			t.Errorf("the state: %+v", b)
		}
	})
}
