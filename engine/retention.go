package engine

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Retention states how ended jobs are removed. Ages are measured by the wall clock, which may be wrong: no check is
// made while the clock is in doubt, and one check removes at most a share of the ended jobs (reliability rule R12).
type Retention struct {
	Every time.Duration // between checks; defaults to 1 h
	// percent of a kind's ended jobs that one check may take; defaults to 20, but never fewer than 100 jobs
	Share int
	Jump  time.Duration // difference between wall and steady clock that freezes retention; defaults to 1 h
	// time without an engine on the store after which the clock of the next one is in doubt; defaults to 24 h
	Away time.Duration

	// Unattended states that no person can confirm the clock. The engine then confirms it at its start; what ended
	// before a jump forward is kept for its full time from the start on.
	Unattended bool

	Records time.Duration // how long tombstones are kept before they are purged from the store. Zero: indefinitely
	// how long the logs of ended jobs are kept, if they are files (package joblog). Zero: as long as the record
	Logs time.Duration

	// Clear removes what an application stored for a job whose record is about to be purged, such as directories. After
	// an error the record stays until the next check. Defaults to nothing.
	Clear func(ctx context.Context, j *job.Job) error
}

// logFiles is implemented by job logs whose files retention may remove, such as those of package joblog.
type logFiles interface {
	// Remove deletes the log of a job; there may be none.
	Remove(id job.ID) error
	// Each calls do with each job that has a log and the time of the last write, in no order, until do returns false.
	Each(do func(id job.ID, written time.Time) (goOn bool)) error
}

// withDefaults returns the options with the defaults.
func (o Retention) withDefaults() Retention {
	if o.Every <= 0 {
		o.Every = time.Hour
	}
	if o.Share <= 0 {
		o.Share = 20
	}
	if o.Jump <= 0 {
		o.Jump = time.Hour
	}
	if o.Away <= 0 {
		o.Away = 24 * time.Hour
	}
	return o
}

// keepEvery is the time between two writes of the clock to the store.
const keepEvery = 5 * time.Minute

type retention struct {
	Retention
	clock    clock.Clock
	guard    *clock.Guard
	nextJobs time.Time // next check of the jobs, if the engine leads then
	nextLogs time.Time // next check of the logs
	keep     time.Time // next write of the clock
}

func newRetention(o Retention, c clock.Clock, g *clock.Guard) *retention {
	next := c.Now().Add(o.Every)
	return &retention{Retention: o, clock: c, guard: g, nextJobs: next, nextLogs: next, keep: c.Now().Add(keepEvery)}
}

// run makes checks until ctx ends. It has its own goroutine because a check may take minutes, during which timeouts
// must not wait.
func (r *retention) run(ctx context.Context, e *Engine) {
	tick := time.NewTicker(e.options.Sweep)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if now := r.clock.Now(); !now.Before(r.keep) {
				r.keep = now.Add(keepEvery)
				if err := e.keepClock(ctx); err != nil && ctx.Err() == nil {
					e.log.Error("the time could not be stored", "error", err)
				}
			}
			r.sweep(ctx, e)
		}
	}
}

// sweep clears ended jobs that were kept long enough and purges tombstones if the engine leads, and removes old logs,
// which are files of this server. Only run calls it.
func (r *retention) sweep(ctx context.Context, e *Engine) {
	now := r.clock.Now()
	jobs, logs := !now.Before(r.nextJobs) && e.Leads(), !now.Before(r.nextLogs)
	if !jobs && !logs {
		return
	}
	if jobs {
		r.nextJobs = now.Add(r.Every)
	}
	if logs {
		r.nextLogs = now.Add(r.Every)
	}
	if c := r.guard.State(); c.Doubt != "" {
		e.log.Warn("the clock is in doubt; nothing is removed by its age until it agrees again or a person confirms it",
			"doubt", c.Doubt, "by", c.By.Round(time.Second), "confirm", "stagepost admin clock --confirm")
		return
	}
	if jobs {
		r.sweepJobs(ctx, e)
	}
	if !logs {
		return
	}
	if err := r.clearLogs(ctx, e); err != nil && ctx.Err() == nil {
		e.log.Error("retention of job logs", "error", err)
	}
}

// sweepJobs clears ended jobs and purges tombstones of all kinds.
func (r *retention) sweepJobs(ctx context.Context, e *Engine) {
	for _, w := range e.kindsNow().works {
		if before, ok := r.guard.Before(w.Keep); ok && w.Keep > 0 {
			if err := r.clearEnds(ctx, e, w, before); err != nil && ctx.Err() == nil {
				e.log.Error("retention", "kind", w.Life.Name(), "error", err)
			}
		}
		if before, ok := r.guard.Before(r.Records); ok && r.Records > 0 {
			if err := r.purge(ctx, e, w, before); err != nil && ctx.Err() == nil {
				e.log.Error("purge", "kind", w.Life.Name(), "error", err)
			}
		}
	}
}

// clearEnds causes the timer's event for the ended jobs of a kind that have not changed since a time.
func (r *retention) clearEnds(ctx context.Context, e *Engine, w *Work, before time.Time) error {
	ends := map[job.ID][]lifecycle.State{} // of the batches that were read
	return r.each(ctx, e, w, before, leftByTimer, func(j *job.Job) (bool, error) {
		if j.Children.Open > 0 {
			return false, nil // a job was retried and still needs its batch
		}
		in, known := ends[j.Parent]
		if !known && j.Parent != "" {
			var err error
			if in, err = e.endsOf(ctx, j.Parent); err != nil {
				return false, err
			}
			ends[j.Parent] = in
		}
		if j.Parent != "" && in == nil {
			return false, nil // the report of its batch will list it
		}
		err := e.clearEnd(ctx, w, j, in)
		return err == nil, err
	})
}

// endsOf returns the states in which a batch has ended, or none if it has not.
func (e *Engine) endsOf(ctx context.Context, batch job.ID) ([]lifecycle.State, error) {
	b, err := e.store.Get(ctx, batch)
	if err != nil || !b.Ended {
		return nil, err
	}
	ends := []lifecycle.State{b.State}
	if w := e.workOf(b.Kind); w != nil {
		for _, s := range w.Life.Stages() {
			if s.Kind == lifecycle.End {
				ends = append(ends, s.State)
			}
		}
	}
	return ends, nil
}

// each calls do with the jobs of the wanted states that have not changed since a time, until its share is reached. do
// reports whether it removed anything.
func (r *retention) each(
	ctx context.Context, e *Engine, w *Work, before time.Time,
	wanted func(lifecycle.Stage) bool, do func(*job.Job) (bool, error),
) error {
	tallies, err := e.store.Count(ctx)
	if err != nil {
		return err
	}
	var states []lifecycle.State
	there := int64(0)
	for _, s := range w.Life.Stages() {
		if !wanted(s) {
			continue
		}
		states = append(states, s.State)
		for _, t := range tallies {
			if t.Kind == w.kind() && t.State == s.State {
				there += t.Jobs
			}
		}
	}
	if len(states) == 0 || there == 0 {
		return nil
	}
	left := max(100, int(there)*r.Share/100)
	q := job.EndedQuery{Kind: w.kind(), States: states, Before: before, Limit: 500}
	for left > 0 {
		page, err := e.store.ListEnded(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			if left == 0 {
				return nil
			}
			done, err := do(&page.Jobs[i])
			switch kind := job.KindOf(err); {
			case kind == job.Unavailable || ctx.Err() != nil:
				return err
			case err != nil && kind != job.Conflict && kind != job.Refused && kind != job.NotFound:
				// continue: one record must not block the others
				e.log.Error("retention", "job", page.Jobs[i].ID, "error", err)
			}
			if done {
				left--
			}
		}
		if page.Next == "" {
			return nil
		}
		q.After = page.Next
	}
	return nil
}

// leftByTimer reports whether a state is an end that a timer leaves.
func leftByTimer(s lifecycle.Stage) bool {
	if s.Kind != lifecycle.End {
		return false
	}
	for _, a := range s.Transitions {
		if a.By&lifecycle.Timer != 0 {
			return true
		}
	}
	return false
}

// clearEnd causes the timer's event for an ended job. Its own children must have ended, and its batch must be in one of
// the states.
func (e *Engine) clearEnd(ctx context.Context, w *Work, j *job.Job, batchIn []lifecycle.State) error {
	ev, ok := w.Life.Choose(j.Position, lifecycle.Move, lifecycle.Timer)
	if !ok || !w.supports(j) {
		return nil
	}
	return e.commitUnreported(ctx, w, j, ev, lifecycle.Timer, e.clock.Now(), func(t *transition) {
		t.Note = "kept long enough"
		t.Require.Idle, t.Require.ParentIn = true, batchIn
	})
}
