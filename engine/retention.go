package engine

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Retention states how ended jobs are cleared away. What is old goes by the wall clock, and the wall clock may be
// wrong: a check is left out while the clock has jumped, and one check takes no more than a share of what there is
// (reliability rule R12).
type Retention struct {
	Every time.Duration // between checks; defaults to 1 h
	// percent of a kind's ended jobs that one check may take; defaults to 20, but never fewer than 100 jobs
	Share int
	Jump  time.Duration // difference between wall and steady clock that freezes retention; defaults to 1 h
	// for which no engine may have worked on the store until the clock of the next one is in doubt; defaults to 24 h
	Away time.Duration

	// Unattended states that there is no one to confirm the clock: a doubt at the start is none, but what ended before
	// a jump forward is kept for its full time from the start on.
	Unattended bool

	Records time.Duration // how long tombstones are kept before they are purged from the store. Zero: indefinitely
	// how long the logs of ended jobs are kept, if they are files (package joblog). Zero: as long as the record
	Logs time.Duration

	// Clear removes what else belongs to a job whose record is about to be purged: directories, references. After an
	// error the record stays until the next check. Defaults to nothing.
	Clear func(ctx context.Context, j *job.Job) error
}

// logFiles is implemented by job logs whose files retention may remove, such as those of package joblog.
type logFiles interface {
	// Remove deletes the log of a job; there may be none.
	Remove(id job.ID) error
	// Each gives the jobs that have logs and when these were last written, in no order, until do states that it is
	// enough.
	Each(do func(id job.ID, written time.Time) (goOn bool)) error
}

// withDefaults fills in what is zero.
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

// keepEvery is how often the store is given the time.
const keepEvery = 5 * time.Minute

type retention struct {
	Retention
	clock clock.Clock
	guard *clock.Guard
	next  time.Time // of a check
	keep  time.Time // of the time
}

func newRetention(o Retention, c clock.Clock, g *clock.Guard) *retention {
	return &retention{Retention: o, clock: c, guard: g, next: c.Now().Add(o.Every), keep: c.Now().Add(keepEvery)}
}

// run appears again and again until ctx ends. It has a goroutine of its own: a check may take minutes, and what ran out
// of time meanwhile must not wait.
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
					e.log.Error("the time could not be kept", "error", err)
				}
			}
			r.sweep(ctx, e)
		}
	}
}

// sweep takes the timer's transition out of ends for jobs that are kept long enough, purges tombstones and removes old
// logs. Only run calls it.
func (r *retention) sweep(ctx context.Context, e *Engine) {
	now := r.clock.Now()
	if now.Before(r.next) {
		return
	}
	r.next = now.Add(r.Every)
	if c := r.guard.State(); c.Doubt != "" {
		e.log.Warn("the clock is in doubt; nothing is removed by its age until it agrees again or a person confirms it",
			"doubt", c.Doubt, "by", c.By.Round(time.Second), "confirm", "stagepost admin clock --confirm")
		return
	}
	for _, w := range e.kindsNow().works {
		if before, ok := r.guard.Before(w.Keep); ok && w.Keep > 0 {
			if err := r.clear(ctx, e, w, before); err != nil && ctx.Err() == nil {
				e.log.Error("retention", "kind", w.Life.Name(), "error", err)
			}
		}
		if before, ok := r.guard.Before(r.Records); ok && r.Records > 0 {
			if err := r.purge(ctx, e, w, before); err != nil && ctx.Err() == nil {
				e.log.Error("purge", "kind", w.Life.Name(), "error", err)
			}
		}
	}
	if err := r.clearLogs(ctx, e); err != nil && ctx.Err() == nil {
		e.log.Error("retention of job logs", "error", err)
	}
}

func (r *retention) clear(ctx context.Context, e *Engine, w *Work, before time.Time) error {
	ends := map[job.ID][]lifecycle.State{} // of batches that were asked for
	return r.each(ctx, e, w, before, func(s lifecycle.Stage) bool { return s.Kind == lifecycle.End && leftByTimer(w, s) }, func(j *job.Job) (bool, error) {
		if j.Children.Open > 0 {
			return false, nil // a job was sent back and still needs its batch
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
			return false, nil // the report of its batch will report of it
		}
		err := e.clean(ctx, w, j, in)
		return err == nil, err
	})
}

// endsOf gives the states in which a batch has ended, or none while it has not.
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

// each goes through the jobs of the wanted states that have not changed since a time, the oldest first, and stops after
// its share of what there is. do reports whether it did anything.
func (r *retention) each(ctx context.Context, e *Engine, w *Work, before time.Time, wanted func(lifecycle.Stage) bool,
	do func(*job.Job) (bool, error)) error {
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
	q := job.Query{Kinds: []job.Kind{w.kind()}, States: states, Before: before, Oldest: true, Limit: 500}
	for left > 0 {
		page, err := e.store.List(ctx, q)
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
			case err != nil && kind != job.Conflict && kind != job.Refused && kind != job.NotFound: // one record must not keep the others
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

func leftByTimer(w *Work, s lifecycle.Stage) bool {
	for _, a := range s.Transitions {
		if a.By&lifecycle.Timer != 0 {
			return true
		}
	}
	return false
}

// clean takes the timer's transition out of an end, unless jobs of the batch were sent back meanwhile; the job's own
// batch must be in one of the states.
func (e *Engine) clean(ctx context.Context, w *Work, j *job.Job, batchIn []lifecycle.State) error {
	ev, ok := w.Life.Choose(j.Position, lifecycle.Move, lifecycle.Timer)
	if !ok || !w.knows(j) {
		return nil
	}
	return e.untold(ctx, w, j, ev, lifecycle.Timer, e.clock.Now(), func(c *job.Change) {
		c.Note = "kept long enough"
		c.Require.Idle, c.Require.ParentIn = true, batchIn
	})
}
