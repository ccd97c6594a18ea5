package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// held is the event by which a hold takes a job out of a queue state, where the table has it for workers
// ([Work.Parks]).
const held lifecycle.Event = "hold"

// Hold is part of operator.Acts.
func (e operators) Hold(ctx context.Context, s job.Scope, who, why string, until time.Time) ([]job.Hold, error) {
	if why == "" {
		return nil, job.Errorf(job.Invalid, "hold", "",
			"a hold needs a reason (note), which why shows for each held job")
	}
	if who == "" {
		return nil, unnamed("hold", "")
	}
	h := job.Hold{Scope: s, Who: who, Why: why, Since: e.clock.Now(), Until: until,
		Address: job.AddressOf(ctx)}
	holds, err := e.store.Hold(ctx, h)
	if err == nil {
		signal(e.parking)
		if !until.IsZero() {
			e.alarm(until)
		}
	}
	return holds, err
}

// Release is part of operator.Acts.
func (e operators) Release(ctx context.Context, s job.Scope, who, why string) ([]job.Hold, error) {
	if who == "" {
		return nil, unnamed("release", "")
	}
	h := job.Hold{Scope: s, Who: who, Why: why, Since: e.clock.Now(), Address: job.AddressOf(ctx)}
	holds, err := e.store.Release(ctx, h)
	if err == nil {
		e.wakeDispatcher()
	}
	return holds, err
}

// begins reports whether a change takes a job from a queue state into work. The commit of such a change checks the
// holds.
func (w *Work) begins(c *job.Change) bool {
	a, ok := w.Life.Transition(c.From, c.Event)
	return ok && a.Class == lifecycle.Pass && w.Life.Kind(c.From) == lifecycle.Queue
}

// putBack ends an attempt to begin a job that is now held. The job moves to the state for held jobs, or stays and
// waits. commit commits in the name of the worker.
func (e *Engine) putBack(
	ctx context.Context, w *Work, j *job.Job, actor string, refusal error, commit func(*transition) (job.Job, error),
) (job.Job, error) {
	holds, err := e.store.Holds(ctx)
	if err != nil {
		return *j, err
	}
	now := e.clock.Now()
	parking := func(h job.Hold) bool { return h.On(now) && h.Matches(j) && parks(w, j.State, &h) }
	if i := slices.IndexFunc(holds, parking); i >= 0 {
		t, err := aside(w, j, &holds[i], now)
		if err != nil {
			return *j, err
		}
		t.underClaim(actor)
		moved, err := commit(t)
		if job.KindOf(err) != job.Conflict { // else the hold was released in between
			return moved, err
		}
	}
	t := newTransition(w, j, now)
	if err := t.move(lifecycle.Waiting, lifecycle.Worker); err != nil {
		return *j, err
	}
	t.underClaim(actor)
	t.reason(cause.Hold, job.Reason(refusal))
	return commit(t)
}

// park moves held jobs out of their queue states, where the hold parks them. It is called at intervals, because jobs
// may arrive after the hold.
func (e *Engine) park(ctx context.Context) {
	if err := e.parkAll(ctx); err != nil && ctx.Err() == nil {
		e.log.Error("put held jobs aside", "error", err) // the next sweep tries again
	}
}

func (e *Engine) parkAll(ctx context.Context) error {
	holds, err := e.store.Holds(ctx)
	now := e.clock.Now()
	if holds = slices.DeleteFunc(holds, func(h job.Hold) bool { return !h.On(now) }); err != nil || len(holds) == 0 {
		return err
	}
	tallies, err := e.store.Count(ctx)
	if err != nil {
		return err
	}
	for _, t := range tallies {
		w := e.workOf(t.Kind)
		if w == nil || t.Jobs == t.Claimed {
			continue
		}
		for i := range holds {
			h := &holds[i]
			if parks(w, t.State, h) && (h.Group == "" || h.Group == t.Group) {
				if err := e.parkTally(ctx, w, t, h); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// parks reports whether hold h parks jobs of the kind in the state. It does not compare the rest of the scope.
func parks(w *Work, s lifecycle.State, h *job.Hold) bool {
	if w.Parks == nil || (h.Kind != "" && h.Kind != w.kind()) || (h.State != "" && h.State != s) || !w.Parks(h) {
		return false
	}
	a, ok := w.Life.Transition(s, held)
	return ok && w.Life.Kind(s) == lifecycle.Queue && a.By&lifecycle.Worker != 0
}

// parkTally parks the held jobs of one tally, up to 500 in a commit.
func (e *Engine) parkTally(ctx context.Context, w *Work, t job.Tally, h *job.Hold) error {
	q := job.Query{Kinds: []job.Kind{t.Kind}, States: []lifecycle.State{t.State}, Group: t.Group, Owner: h.Owner,
		Tag: h.Tag, Oldest: true, Limit: 500}
	if h.Job != "" {
		if err := e.parkOne(ctx, w, t, h); err != nil {
			return err
		}
		q.Parent = h.Job
	}
	for {
		page, err := e.store.List(ctx, q)
		if err != nil {
			return err
		}
		if err := e.parkJobs(ctx, w, page.Jobs, h); err != nil || page.Next == "" {
			return err
		}
		e.sweepAdvanced()
		q.After = page.Next
	}
}

// parkOne parks the job that a hold names.
func (e *Engine) parkOne(ctx context.Context, w *Work, t job.Tally, h *job.Hold) error {
	j, err := e.store.Get(ctx, h.Job)
	if job.KindOf(err) == job.NotFound {
		return nil
	}
	if err != nil || j.Kind != t.Kind || j.State != t.State {
		return err
	}
	return e.parkJobs(ctx, w, []job.Job{j}, h)
}

func (e *Engine) parkJobs(ctx context.Context, w *Work, jobs []job.Job, h *job.Hold) error {
	var parked []*transition
	for i := range jobs {
		if j := &jobs[i]; !j.Claimed() && w.supports(j) && h.Matches(j) {
			t, err := aside(w, j, h, e.clock.Now())
			if err != nil {
				return err
			}
			t.asRead(e.name)
			parked = append(parked, t)
		}
	}
	results, err := e.commitAll(ctx, parked)
	for i := range results {
		if k := job.KindOf(results[i].Err); err == nil && results[i].Err != nil && k != job.Conflict && k != job.Stale {
			err = results[i].Err
		}
	}
	return err
}

// aside makes the change by which hold h moves a job out of its queue.
func aside(w *Work, j *job.Job, h *job.Hold, now time.Time) (*transition, error) {
	t := newTransition(w, j, now)
	if err := t.move(held, lifecycle.Worker); err != nil {
		return nil, err
	}
	t.Require.Held = true
	t.reason(cause.Hold, fmt.Sprintf("%s was put on hold: %s (by %s)", h.Scope, h.Why, h.Who))
	return t, nil
}
