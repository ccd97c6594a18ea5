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

// whyCapacity checks the limits and the slots.
func (e *Explainer) whyCapacity(ctx context.Context, w *engine.Work, j *job.Job, x *api.Explanation) error {
	if j.Claimed() || w.Steps[j.State] == nil {
		return nil
	}
	full := false
	for i := range w.Limits {
		l := &w.Limits[i]
		n, err := e.under(ctx, l, j)
		if err != nil {
			return err
		}
		if n >= l.Max {
			full = true
			x.Blockers = append(x.Blockers, job.Blocker{
				Code: BlockLimit, Holder: l.Name,
				Sentence: fmt.Sprintf("%d of %d are under way by the limit %s", n, l.Max, l.Name),
				Remedy:   "wait for one of them to end, or raise the limit",
				Remedies: []job.Remedy{job.Running("list --open --kind "+job.Quoted(string(j.Kind)),
					"lists the jobs of its kind that have not ended")},
			})
		}
	}
	if !full {
		x.Not = append(x.Not, "no limit is reached")
	}
	now := e.engine.Status()
	slots := now.Pool(j.Kind)
	for _, b := range []*job.Blocker{whyStopped(now), whyAlone(now)} {
		if b != nil {
			x.Blockers = append(x.Blockers, *b)
			return nil
		}
	}
	free := slots.Slots - slots.Busy
	if free == 0 {
		x.Blockers = append(x.Blockers, job.Blocker{
			Code: BlockBusy, Holder: now.Worker, Remedy: "wait, or give the server more slots",
			Sentence: fmt.Sprintf("all %d slots are taken", slots.Slots), Remedies: []job.Remedy{goesFirst(j)},
		})
		return nil
	}
	x.Not = append(x.Not, fmt.Sprintf("%d of %d slots are free", free, slots.Slots))
	if len(x.Blockers) > 0 {
		return nil
	}
	slots.Next.N = free
	return e.whyBehind(ctx, j, x, slots.Next)
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

// whyBehind reports whether the next claim would include the job.
func (e *Explainer) whyBehind(ctx context.Context, j *job.Job, x *api.Explanation, claim job.Claim) error {
	claim.Dry = true
	next, err := e.store.Claim(ctx, claim)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(next, func(o job.Job) bool { return o.ID == j.ID }) {
		x.Not = append(x.Not, "it is among the next that are taken")
		return nil
	}
	x.Blockers = append(x.Blockers, job.Blocker{
		Code: BlockBehind, Holder: claim.Worker,
		Sentence: fmt.Sprintf("%d others go first: they have a better priority, came earlier, "+
			"or it is their owner's turn", len(next)),
		Remedy: "wait, or let it go before others", Remedies: []job.Remedy{goesFirst(j)},
	})
	return nil
}

// goesFirst returns the remedy that puts a job before all others.
func goesFirst(j *job.Job) job.Remedy {
	return job.Reordering(j.ID, job.FirstPriority, "puts it before all jobs of a lower priority")
}

// under counts the jobs that limit l counts together with job j, or returns -1 if the limit does not guard the job or
// already counts it. It reads all jobs of the limit, which is for explanations, not for claims.
func (e *Explainer) under(ctx context.Context, l *job.Limit, j *job.Job) (int, error) {
	switch {
	case len(l.Guard) > 0 && !slices.Contains(l.Guard, j.State), slices.Contains(l.Occupy, j.State),
		l.Group != "" && l.Group != j.Group, l.Owner != "" && l.Owner != j.Owner,
		l.Tag != "" && !slices.Contains(j.Tags, l.Tag):
		return -1, nil
	}
	live := false
	q := job.Query{Kinds: []job.Kind{l.Kind}, Group: l.Group, Owner: l.Owner, Tag: l.Tag, Ended: &live, Limit: 1000}
	if l.PerGroup {
		q.Group = j.Group
	}
	if l.PerOwner {
		q.Owner = j.Owner
	}
	n := 0
	for {
		page, err := e.store.List(ctx, q)
		if err != nil {
			return 0, err
		}
		for i := range page.Jobs {
			o := &page.Jobs[i]
			same := (!l.PerGroup || o.Group == j.Group) && (!l.PerOwner || o.Owner == j.Owner)
			guarded := len(l.Guard) == 0 || slices.Contains(l.Guard, o.State)
			if same && (slices.Contains(l.Occupy, o.State) || guarded && o.Claimed()) {
				n++
			}
		}
		if page.Next == "" {
			return n, nil
		}
		q.After = page.Next
	}
}
