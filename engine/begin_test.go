package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// cramped is a store whose disk is full for a number of writes.
type cramped struct {
	*mem.Store
	left int
	err  error
}

func (c *cramped) KeepClock(ctx context.Context, k job.KeptClock) error {
	if c.left > 0 {
		c.left--
		return c.err
	}
	return c.Store.KeepClock(ctx, k)
}

// TestFullDiskAtTheStart checks that the engine begins once the store accepts writes. Control: another error ends Run.
func TestFullDiskAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := &job.Error{Op: "store", Kind: job.Unavailable, Err: &job.Full{Dir: "/srv"}}
		w := start(t, &cramped{Store: mem.New(), left: 3, err: full}, engine.Options{}, letters(nil))
		defer w.stop()
		j := w.post(engine.Order{})
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := w.get(j.ID); got.State == "Posted" {
			t.Errorf("it is still %s", got.State)
		}
		down := &cramped{Store: mem.New(), left: 1, err: job.Errorf(job.Unavailable, "store", "",
			"the store has stopped")}
		e, err := engine.New(down, []engine.Work{letters(nil)}, engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Run(t.Context()); job.KindOf(err) != job.Unavailable {
			t.Errorf("control: got %v", err)
		}
	})
}
