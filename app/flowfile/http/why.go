package flowhttp

import (
	"context"
	"fmt"
	"slices"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
)

// whyFlow tells of each task of a flow what it waits for and how that is ended, in place of the one sentence that the engine has for the flow.
func (s *Handlers) whyFlow(ctx context.Context, x *explain.Explanation) error {
	at := slices.IndexFunc(x.Blockers, func(b engine.Blocker) bool {
		return b.Code == durable.BlockSignal || b.Code == durable.BlockTime || b.Code == durable.BlockSuspended
	})
	if x.Kind != durable.Kind || at < 0 || s.Flows == nil {
		return nil
	}
	if x.Blockers[at].Code == durable.BlockSuspended {
		x.Blockers[at].Remedy = fmt.Sprintf("stagepost flow resume %s goes on with it (the event run)", x.Job)
		return nil
	}
	v, err := s.Flows.View(ctx, s.Store, x.Job)
	if err != nil {
		return err
	}
	var waiting []engine.Blocker
	for i := range v.Atoms {
		if a := &v.Atoms[i]; a.Waits && a.State == flow.Running && !a.Removed {
			waiting = append(waiting, whyAtom(v, a))
		}
	}
	if len(waiting) > 0 { // else it has moved on meanwhile
		x.Blockers = slices.Replace(x.Blockers, at, at+1, waiting...)
	}
	return nil
}

// whyAtom says what a task waits for.
func whyAtom(v *durable.View, rec *durable.Atom) engine.Blocker {
	a := viewAtom(rec, false)
	b := engine.Blocker{Code: durable.BlockTime, Sentence: a.Name + " " + a.Says(), Since: a.Began, Until: a.Due, Holder: "a timer"}
	switch {
	case a.Awaits != "":
		b.Code, b.Holder = durable.BlockSignal, "whoever sends the signal"
		b.Remedy = fmt.Sprintf("stagepost flow signal %s %s VALUE", v.Job.ID, a.Awaits)
	case a.Failure != nil:
		b.Since, b.Remedy = a.Ended, "mend the reason, or wait"
	}
	return b
}
