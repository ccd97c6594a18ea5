package explain

import (
	"context"
	"slices"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
)

// unforeseeable are the blockers whose end no measurement foresees.
var unforeseeable = []string{cause.Hold, BlockPerson, BlockStorage}

// Expect states when an open job should end, from the durations of other jobs of its kind; for a batch, from the pace
// of its own jobs. It states nothing if too few were measured, or if a person has to act first.
func (e *Explainer) Expect(ctx context.Context, id job.ID) (api.Expected, error) {
	j, err := e.store.Get(ctx, id)
	if err != nil {
		return api.Expected{}, err
	}
	now := e.engine.Clock().Now()
	x := api.Expected{Job: j.ID, At: now}
	if j.Ended || e.engine.Work(j.Kind) == nil {
		return x, nil
	}
	why, err := e.Why(ctx, id, time.Time{})
	if err != nil {
		return x, err
	}
	if slices.ContainsFunc(why.Blockers, func(b job.Blocker) bool { return slices.Contains(unforeseeable, b.Code) }) {
		return x, nil
	}
	if c := j.Children; c.Expected > 0 {
		done := c.Created() - c.Open
		if took := now.Sub(j.Created); done >= usualLeast && took > 0 {
			left := max(c.Expected-done, 0)
			x.Finish = now.Add(time.Duration(float64(took) / float64(done) * float64(left)))
		}
		return x, nil
	}
	usual, err := e.Usual(ctx, j.Kind)
	if err != nil {
		return x, err
	}
	of := usual[j.State]
	x.StepMS = of.Typical.Milliseconds()
	if finish := j.Entered.Add(of.Rest); of.Rest > 0 && finish.After(now) {
		x.Finish = finish
	}
	x.Longer = of.Known && now.Sub(j.Entered) > of.Limit
	return x, nil
}
