package explain_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
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
