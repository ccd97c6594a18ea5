package flowhttp

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
)

// whyFlow reports each task of a flow what it waits for and how that is ended, in place of the one sentence that the
// engine has for the flow.
func (s *Handlers) whyFlow(ctx context.Context, x *api.Explanation) error {
	at := slices.IndexFunc(x.Blockers, func(b job.Blocker) bool {
		return b.Code == durable.BlockSignal || b.Code == durable.BlockTime || b.Code == durable.BlockSuspended
	})
	if x.Kind != durable.Kind || at < 0 || s.Flows == nil {
		return nil
	}
	if x.Blockers[at].Code == durable.BlockSuspended {
		x.Blockers[at].Remedies = []job.Remedy{{
			Doc: "continues the flow", Command: "stagepost flow resume " + string(x.Job), Method: "POST",
			Path: "/api/v1/jobs/" + string(x.Job) + "/events/run",
		}}
		return nil
	}
	v, err := s.Flows.View(ctx, s.Store, x.Job)
	if err != nil {
		return err
	}
	var waiting []job.Blocker
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

// whyAtom states what a task waits for.
func whyAtom(v *durable.View, rec *durable.Atom) job.Blocker {
	a := viewAtom(rec, false)
	b := job.Blocker{Code: durable.BlockTime, Sentence: a.Name + " " + a.Notes(), Since: a.Began, Until: a.Due,
		Holder: "a timer"}
	switch {
	case a.Awaits != "":
		b.Code, b.Holder = durable.BlockSignal, "the sender of the signal"
		body, _ := json.Marshal(map[string]string{"name": a.Awaits}) // words alone
		b.Remedies = []job.Remedy{{
			Doc: "sends the signal", Command: "stagepost flow signal " + string(v.Job.ID) + " " + job.Quoted(a.Awaits) +
				" VALUE",
			Method: "POST", Path: "/api/v1/flows/" + string(v.Job.ID) + "/signal", Body: body,
		}}
	case a.Failure != nil:
		b.Since, b.Remedy = a.Ended, "correct the reason; the next attempt starts by itself"
	}
	return b
}
