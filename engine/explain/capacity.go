package explain

import (
	"context"
	"fmt"
	"slices"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/status"
	"github.com/stagepost/stagepost/job"
)

// whyCapacity checks the limits and the slots, by what the next claim of the engine would do.
func (e *Explainer) whyCapacity(ctx context.Context, w *engine.Work, j *job.Job, x *api.Explanation) error {
	if j.Claimed() || w.Steps[j.State] == nil || !e.takenHere(j) {
		return nil
	}
	now := e.engine.Status()
	slots := now.Pool(j.Kind)
	free := slots.Slots - slots.Busy
	claim := slots.Next
	claim.N = free
	forecast, err := e.store.Peek(ctx, claim, j.ID)
	if err != nil {
		return err
	}
	whyLimited(j, forecast.Limits, x)
	for _, b := range []*job.Blocker{whyStopped(now), whyAlone(now)} {
		if b != nil {
			x.Blockers = append(x.Blockers, *b)
			return nil
		}
	}
	if free == 0 {
		x.Blockers = append(x.Blockers, job.Blocker{
			Code: BlockBusy, Holder: now.Worker, Remedy: "wait, or give the server more slots",
			Sentence: taken(slots.Slots), Remedies: []job.Remedy{goesFirst(j)},
		})
		return nil
	}
	x.Not = append(x.Not, fmt.Sprintf("%d of %d slots are free", free, slots.Slots))
	if len(x.Blockers) == 0 {
		whyBehind(j, x, claim.Worker, forecast.Next)
	}
	return nil
}

// whyLimited adds the limits that are reached.
func whyLimited(j *job.Job, limits []job.LimitUse, x *api.Explanation) {
	full := false
	for i := range limits {
		l := &limits[i]
		if !l.Full() {
			continue
		}
		full = true
		x.Blockers = append(x.Blockers, job.Blocker{
			Code: BlockLimit, Holder: l.Name,
			Sentence: fmt.Sprintf("%d of %d are under way by the limit %s", l.Active, l.Max, l.Name),
			Remedy:   "wait for one of them to end, or raise the limit",
			Remedies: []job.Remedy{job.Running("list --open --kind "+job.Quoted(string(j.Kind)),
				"lists the jobs of its kind that have not ended")},
		})
	}
	if !full {
		x.Not = append(x.Not, "no limit is reached")
	}
}

func whyStopped(c *status.Engine) *job.Blocker {
	if c.Open {
		return nil
	}
	return &job.Blocker{Code: cause.Stopped, Holder: c.Worker, Sentence: "no worker takes jobs here",
		Remedy:   "start the engine",
		Remedies: []job.Remedy{job.Running("admin health", "shows the state of the server")}}
}

// whyAlone returns the blocker while a suspect runs alone, or waits to.
func whyAlone(c *status.Engine) *job.Blocker {
	switch {
	case c.Alone != "":
		return &job.Blocker{
			Code: BlockAlone, Holder: string(c.Alone),
			Sentence: fmt.Sprintf("%s runs alone: the last workers that had it ended without a report", c.Alone),
			Remedy:   "nothing: it goes on by itself when that job reports, or after a while",
			Remedies: []job.Remedy{job.Running("why "+string(c.Alone), "explains that job")},
		}
	case c.Draining:
		return &job.Blocker{
			Code: BlockAlone, Holder: c.Worker,
			Sentence: "nothing is begun until a job can run alone whose last workers ended without a report",
			Remedy:   "nothing: it goes on by itself within a minute",
		}
	}
	return nil
}

// whyBehind reports whether the next claim would include the job; next are the jobs that it would grant.
func whyBehind(j *job.Job, x *api.Explanation, worker string, next []job.ID) {
	if slices.Contains(next, j.ID) {
		x.Not = append(x.Not, "it is among the next that are taken")
		return
	}
	x.Blockers = append(x.Blockers, job.Blocker{
		Code: BlockBehind, Holder: worker,
		Sentence: counted(len(next), "other goes first", "others go first") +
			": by a better priority, an earlier time, or the turn of the owner",
		Remedy: "wait, or let it go before others", Remedies: []job.Remedy{goesFirst(j)},
	})
}

// goesFirst returns the remedy that puts a job before all others.
func goesFirst(j *job.Job) job.Remedy {
	return job.Reordering(j.ID, job.FirstPriority, "puts it before all jobs of a lower priority")
}

// taken states that all slots are in use.
func taken(slots int) string {
	if slots == 1 {
		return "the only slot is taken"
	}
	return fmt.Sprintf("all %d slots are taken", slots)
}
